"""Input and functions that cannot be right end a job in both modes, with the operator named and nothing published."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.without_spark import Cluster

from penstock._engine.operators.key_selection import KeySelection
from penstock.common import Configuration, Encoder, Row, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.functions import AggregateFunction, CheckpointedFunction, MapFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import (
    TumblingEventTimeWindows,
)
from penstock.errors import JobExecutionError, KeyRequiredError, UnstableKeyError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODES = ("STREAMING", "BATCH")


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> StreamExecutionEnvironment:
    Cluster(tmp_path).patch(monkeypatch)
    directory = str(tmp_path / "checkpoints")
    configuration = Configuration.from_dict({"execution.checkpointing.dir": directory, "restart-strategy.type": "none"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    return env.set_parallelism(2).set_runtime_mode(RuntimeExecutionMode[request.param])


def failure(stream: Any, tmp_path: Path) -> JobExecutionError:
    """Run a job that publishes files, and return the error that ends it."""
    sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
    stream.sink_to(sink)
    with pytest.raises(JobExecutionError) as raised:
        stream.get_execution_environment().execute("bad")
    assert [path for path in tmp_path.glob("out/**/*") if path.is_file() and not path.name.startswith((".", "_"))] == []
    return raised.value


class Total(AggregateFunction):
    combinable = True

    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> Any:
        return value


STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
MINUTES = TumblingEventTimeWindows(10, 0)
#: What a keyed stream comes to; each of them has its own way to the receivers in batch mode.
KEYED: dict[str, Callable[[Any], Any]] = {
    "reduce": lambda keyed: keyed.reduce(lambda a, b: a + b),
    "windows": lambda keyed: keyed.window(MINUTES).reduce(lambda a, b: a + b),
    "combined windows": lambda keyed: keyed.window(MINUTES).aggregate(Total()),
}


@pytest.mark.parametrize("env", MODES, indirect=True)
@pytest.mark.parametrize("use", KEYED)
def test_a_key_selector_that_gives_another_key_the_second_time(
    use: str, env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    drawn = itertools.count()
    numbers = env.from_collection(list(range(50))).assign_timestamps_and_watermarks(STAMPED)
    error = failure(KEYED[use](numbers.key_by(lambda value: (value, next(drawn)))).name("drawing"), tmp_path)
    assert isinstance(error.__cause__, UnstableKeyError)
    assert error.place is not None
    assert error.place.operator_name == "drawing"
    assert "asked again" in str(error)


def test_one_object_that_changes_is_another_key_and_equal_objects_are_one() -> None:
    class One:
        key = Row(0)

        def __call__(self, value: Any) -> Any:
            self.key[0] += 1
            return self.key

    with pytest.raises(UnstableKeyError, match="reduce"):
        KeySelection(One()).refuse_unstable(7, "reduce")
    turns = itertools.cycle([1, True])
    for select in (lambda _: float("nan"), lambda _: Row(1), lambda _: next(turns), lambda _: frozenset({"a", 1})):
        KeySelection(select).refuse_unstable(7, "reduce")


@pytest.mark.parametrize("env", MODES, indirect=True)
@pytest.mark.parametrize(
    "call",
    [lambda stream: stream.window(MINUTES), lambda stream: stream.count_window(2), lambda stream: stream.sum(0)],
)
def test_windows_and_aggregations_of_a_stream_without_keys(
    call: Callable[[Any], Any], env: StreamExecutionEnvironment
) -> None:
    with pytest.raises(KeyRequiredError, match=r"key_by\(\.\.\.\) before it"):
        call(env.from_collection([1]))


class Counting(MapFunction):
    """Asks for keyed state where it cannot be seen before the job runs."""

    def __init__(self, *, at: str) -> None:
        self.at = at

    def open(self, runtime_context: Any) -> None:
        self.context = runtime_context
        if self.at == "open":
            self._ask()

    def map(self, value: Any) -> Any:
        self._ask()
        return value

    def _ask(self) -> None:
        self.context.get_state(ValueStateDescriptor("count", Types.LONG()))


@pytest.mark.behaviour(179)
@pytest.mark.parametrize("env", MODES, indirect=True)
@pytest.mark.parametrize("at", ["open", "map"])
def test_keyed_state_without_a_key(at: str, env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    error = failure(env.from_collection([1]).map(Counting(at=at)).name("counting"), tmp_path)
    assert isinstance(error.__cause__, UnsupportedOperationError)
    assert "'counting'" in str(error)
    assert "key_by" in str(error)


class Outside(MapFunction, CheckpointedFunction):
    """Uses state of a key where there is none: while it opens, or with the snapshot."""

    def __init__(self, *, at: str) -> None:
        self.at = at

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        if self.at == "open":
            self.state.update(1)

    def initialize_state(self, context: Any) -> None: ...

    def snapshot_state(self, context: Any) -> None:
        if self.at == "snapshot":
            self.state.value()

    def map(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(
    ("env", "at"), [("STREAMING", "open"), ("STREAMING", "snapshot"), ("BATCH", "open")], indirect=["env"]
)
def test_state_of_a_key_where_there_is_no_current_key(at: str, env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    mapped = env.from_collection([1]).key_by(lambda value: value).map(Outside(at=at)).name("outside")
    error = failure(mapped, tmp_path)
    assert isinstance(error.__cause__, UnsupportedOperationError)
    assert "'outside'" in str(error)
    assert "without a current key" in str(error)


@pytest.mark.parametrize("env", MODES, indirect=True)
def test_a_timestamp_that_is_none(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    stream = env.from_collection([1, None, 3]).assign_timestamps_and_watermarks(STAMPED).name("stamps")
    assert "'stamps'" in str(failure(stream, tmp_path))


def other_columns(batch: Any) -> Any:
    return batch.rename_columns(["a", "c"])


@pytest.mark.parametrize("env", MODES, indirect=True)
def test_a_batch_of_other_columns_than_declared(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    declared = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LONG()])
    rows = env.from_collection([{"a": 1, "b": 2}])
    stream = rows.map_batches(other_columns, output_type=declared).name("renamed")
    error = failure(stream, tmp_path)
    assert "BatchColumnsError" in str(error) or "columns" in str(error.__cause__)
    assert "'renamed'" in str(error)
