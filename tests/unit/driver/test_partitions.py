"""Full window partitions in whole batch jobs: what the functions see, and what comes out, without Spark."""

from __future__ import annotations

import contextlib
from itertools import chain, count, pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.unit.driver.partitions import (
    ASCENDING,
    DESCENDING,
    SMALL,
    UNSTAMPED,
    Mean,
    Reads,
    collected,
    partitions,
)
from tests.unit.driver.test_batch_jobs import STAMPED, environment

from penstock._engine.operators.sorting.external_sort import ExternalSorter
from penstock._engine.runtime.results import ResultReader
from penstock.common import Encoder, Types
from penstock.datastream import DataStream, OutputTag, RuntimeExecutionMode
from penstock.datastream.connectors.datagen import DataGeneratorSource
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import (
    MapPartitionFunction,
    ProcessFunction,
    ReduceFunction,
)
from penstock.errors import (
    BatchColumnsError,
    CorruptCheckpointError,
    ForwardParallelismError,
    JobExecutionError,
    SortSpillError,
    UnsupportedOperationError,
)
from penstock.testing import ListSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("cluster")


# ------------------------------------------------------------------------------------------------------- map_partition


@pytest.mark.behaviour(125)
def test_map_partition_is_called_once_in_each_subtask_with_all_of_its_records() -> None:
    numbers = environment(2).from_collection(range(100)).rebalance().map(lambda number: number)
    found = partitions(numbers)
    assert [len(part) for part in found] == [50, 50]
    assert sorted(chain.from_iterable(found)) == list(range(100))


@pytest.mark.behaviour(125)
def test_map_partition_emits_any_number_of_records() -> None:
    numbers = environment(1).from_collection(range(5)).full_window_partition()
    assert collected(numbers.map_partition(lambda values: None)) == []
    assert collected(numbers.map_partition(lambda values: [sum(values)])) == [10]
    assert collected(numbers.map_partition(lambda values: (n for n in values for _ in range(n)))) == [
        *(1, 2, 2, 3, 3, 3, 4, 4, 4, 4)
    ]
    many = numbers.map_partition(lambda values: map(str, range(10_000)), Types.STRING())
    assert collected(many) == list(map(str, range(10_000)))


STEPS: list[str] = []


def stepping(values: Iterator[int]) -> Iterator[int]:
    STEPS.append("starts")
    yield -1  # before it has read anything
    for number, value in enumerate(values):
        if number % 1000 == 0:
            STEPS.append("takes")
        yield value
    assert next(values, None) is None  # past the end


@pytest.mark.behaviour(126)
@pytest.mark.behaviour(127)
def test_map_partition_starts_before_its_input_is_read_and_reads_no_more_than_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    section = ResultReader._section

    def reading(reader: ResultReader, *arguments: Any) -> Any:
        STEPS.append("reads")
        return section(reader, *arguments)

    STEPS.clear()
    monkeypatch.setattr(ResultReader, "_section", reading)
    monkeypatch.setattr("penstock._engine.runtime.results.FILE_BYTES", 1)
    stream = environment(1).from_source(ListSource(range(9000)), UNSTAMPED, "numbers").full_window_partition()
    assert collected(stream.map_partition(stepping)) == [-1, *range(9000)]
    assert STEPS[:3] == ["starts", "reads", "takes"]
    assert STEPS.count("reads") > 3  # blocks come between the records that it takes
    assert len([step for step, after in pairwise(STEPS) if (step, after) == ("reads", "reads")]) <= 1


def leaving(values: Iterator[int]) -> Iterator[int]:
    yield next(values)


@pytest.mark.behaviour(127)
@pytest.mark.parametrize("keyed", [False, True])
def test_what_a_function_leaves_unread_is_drained(keyed: bool) -> None:
    stream: Any = environment(1).from_collection(list(range(10_000)))
    if keyed:
        stream = stream.key_by(lambda number: number % 2)
    assert sorted(collected(stream.full_window_partition().map_partition(leaving))) == [0, 1][: 1 + keyed]


