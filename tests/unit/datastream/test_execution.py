"""execute, execute_async and execute_and_collect: what is submitted, and what comes back."""

from __future__ import annotations

import importlib
import re
import sys
from typing import TYPE_CHECKING

import pytest
from tests.unit.datastream.fake_launch import FakeLaunch, install

from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.graph.job_graph import JobType
from penstock._engine.operators.factories.sources_and_sinks import CollectFactory
from penstock.common import Configuration, JobClient, JobExecutionResult, JobListener, JobStatus, WatermarkStrategy
from penstock.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.base import Boundedness
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.data_stream import CloseableIterator
from penstock.errors import ConfigurationError, EmptyJobError, JobExecutionError, UnsupportedOperationError

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


class Endless(NumberSequenceSource):
    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch) -> FakeLaunch:
    return install(monkeypatch)


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


def collect(stream: DataStream) -> CloseableIterator:
    iterator = stream.execute_and_collect()
    assert isinstance(iterator, CloseableIterator)
    return iterator


def endless(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_source(Endless(1, 2), WatermarkStrategy.no_watermarks(), "endless")


def names(launch: FakeLaunch) -> list[list[str]]:
    return [[node.name for vertex in handle.graph.vertices for node in vertex.operators] for handle in launch.handles]


@pytest.mark.behaviour(178)
def test_execute_waits_and_returns_the_result(env: StreamExecutionEnvironment, launch: FakeLaunch) -> None:
    env.from_collection([1]).print()
    result = env.execute("my job")
    assert (launch.handles[0].graph.name, result.get_net_runtime()) == ("my job", 12)
    assert result.get_job_id() == launch.handles[0].client.job_id


@pytest.mark.behaviour(178)
def test_execute_raises_what_the_job_failed_with(env: StreamExecutionEnvironment, launch: FakeLaunch) -> None:
    launch.error = JobExecutionError("0" * 32, "job", "ValueError: bad")
    env.from_collection([1]).print()
    with pytest.raises(JobExecutionError, match="bad"):
        env.execute()


@pytest.mark.behaviour(178)
def test_execute_async_returns_the_client(env: StreamExecutionEnvironment, launch: FakeLaunch) -> None:
    env.from_collection([1]).print()
    assert env.execute_async().get_job_status().result() is JobStatus.FINISHED


@pytest.mark.parametrize(
    ("configured", "given", "expected"),
    [
        (None, None, "Flink Streaming Job"),
        ("configured", None, "configured"),
        ("configured", "given", "given"),
        (None, "given", "given"),
    ],
)
def test_name_of_the_job(configured: str | None, given: str | None, expected: str, launch: FakeLaunch) -> None:
    configuration = Configuration()
    if configured is not None:
        configuration.set_string("pipeline.name", configured)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1]).print()
    if given is None:
        env.execute_async()
    else:
        env.execute(given)
    assert launch.handles[0].graph.name == expected


def test_each_execution_runs_what_was_added_since_the_last(env: StreamExecutionEnvironment, launch: FakeLaunch) -> None:
    numbers = env.from_collection([1]).map(abs).name("shared")
    numbers.print().name("first")
    env.execute()
    numbers.filter(bool).name("second")
    env.execute()
    assert names(launch) == [["Source: Collection", "shared", "first"], ["Source: Collection", "shared", "second"]]


def test_an_operator_without_a_sink_runs(env: StreamExecutionEnvironment, launch: FakeLaunch) -> None:
    env.from_collection([1]).map(abs)
    env.execute()
    assert names(launch) == [["Source: Collection", "Map"]]


@pytest.mark.behaviour(178)
def test_nothing_to_run_is_refused(env: StreamExecutionEnvironment, launch: FakeLaunch) -> None:
    env.from_collection([1]).rebalance()
    with pytest.raises(EmptyJobError, match="'nothing' has no operators"):
        env.execute("nothing")
    with pytest.raises(EmptyJobError):
        env.explain()
    assert launch.handles == []


def test_after_an_execution_there_is_nothing_to_run(env: StreamExecutionEnvironment, launch: FakeLaunch) -> None:
    env.from_collection([1]).print()
    env.execute()
    with pytest.raises(EmptyJobError):
        env.execute()


def test_close_forgets_what_was_built(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).print()
    env.close()
    with pytest.raises(EmptyJobError):
        env.execute()


def test_later_settings_do_not_change_a_job_that_runs(env: StreamExecutionEnvironment, launch: FakeLaunch) -> None:
    env.from_collection([1]).print()
    env.execute()
    env.set_parallelism(9)
    assert not launch.handles[0].configuration.contains_key("parallelism.default")


