"""Under ``latest`` a program's second job of one name is refused, or gets a name of its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.cells import cells

from penstock._engine.driver.client.submissions import Submissions
from penstock._engine.graph.chaining import build_job_graph
from penstock.common import JobStatus
from penstock.common.configuration import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import RepeatedJobError

if TYPE_CHECKING:
    from penstock._engine.graph.job_graph import JobGraph

RAN = {JobStatus.RUNNING: 1}


def job_of(*values: int, name: str = "prices", factor: int = 2) -> JobGraph:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection(list(values)).map(lambda value: value * factor).print()
    graph = build_job_graph(env._stream_graph(name))
    env.close()
    return graph


def settings(**changes: str) -> Configuration:
    given = {"execution.state-recovery.path": "latest", "execution.checkpointing.dir": "/checkpoints"}

    return Configuration.from_dict(given | changes)


def submit(jobs: Submissions, graph: JobGraph, configuration: Configuration, view: Any = None, **how: bool) -> str:
    with jobs.admitted(graph, configuration, named_apart=how.get("named_apart", False)) as job:
        job.driver = SimpleNamespace(view=view)  # type: ignore[assignment]
    return job.name


def view(status: JobStatus, *, is_complete: bool = False, ran: bool = True) -> Any:
    ended = None if status is JobStatus.RUNNING else 1
    return SimpleNamespace(status=status, is_complete=is_complete, ended=ended, status_times=RAN if ran else {})


RUNS, STOPPED = view(JobStatus.RUNNING), view(JobStatus.FINISHED)
CANCELED = view(JobStatus.CANCELED)
FINISHED, HAD_FINISHED = view(JobStatus.FINISHED, is_complete=True), view(JobStatus.FINISHED, ran=False)


@cells("first", {"running": RUNS, "finished": FINISHED, "finished in an earlier process": HAD_FINISHED})
def test_a_second_job_of_one_name_is_refused_with_latest(first: Any) -> None:
    jobs = Submissions()
    submit(jobs, job_of(1), settings(), first)
    with pytest.raises(RepeatedJobError, match=r"'prices' is refused.* of that name before.*penstock\.job-id"):
        submit(jobs, job_of(1), settings())


@cells("first", {"stopped": STOPPED, "failed": view(JobStatus.FAILED, ran=False), "cancelled": CANCELED})
def test_a_job_that_has_not_finished_may_be_continued_unless_another_reads_something_else(first: Any) -> None:
    jobs = Submissions()
    submit(jobs, job_of(1), settings(), first)
    assert submit(jobs, job_of(1, factor=3), settings()) == "prices"  # as after a change in a notebook
    jobs = Submissions()
    submit(jobs, job_of(1), settings(), first)
    with pytest.raises(RepeatedJobError):
        submit(jobs, job_of(1000), settings())


@cells(
    "graph, changes",
    {
        "another name": (job_of(1, name="others"), {}),
        "another id": (job_of(1), {"penstock.job-id": "a" * 32}),
        "another directory": (job_of(1), {"execution.checkpointing.dir": "/others"}),
        "without latest": (job_of(1), {"execution.state-recovery.path": "/checkpoints/chk-7"}),
    },
)
def test_other_jobs_run_beside_the_first(graph: JobGraph, changes: dict[str, str]) -> None:
    jobs = Submissions()
    submit(jobs, job_of(1), settings(), FINISHED)
    assert submit(jobs, graph, settings(**changes)) == graph.name


def test_one_id_for_two_names_is_refused_as_well() -> None:
    jobs, one_id = Submissions(), {"penstock.job-id": "a" * 32}
    submit(jobs, job_of(1), settings(**one_id), FINISHED)
    with pytest.raises(RepeatedJobError, match=r"'others' is refused.*penstock\.job-id 'a+' before"):
        submit(jobs, job_of(1, name="others"), settings(**one_id))


def test_a_supervised_program_has_a_name_for_each_job_in_each_of_its_processes() -> None:
    for _ in range(2):
        jobs = Submissions()
        names = [submit(jobs, job_of(each), settings(), FINISHED, named_apart=True) for each in range(3)]
        assert names == ["prices", "prices (2)", "prices (3)"]


def test_a_job_that_could_not_start_counts_as_never_submitted() -> None:
    jobs = Submissions()
    with pytest.raises(OSError, match="no Spark"), jobs.admitted(job_of(1), settings(), named_apart=False):
        raise OSError("no Spark")
    assert submit(jobs, job_of(1), settings()) == "prices"
