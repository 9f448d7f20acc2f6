"""The jobs of the matrix on Spark, stopped where their readers wait at the gate; what is left goes on to the truth.

A few cells in ``make test``; ``make campaign`` takes all but those that need a clock to turn or a process to kill.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.fault.support import SHARD
from tests.kit.diaries import Ending
from tests.lifecycle.subjects import GRIDS, SUBJECTS, Place, Subject, flat, published_in

from penstock.common import Configuration, JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import JobCancelledError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.common.job_client import JobClient

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

PATIENCE_S = 120
ENDINGS = (Ending.ENDS, Ending.SUSPEND, Ending.DRAIN, Ending.CANCEL)
CHOSEN = {
    "bounded ends, two-phase sinks at three levels",
    "bounded ends, two inputs that end apart",
    "suspend, two inputs that end apart",
    "suspend, partly finished operator",
    "suspend, broadcast state",
    "suspend, event timers pending",
    "drain, windows open",
    "drain, union list state",
    "cancel, windows open",
    "cancel, union list state",
}
ALL = {
    f"{ending.value}, {subject}": (ending, subject)
    for ending in ENDINGS
    for subject in SUBJECTS
    if subject.name != "processing timers pending"
}
CELLS = [pytest.param(*cell, id=name) for name, cell in ALL.items() if name in CHOSEN or SHARD is not None]


def start(place: Path, subject: Subject, restore: str = "latest") -> JobClient:
    """Start a job that waits at the gate."""
    configuration = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": str(place / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(place / "savepoints"),
        "execution.state-recovery.path": restore,
        "restart-strategy.type": "none",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(configuration))
    env.set_parallelism(1)
    subject.build(Place(env, place / "out", gate=place / "gate"))
    return env.execute_async(subject.name)


def wait_at_the_gate(client: JobClient, subject: Subject) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while client._driver.progress.records < subject.before:
        assert not client.get_job_status().result().is_terminal_state()
        assert time.monotonic() < deadline, "the job did not come to the gate"
        time.sleep(0.02)


def end(client: JobClient, ending: Ending) -> str:
    """End a job, and return what it goes on from."""
    if ending is Ending.CANCEL:
        client.cancel()
        with pytest.raises(JobCancelledError):
            client.get_job_execution_result().result(PATIENCE_S)
        return "latest"
    path = client.stop_with_savepoint(ending is Ending.DRAIN).result(PATIENCE_S)
    assert client.get_job_status().result() is JobStatus.FINISHED
    return path


@pytest.mark.behaviour(46, 47, 48, 63)
@pytest.mark.parametrize(("ending", "subject"), CELLS)
def test_job_that_ends_in_any_way_and_goes_on_leaves_the_truth(
    tmp_path: Path, ending: Ending, subject: Subject
) -> None:
    (tmp_path / "out").mkdir()
    client = start(tmp_path, subject)
    wait_at_the_gate(client, subject)
    if ending is not Ending.ENDS:
        restore = end(client, ending)
        pending = [one for counts in published_in(tmp_path / "out").values() for one in counts if subject.pending(one)]
        assert bool(pending) == (ending is Ending.DRAIN and subject.has_pending)
        client = start(tmp_path, subject, restore)
    (tmp_path / "gate").touch()
    client.get_job_execution_result().result(PATIENCE_S)
    assert flat(published_in(tmp_path / "out"), subject) == flat(subject.truth, subject)


@pytest.mark.skipif(SHARD is None, reason="long: for the campaign")
@pytest.mark.parametrize("subject", GRIDS, ids=str)
@pytest.mark.parametrize("ending", [Ending.SUSPEND, Ending.DRAIN], ids=lambda ending: ending.value)
def test_wide_and_deep_jobs_start_and_stop(tmp_path: Path, ending: Ending, subject: Subject) -> None:
    test_job_that_ends_in_any_way_and_goes_on_leaves_the_truth(tmp_path, ending, subject)