def test_classes_of_the_main_script_travel_with_the_job(
    env: StreamExecutionEnvironment, launch: FakeLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pickle
    import sys

    point = type("Point", (), {"__module__": "__main__"})
    monkeypatch.setattr(sys.modules["__main__"], "Point", point, raising=False)
    env.from_collection([1]).print()
    env.execute()
    packed = launch.handles[0].main_classes
    assert packed is not None
    assert pickle.loads(packed)["Point"] is point


# --------------------------------------------------------------------------------------------------------- collecting


def test_collect_gives_the_records_of_its_own_operator(env: StreamExecutionEnvironment, launch: FakeLaunch) -> None:
    launch.records = [1, 2, 3]
    with collect(env.from_collection([1]).map(abs)) as records:
        assert list(records) == [1, 2, 3]
    [handle] = launch.handles
    [node] = [node for node in handle.graph.vertices[-1].operators if node.factory is CollectFactory]
    assert handle.asked_uids == [node.uid]
    assert handle.graph.name == "DataStream Collect"
    assert not handle.client.cancelled


def test_collect_runs_the_other_sinks_too(env: StreamExecutionEnvironment, launch: FakeLaunch) -> None:
    numbers = env.from_collection([1])
    numbers.print()
    list(collect(numbers))
    assert names(launch) == [["Source: Collection", "Print to Std. Out", "Collect"]]


def test_collect_with_a_limit_is_a_list_and_cancels_the_rest(
    env: StreamExecutionEnvironment, launch: FakeLaunch
) -> None:
    launch.records = [1, 2, 3]
    assert env.from_collection([1]).execute_and_collect("some", limit=2) == [1, 2]
    assert launch.handles[0].client.cancelled
    assert launch.handles[0].graph.name == "some"


def test_collect_with_a_limit_above_the_number_cancels_nothing(
    env: StreamExecutionEnvironment, launch: FakeLaunch
) -> None:
    launch.records = [1, 2]
    assert env.from_collection([1]).execute_and_collect(limit=5) == [1, 2]
    assert not launch.handles[0].client.cancelled


@pytest.mark.parametrize("limit", [-1, 1.5, "2"])
def test_collect_with_a_limit_that_is_no_number_starts_no_job(
    env: StreamExecutionEnvironment, launch: FakeLaunch, limit: object
) -> None:
    with pytest.raises(ValueError, match="limit must be a number of records, 0 or more"):
        env.from_collection([1]).execute_and_collect(limit=limit)  # type: ignore[call-overload]
    assert not launch.handles


def test_closing_early_cancels_the_job_and_ends_the_records(
    env: StreamExecutionEnvironment, launch: FakeLaunch
) -> None:
    launch.records = [1, 2, 3]
    records = collect(env.from_collection([1]))
    assert records.next() == 1
    records.close()
    records.close()
    assert list(records) == []
    assert launch.handles[0].client.cancelled


def test_collecting_from_a_failed_job_raises_once_and_is_over(
    env: StreamExecutionEnvironment, launch: FakeLaunch
) -> None:
    launch.records, launch.error = [1], JobExecutionError("0" * 32, "job", "ValueError: bad")
    with collect(env.from_collection([1])) as records:
        assert next(records) == 1
        with pytest.raises(JobExecutionError, match="bad"):
            next(records)
        assert list(records) == []
    assert not launch.handles[0].client.cancelled


# ------------------------------------------------------------------------------------------------------- runtime mode


def test_batch_mode_from_a_savepoint_is_refused_with_a_way_out(
    env: StreamExecutionEnvironment, launch: FakeLaunch
) -> None:
    env._configuration.set_string("execution.state-recovery.path", "/savepoints/1")
    env.set_runtime_mode(RuntimeExecutionMode.BATCH).from_collection([1]).print()
    with pytest.raises(
        UnsupportedOperationError, match=r"path = /savepoints/1 .* set execution.runtime-mode to STREAMING"
    ):
        env.execute()
    assert launch.handles == []


def test_batch_mode_over_an_unbounded_source_names_the_source(env: StreamExecutionEnvironment) -> None:
    endless(env.set_runtime_mode(RuntimeExecutionMode.BATCH)).print()
    with pytest.raises(UnsupportedOperationError, match=r"'Source: endless' at test_execution.py:\d+ never comes to"):
        env.execute()


def test_automatic_mode_is_batch_when_all_sources_are_bounded(
    env: StreamExecutionEnvironment, launch: FakeLaunch
) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC).from_collection([1]).print()
    env.execute()
    [handle] = launch.handles
    assert handle.graph.job_type is JobType.BATCH


@pytest.mark.parametrize(
    ("mode", "unbounded", "resolved"),
    [
        ("STREAMING", False, JobType.STREAMING),
        ("AUTOMATIC", True, JobType.STREAMING),
        ("AUTOMATIC", False, JobType.BATCH),
        ("BATCH", False, JobType.BATCH),
    ],
)
def test_the_mode_is_a_fact_of_the_job_graph(
    env: StreamExecutionEnvironment, mode: str, unbounded: bool, resolved: JobType
) -> None:
    env.set_runtime_mode(RuntimeExecutionMode[mode])
    stream = env.from_collection([1])
    (endless(env).union(stream) if unbounded else stream).print()
    assert build_job_graph(env._stream_graph(None)).job_type is resolved
    assert (", in batch mode" in env.explain()) == (resolved is JobType.BATCH)


