"""map, filter and flat_map over batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.functions.stateless import FilterOperator, FlatMapOperator, MapOperator, keeps_nothing
from penstock._engine.protocol.tracebacks import own_lines
from penstock.datastream.functions import MapFunction
from penstock.testing.harness import OperatorHarness, StreamRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

GLOBAL: list[Any] = []
MARKED = RowBatch([1, 2, 3, 4], [10, 20, 30, 40], [(0, 5), (2, 15), (4, 35)])


def result(operator: Any, batch: RowBatch) -> RowBatch:
    [(tag, out)] = operator.process(batch, 0)
    assert tag is None
    return out


def test_map_keeps_timestamps_and_watermarks_in_their_places() -> None:
    assert result(MapOperator(lambda record: record * 2), MARKED) == RowBatch(
        [2, 4, 6, 8], [10, 20, 30, 40], [(0, 5), (2, 15), (4, 35)]
    )


def test_filter_moves_watermarks_to_where_the_records_that_stay_are() -> None:
    assert result(FilterOperator(lambda record: record > 2), MARKED) == RowBatch(
        [3, 4], [30, 40], [(0, 5), (0, 15), (2, 35)]
    )


def test_flat_map_gives_each_result_the_timestamp_of_its_record() -> None:
    out = result(FlatMapOperator(lambda record: [record] * (record % 3)), MARKED)
    assert out == RowBatch([1, 2, 2, 4], [10, 20, 20, 40], [(0, 5), (3, 15), (4, 35)])


@pytest.mark.parametrize("timestamp", [None, 5])
@pytest.mark.behaviour(191)
def test_flat_map_may_return_none_or_any_iterable(timestamp: int | None) -> None:
    def function(record: Any) -> Any:
        return {"none": None, "generator": (item for item in (1, 2)), "list": [3], "empty": []}[record]

    harness = OperatorHarness.for_flat_map(function)
    harness.process_elements(["none", "generator", "empty", "list"], timestamp)
    assert harness.output() == [StreamRecord(1, timestamp), StreamRecord(2, timestamp), StreamRecord(3, timestamp)]


@pytest.mark.parametrize("timestamp", [None, 5])
def test_a_list_that_flat_map_fills_again_after_yielding_it_stays_as_it_was_yielded(timestamp: int | None) -> None:
    filled: list[int] = []

    def in_twos(record: int) -> Iterator[list[int]]:
        filled.append(record)
        if len(filled) == 2:
            yield filled
            filled.clear()

    harness = OperatorHarness.for_flat_map(in_twos)
    harness.process_elements([1, 2, 3, 4], timestamp)
    assert harness.values() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("timestamp", [None, 5])
@pytest.mark.parametrize("make", [OperatorHarness.for_map, OperatorHarness.for_filter, OperatorHarness.for_flat_map])
def test_a_stop_iteration_that_a_function_lets_out_loses_no_records_silently(make: Any, timestamp: int | None) -> None:
    def function(record: int) -> Any:
        return [next(iter([record] if record != 2 else []))]

    with pytest.raises((StopIteration, RuntimeError)):
        make(function).process_elements([1, 2, 3], timestamp)


@pytest.mark.parametrize("timestamp", [None, 5])
def test_filter_takes_truth_for_an_answer(timestamp: int | None) -> None:
    harness = OperatorHarness.for_filter(lambda record: record["tags"])
    harness.process_elements([{"tags": []}, {"tags": ["x"]}], timestamp)
    assert harness.values() == [{"tags": ["x"]}]


def test_the_record_in_hand_is_the_one_at_which_a_function_failed() -> None:
    operator = MapOperator(lambda record: 1 / record)
    with pytest.raises(ZeroDivisionError):
        operator.process(RowBatch([1, 2, 0, 4]), 0)
    assert operator.current_record() == (True, 0)


def test_only_a_function_that_names_nothing_but_its_arguments_keeps_nothing() -> None:
    kept: list[Any] = []
    assert keeps_nothing(lambda number: number * 3 + 1)
    assert keeps_nothing(lambda number: (number, [number]))
    others: list[Any] = [
        lambda number: kept,
        lambda number: GLOBAL,
        lambda number: number.real,
        lambda number, buffer=[]: buffer,
        lambda number, *, buffer=[]: buffer,
        lambda number: lambda: GLOBAL,
        len,
        MapFunction,
    ]
    assert not any(map(keeps_nothing, others))


def outcome(operator: Any, records: list[Any], **known: Any) -> RowBatch:
    [(_, batch)] = operator.process(RowBatch(records, **known), 0)
    return batch


def test_records_that_share_a_buffer_are_apart() -> None:
    buffer = [0]
    out = outcome(MapOperator(lambda record: record), [buffer, buffer])
    assert out.records == [[0], [0]]
    assert len({id(buffer), *map(id, out.records)}) == 3


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda number: number, int),
        (lambda number: (number, "a", None), (int, str, type(None))),
        (lambda number: number or None, None),
        (lambda number: (number,) * (number + 1), None),
        (lambda number: (number, [number]), None),
        (lambda number: [number], None),
    ],
)
@pytest.mark.parametrize("reuse", [False, True])
def test_a_map_tells_the_shape_that_all_of_its_records_have(reuse: bool, function: Any, shape: Any) -> None:
    operator = MapOperator(function)
    operator.object_reuse = reuse
    outcome(operator, [7])  # it follows the shape of the records before
    out = outcome(operator, [1, 2, 0])
    assert out.shape == shape
    assert out.records == [function(number) for number in [1, 2, 0]]


def test_a_map_that_keeps_nothing_is_not_tested_where_records_are_known_to_be_numbers() -> None:
    operator = MapOperator(lambda number: number)
    assert outcome(operator, [1, 2]).shape is int
    assert outcome(operator, [1, 2], shape=int).shape is None
    assert outcome(operator, [len], shape=type(len)).records == [len]
    assert outcome(operator, [(1,)], shape=(int,)).records == [(1,)]


@pytest.mark.parametrize("timestamps", [None, [1, 2, 3]])
def test_a_filter_tells_the_shape_that_it_was_told(timestamps: list[int] | None) -> None:
    records = [(1, "a"), (2, "b"), (3, "c")]
    operator = FilterOperator(lambda record: record[0] != 2)
    out = outcome(operator, records, timestamps=timestamps, shape=(int, str))
    assert (out.records, out.shape) == ([(1, "a"), (3, "c")], (int, str))
    assert outcome(operator, records, timestamps=timestamps).records == out.records


@pytest.mark.parametrize("operator", [MapOperator, FilterOperator, FlatMapOperator])
def test_an_error_of_a_function_shows_no_line_of_the_librarys_loops(operator: Any) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        list(operator(lambda record: GLOBAL or 1 / record).process(RowBatch([0]), 0))
    assert [line.tb_frame.f_code.co_name for line in own_lines(caught.value.__traceback__)][1:] == ["<lambda>"]