CLOSED: list[str] = []


class Raises(MapPartitionFunction[Any, Any]):
    def map_partition(self, values: Iterator[Any]) -> Iterator[Any]:
        try:
            for value in values:
                if value == 3000:
                    msg = f"no {value}"
                    raise ValueError(msg)
                yield value
        finally:
            CLOSED.append("iterator")

    def close(self) -> None:
        CLOSED.append("function")


@pytest.mark.behaviour(128)
@pytest.mark.parametrize("keyed", [False, True])
def test_a_function_that_raises_fails_the_job_and_nothing_is_published(tmp_path: Path, keyed: bool) -> None:
    stream: Any = environment(1).from_collection(list(range(5000)))
    if keyed:
        stream = stream.key_by(lambda number: 0)
    CLOSED.clear()
    out = stream.full_window_partition().map_partition(Raises()).name("raises").map(str)
    out.sink_to(FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build())
    with pytest.raises(JobExecutionError, match="raises") as failed:
        stream.get_execution_environment().execute()
    assert isinstance(failed.value.__cause__, ValueError)
    assert failed.value.place is not None
    assert failed.value.place.record == "3000"
    assert CLOSED == ["iterator", "function"]
    assert not [path for path in tmp_path.glob("out/**/*") if path.is_file() and not path.name.startswith(".")]


def breaks_later(record: int) -> int:
    return 1 // (record - 3000)


@pytest.mark.behaviour(128)
def test_a_function_is_closed_where_an_operator_behind_it_fails() -> None:
    CLOSED.clear()
    stream = environment(1).from_collection(list(range(2999)) + list(range(3001, 5000)) + [3000])
    with pytest.raises(JobExecutionError) as failed:
        collected(stream.full_window_partition().map_partition(Endless()).map(breaks_later))
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    assert CLOSED == ["iterator", "function"]