def test_automatic_mode_is_streaming_with_an_unbounded_source(
    env: StreamExecutionEnvironment, launch: FakeLaunch
) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    endless(env).union(env.from_collection([1])).print()
    env.execute()
    [handle] = launch.handles
    assert handle.graph.job_type is JobType.STREAMING


class Notes(JobListener):
    def __init__(self) -> None:
        self.submitted: list[JobClient | Exception | None] = []
        self.executed: list[JobExecutionResult | Exception | None] = []

    def on_job_submitted(self, job_client: JobClient | None, throwable: Exception | None) -> None:
        self.submitted.append(throwable or job_client)

    def on_job_executed(self, job_execution_result: JobExecutionResult | None, throwable: Exception | None) -> None:
        self.executed.append(throwable or job_execution_result)


class Broken(Notes):
    def on_job_submitted(self, job_client: JobClient | None, throwable: Exception | None) -> None:
        super().on_job_submitted(job_client, throwable)
        raise RuntimeError("the listener")


def test_listener_is_told_of_the_start_and_by_execute_of_the_end(
    env: StreamExecutionEnvironment, launch: FakeLaunch
) -> None:
    notes = Notes()
    env.register_job_listener(notes)
    env.from_collection([1]).print()
    result = env.execute()
    assert (notes.submitted, notes.executed) == ([launch.handles[0].client], [result])
    env.from_collection([1]).print()
    env.execute_async()
    assert (len(notes.submitted), len(notes.executed)) == (2, 1)


def test_listener_is_told_of_errors(env: StreamExecutionEnvironment, launch: FakeLaunch) -> None:
    notes = Notes()
    env.register_job_listener(notes)
    launch.error = JobExecutionError("0" * 32, "job", "ValueError: bad")
    env.from_collection([1]).print()
    with pytest.raises(JobExecutionError):
        env.execute()
    assert notes.executed == [launch.error]
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    endless(env).print()
    with pytest.raises(UnsupportedOperationError) as raised:
        env.execute()
    assert notes.submitted[1:] == [raised.value]


LISTENERS = """
from penstock.common import JobListener

class Notes(JobListener):
    made = []
    def __init__(self):
        self.told = []
        self.made.append(self)
    def on_job_submitted(self, job_client, throwable):
        self.told.append(job_client)
    def on_job_executed(self, job_execution_result, throwable):
        self.told.append(job_execution_result)

class Picky(Notes):
    def __init__(self, argument):
        pass

class Other:
    pass
"""


@pytest.fixture
def listeners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "my_listeners.py").write_text(LISTENERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_listeners", raising=False)
    return importlib.import_module("my_listeners")


def test_configured_listener_is_made_by_each_environment_and_told(launch: FakeLaunch, listeners: ModuleType) -> None:
    configuration = Configuration().set_string("execution.job-listeners", "my_listeners.Notes")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1]).print()
    result = env.execute()
    (notes,) = listeners.Notes.made
    assert notes.told == [launch.handles[0].client, result]
    other = StreamExecutionEnvironment.get_execution_environment()
    other.configure(configuration)
    other.from_collection([1]).print()
    other.execute_async()
    assert [len(each.told) for each in listeners.Notes.made] == [2, 1]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no_such_module.Notes", "No module named 'no_such_module'"),
        ("my_listeners.Nobody", "has no attribute 'Nobody'"),
        ("my_listeners.Other", "the class a penstock.common.JobListener"),
        ("my_listeners.Notes.made", "my_listeners.Notes"),
        ("Notes", "it has to be module.Class"),
        ("my_listeners.Picky", "cannot be made without arguments: TypeError"),
        ("org.example.JavaListener", "No module named 'org'"),
        (".Notes", "it has to be module.Class"),
    ],
)
@pytest.mark.usefixtures("listeners")
def test_configured_listener_that_is_none_is_refused(name: str, why: str) -> None:
    configuration = Configuration().set_string("execution.job-listeners", name)
    message = f"execution.job-listeners cannot be .{re.escape(name)}.*{re.escape(why)}"
    with pytest.raises(ConfigurationError, match=message):
        StreamExecutionEnvironment.get_execution_environment(configuration)


def test_job_goes_on_when_a_listener_raises(env: StreamExecutionEnvironment, launch: FakeLaunch) -> None:
    broken, notes = Broken(), Notes()
    env.register_job_listener(broken)
    env.register_job_listener(notes)
    env.from_collection([1]).print()
    assert env.execute().get_job_id() == launch.handles[0].client.job_id
    assert (len(broken.submitted), len(notes.submitted)) == (1, 1)
    env.clear_job_listeners()
    env.from_collection([1]).print()
    env.execute()
    assert len(notes.submitted) == 1