class Endless(Raises):
    def map_partition(self, values: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from count()
        finally:
            CLOSED.append("iterator")


def swallowing(values: Iterator[int]) -> Iterator[int]:
    with contextlib.suppress(Exception):
        yield from values
    yield -1


@pytest.mark.behaviour(128)
@pytest.mark.parametrize("keyed", [False, True])
def test_a_function_cannot_swallow_an_error_of_its_input(monkeypatch: pytest.MonkeyPatch, keyed: bool) -> None:
    def broken(reader: Any, *arguments: Any) -> Iterator[Any]:
        for number, part in enumerate(intact(reader, *arguments)):
            if number == 1:
                path = "p"
                raise CorruptCheckpointError(path, "it is gone") if not keyed else SortSpillError(path, "it is gone")
            yield part

    owner, name = (ExternalSorter, "parts") if keyed else (ResultReader, "_rows_of")
    intact: Any = getattr(owner, name)
    monkeypatch.setattr(owner, name, broken)
    stream: Any = environment(1).from_collection(list(range(20_000)))
    if keyed:
        stream = stream.key_by(lambda number: 0)
    with pytest.raises((JobExecutionError, CorruptCheckpointError), match="it is gone"):
        collected(stream.full_window_partition().map_partition(swallowing))


@pytest.mark.behaviour(129)
def test_a_subtask_without_records_calls_map_partition_emits_an_empty_aggregate_and_no_reduced_record() -> None:
    stream = environment(2).from_collection([1]).rebalance().map(int).full_window_partition()
    assert sorted(collected(stream.map_partition(lambda values: [len(list(values))]))) == [0, 1]
    assert sorted(collected(stream.aggregate(Mean()))) == [(0, 0), (1, 1)]
    assert collected(stream.reduce(lambda a, b: a + b)) == [1]


@pytest.mark.behaviour(134)
def test_partitions_of_keys_are_called_once_for_each_key() -> None:
    pairs = [(number % 7, number) for number in range(100)]
    keyed = environment(2).from_collection(pairs).key_by(lambda pair: pair[0])
    whole = keyed.full_window_partition()
    found = collected(whole.map_partition(lambda values: [list(values)]))
    assert sorted(found) == [[pair for pair in pairs if pair[0] == key] for key in range(7)]
    totals = sorted((key, sum(pair[1] for pair in pairs if pair[0] == key)) for key in range(7))
    assert sorted(collected(whole.reduce(lambda a, b: (a[0], a[1] + b[1])))) == totals
    assert sorted(collected(whole.aggregate(OfPairs()))) == sorted(total for _, total in totals)


class OfPairs(Mean):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + value[1]


# ------------------------------------------------------------------------------------------- aggregate and reduce


class Joined(ReduceFunction[str]):
    def reduce(self, value1: str, value2: str) -> str:
        return f"{value1}{value2}"


@pytest.mark.behaviour(130)
def test_aggregate_and_reduce_fold_in_the_order_of_arrival_into_one_result_of_each_subtask() -> None:
    stream = environment(1).from_collection(list("abcdef")).full_window_partition()
    assert collected(stream.reduce(Joined())) == ["abcdef"]
    one = environment(1).from_collection(["single"]).full_window_partition()
    assert collected(one.reduce(lambda a, b: 1 // 0)) == ["single"]
    numbers = environment(2).from_collection(range(100)).rebalance().map(lambda number: number)
    assert sum(total for total, _ in collected(numbers.full_window_partition().aggregate(Mean()))) == 4950


# ---------------------------------------------------------------------------------------------------------- the graph


@pytest.mark.behaviour(133)
def test_partitions_have_the_parallelism_of_the_operator_before_which_cannot_be_changed() -> None:
    env = environment(4)
    for out in (
        env.from_collection(range(10)).map(str).set_parallelism(3).full_window_partition().map_partition(Reads()),
        env.from_collection(range(10)).map(str).set_parallelism(3).key_by(str).full_window_partition().reduce(max),
    ):
        for change in (lambda stream: stream.set_parallelism(2), lambda stream: stream.force_non_parallel()):
            with pytest.raises(UnsupportedOperationError, match="operator before it"):
                change(out)
    node = env.from_collection(range(10)).map(str).set_parallelism(3).full_window_partition().map_partition(Reads())
    assert sorted(subtask for subtask, _ in collected(node)) == [0, 1, 2]


@pytest.mark.behaviour(133)
def test_partitions_are_those_of_the_subtasks_that_a_stage_runs() -> None:
    env = environment(4, **{"execution.batch.adaptive.auto-parallelism.enabled": "true"})
    few = env.from_collection(range(100)).rebalance().map(lambda number: number)
    for before in (few, few.disable_chaining(), few.full_window_partition().sort_partition(int, DESCENDING)):
        assert [sorted(part) for part in partitions(before)] == [list(range(100))]
    assert len(partitions(env.from_source(NumberSequenceSource(1, 100), UNSTAMPED, "numbers"))) == 4
    assert len(partitions(env.from_collection(range(100)).map(int).set_parallelism(3).rebalance())) == 3
    # What a partitioning has divided stays apart, however little it is.
    numbers = env.from_collection(range(8)).map(int)
    assert sorted(partitions(numbers.partition_custom(lambda key, n: key % n, int))) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    for divided in (numbers.rebalance(), few.rebalance().union(few), numbers.broadcast()):
        assert len(partitions(divided)) == 4
    ordered = numbers.rebalance().full_window_partition().sort_partition(int, DESCENDING)
    assert len(partitions(ordered)) == 4


@pytest.mark.behaviour(133)
def test_what_is_no_function_no_order_and_no_field_is_refused_where_it_is_given() -> None:
    whole = environment(1).from_collection([(1,)]).full_window_partition()
    assert not isinstance(whole, DataStream)
    wrong: Any = None
    for call in (
        lambda: whole.map_partition(wrong),
        lambda: whole.map_partition(Reads),  # pyright: ignore[reportArgumentType]
        lambda: whole.reduce(wrong),
        lambda: whole.aggregate(lambda value: value),  # pyright: ignore[reportArgumentType]
        lambda: whole.sort_partition(wrong, ASCENDING),
        lambda: whole.sort_partition(True, ASCENDING),
        lambda: whole.sort_partition(0, wrong),
        lambda: whole.sort_partition(0, "ascending"),  # pyright: ignore[reportArgumentType]
        lambda: whole.sort_partition_batches([("x", wrong)]),
        lambda: whole.sort_partition_batches([(1, ASCENDING)]),  # pyright: ignore[reportArgumentType]
    ):
        with pytest.raises(TypeError):
            call()
    for call in (lambda: whole.sort_partition(-1, ASCENDING), lambda: whole.sort_partition_batches([])):
        with pytest.raises(ValueError, match=r"-1|column"):
            call()


@pytest.mark.behaviour(133)
def test_partitions_of_a_union_need_one_parallelism() -> None:
    env = environment(2)
    one, other = env.from_collection(range(5)).map(int), env.from_collection(range(5, 9)).map(int)
    found = partitions(one.union(other))
    assert len(found) == 2
    assert sorted(chain.from_iterable(found)) == list(range(9))
    narrow = env.from_collection(range(5)).map(int).set_parallelism(1)
    with pytest.raises(ForwardParallelismError):
        partitions(one.union(narrow))


@pytest.mark.behaviour(133)
def test_sources_cached_streams_and_side_outputs_have_partitions_and_iterations_are_none() -> None:
    env = environment(2)
    cached = env.from_collection(range(10)).map(lambda number: -number).cache()
    for _ in range(2):  # computed, and then read
        assert sorted(chain.from_iterable(partitions(cached))) == list(range(-9, 1))
    tag = OutputTag("odd")
    side = env.from_collection(range(10)).process(Parted()).get_side_output(tag)
    assert sorted(chain.from_iterable(partitions(side))) == [1, 3, 5, 7, 9]
    with pytest.raises(AttributeError, match="iterate"):
        env.from_collection(range(3)).iterate()  # pyright: ignore[reportAttributeAccessIssue]
    cached.invalidate()
    env.close()


class Parted(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield (OutputTag("odd"), value) if value % 2 else value


def to_sides(values: Iterator[int]) -> Iterator[Any]:
    for value in values:
        yield (OutputTag("odd"), value) if value % 2 else value


def test_a_function_of_partitions_has_side_outputs() -> None:
    env = environment(1)
    out = env.from_collection(range(6)).full_window_partition().map_partition(to_sides)
    odd = out.get_side_output(OutputTag("odd"))
    assert sorted(collected(out.map(lambda even: even).union(odd.map(lambda one: -one)))) == [-5, -3, -1, 0, 2, 4]


@pytest.mark.behaviour(135)
def test_a_streaming_job_with_partitions_fails_at_its_submission() -> None:
    env = environment(1).set_runtime_mode(RuntimeExecutionMode.STREAMING)
    for make in (lambda whole: whole.map_partition(Reads()), lambda whole: whole.reduce(max)):
        for stream in (env.from_collection([1]), env.from_collection([1]).key_by(str)):
            out = make(stream.full_window_partition()).name("whole")
            with pytest.raises(UnsupportedOperationError, match=r"'whole'.*execution.runtime-mode.*BATCH"):
                collected(out)
            env.close()
    automatic = env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    endless = automatic.from_source(DataGeneratorSource(str), UNSTAMPED, "endless")
    with pytest.raises(UnsupportedOperationError, match=r"endless.*never comes to an end"):
        collected(endless.full_window_partition().map_partition(Reads()))


# ------------------------------------------------------------------------------------------------------------ columns


def doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    for batch in batches:
        yield batch.set_column(0, "x", pc.multiply(batch.column(0), 2))


def of_frames(frames: Iterator[Any]) -> Any:
    return [frame.assign(x=frame.x * 2) for frame in frames]


@pytest.mark.behaviour(136)
@pytest.mark.parametrize("keyed", [False, True])
def test_map_partition_batches_reads_batches_of_columns_and_frames(keyed: bool) -> None:
    records = [{"x": number, "k": number % 3} for number in range(5000)]
    stream: Any = environment(1).from_collection(records)
    stream = stream.key_by("k") if keyed else stream
    whole = stream.full_window_partition()
    expected = sorted(2 * number for number in range(5000))
    for out in (whole.map_partition_batches(doubled), whole.map_partition_batches(of_frames, None, "pandas")):
        assert sorted(record["x"] for record in collected(out)) == expected
    counted = whole.map_partition_batches(lambda batches: [pa.table({"n": [sum(map(len, batches))]})])
    assert sorted(record["n"] for record in collected(counted)) == ([1666, 1667, 1667] if keyed else [5000])
    assert collected(whole.map_partition_batches(lambda batches: None)) == []


@pytest.mark.behaviour(136)
def test_sort_partition_batches_by_several_columns_with_directions_of_their_own() -> None:
    records = [{"a": number % 5, "b": f"{number * 37 % 11:02}", "n": number} for number in range(3000)]
    for settings in (SMALL, {}):
        whole = environment(1, **settings).from_collection(records).full_window_partition()
        found = collected(whole.sort_partition_batches(["a", ("b", DESCENDING)]))
        assert found == sorted(sorted(records, key=lambda r: r["b"], reverse=True), key=lambda r: r["a"])
    with pytest.raises(JobExecutionError) as failed:
        collected(whole.sort_partition_batches("missing").name("by columns"))
    assert isinstance(failed.value.__cause__, BatchColumnsError)
    assert "'by columns' cannot sort by 'missing'" in str(failed.value.__cause__)
    by_list = environment(1).from_collection([{"a": [1]}]).full_window_partition().sort_partition_batches("a")
    with pytest.raises(JobExecutionError, match="no order"):
        collected(by_list)


def encoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(1, "b", batch.column(1).dictionary_encode())


@pytest.mark.behaviour(136)
@pytest.mark.parametrize("settings", [SMALL, {}], ids=["spilled", "in memory"])
def test_columns_with_dictionaries_are_sorted_by_their_values(settings: dict[str, str]) -> None:
    records = [{"a": number % 5, "b": f"{number * 37 % 11:02}", "n": number} for number in range(3000)]
    batches = environment(1, **settings).from_collection(records).map_batches(encoded)
    found = collected(batches.full_window_partition().sort_partition_batches([("b", DESCENDING), "a"]))
    assert found == sorted(sorted(records, key=lambda r: r["a"]), key=lambda r: r["b"], reverse=True)
    found = collected(batches.full_window_partition().sort_partition_batches("b"))
    assert found == sorted(records, key=lambda r: r["b"])


@pytest.mark.behaviour(136)
def test_columns_of_keys_are_sorted_within_each_key() -> None:
    records = [{"k": number % 3, "x": number * 7 % 50, "n": number} for number in range(600)]
    env = environment(2, **SMALL)
    found = collected(env.from_collection(records).key_by("k").full_window_partition().sort_partition_batches("x"))
    for key in range(3):
        of_key = [record for record in records if record["k"] == key]
        assert [record for record in found if record["k"] == key] == sorted(of_key, key=lambda record: record["x"])
    with pytest.raises(UnsupportedOperationError, match="key_by"):
        env.from_collection(records).key_by(lambda r: r["k"]).full_window_partition().sort_partition_batches("x")


@pytest.mark.behaviour(136)
def test_columns_keep_their_timestamps_when_they_are_sorted() -> None:
    source = environment(1).from_source(ListSource([(3, 30), (1, 10), (2, 20)]), STAMPED, "pairs")
    out = source.map_batches(lambda batch: batch).full_window_partition().sort_partition_batches("f0")
    assert sorted(collected(out.process(Stamps0()))) == [(1, 10), (2, 20), (3, 30)]


class Stamps0(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield value["f0"], ctx.timestamp()
