"""Aggregates of columns: what the stream makes of a call, what it refuses, and what operators say in tasks."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.kit.program import Program

from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.columnar.column_aggregates import ColumnAggregates
from penstock._engine.operators.columnar.column_totals import ColumnPartialsOperator, ColumnTotalsOperator
from penstock._engine.operators.columns import ColumnBatch
from penstock._engine.operators.factories.windows import ColumnWindowFactory
from penstock.common.columns import int64_column
from penstock.common.typeinfo import Types
from penstock.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.errors import BatchColumnsError, UnsupportedOperationError
from penstock.testing.harness import OperatorHarness

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = Types.ROW_NAMED(["item", "price", "count"], [Types.STRING(), Types.FLOAT(), Types.INT()])
SUM_OF_V = ColumnAggregates("k", [("v", "sum")])


@pytest.fixture
def orders(tmp_path: Path) -> Any:
    return Program(tmp_path).env.from_collection([], ORDERS)


def test_the_result_has_the_key_and_a_column_for_each_aggregate(orders: Any) -> None:
    result = orders.key_by("item").aggregate_batches({"price": ["sum", "min"], "count": ("count", "mean")})
    names = ["item", "price_sum", "price_min", "count_count", "count_mean"]
    types = [Types.STRING(), Types.DOUBLE(), Types.FLOAT(), Types.LONG(), Types.DOUBLE()]
    assert result.get_type() == Types.ROW_NAMED(names, types)
    windows = orders.key_by("item").window(TumblingEventTimeWindows(10, 0)).aggregate_batches({"count": "sum"})
    assert windows.get_type() == Types.ROW_NAMED(
        ["item", "window_start", "window_end", "count_sum"], [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()]
    )


def test_partial_results_are_made_in_the_senders_vertex(tmp_path: Path) -> None:
    program = Program(tmp_path)
    stream = program.source([{"k": "a", "v": 1}])
    program.collect(stream.union(stream.map(lambda record: record)).key_by("k").aggregate_batches({"v": "sum"}))
    sender, receiver = program.graph().vertices
    assert [operator.factory.kind for operator in sender.operators].count("column_partials") == 2
    assert receiver.operators[0].factory.kind == "column_totals"


@pytest.mark.parametrize("asked", [{}, {"price": []}, {"price": "median"}, {"price": ["sum", "first"]}])
def test_what_is_no_aggregate_is_refused(orders: Any, asked: Any) -> None:
    with pytest.raises(ValueError, match="The aggregates of a column are sum, min, max, count, mean; got"):
        orders.key_by("item").aggregate_batches(asked)


def test_wrong_columns_and_keys_are_refused_on_the_driver(orders: Any) -> None:
    with pytest.raises(UnsupportedOperationError, match=r"of the column 'weight'.*declared to have item, price, count"):
        orders.key_by("item").aggregate_batches({"weight": "sum"})
    with pytest.raises(UnsupportedOperationError, match="of the column 'name'"):
        orders.key_by("name").aggregate_batches({"count": "sum"})
    with pytest.raises(UnsupportedOperationError, match=r"'mean' of the column 'item'.*no number"):
        orders.key_by("item").aggregate_batches({"item": "mean"})
    with pytest.raises(UnsupportedOperationError, match=r'name it: key_by\("column"\)'):
        orders.key_by(lambda order: order["item"]).aggregate_batches({"count": "sum"})


def test_a_result_of_the_name_of_the_key_is_refused(tmp_path: Path) -> None:
    """Records have each field once, so the key would be lost."""
    stream = Program(tmp_path).env.from_collection([{"v_sum": 1, "window_end": 1, "v": 2}])
    with pytest.raises(ValueError, match=r"a column 'v_sum', as the key is named"):
        stream.key_by("v_sum").aggregate_batches({"v": ["count", "sum"]})
    by_end = stream.key_by("window_end")
    by_end.aggregate_batches({"v": "sum"})
    with pytest.raises(ValueError, match="a column 'window_end'"):
        by_end.window(TumblingEventTimeWindows(10, 0)).aggregate_batches({"v": "sum"})


@pytest.mark.parametrize(
    "windows",
    [
        lambda keyed: keyed.window(TumblingProcessingTimeWindows(10, 0)),
        lambda keyed: keyed.window(EventTimeSessionWindows(10)),
        lambda keyed: keyed.count_window(3),
        lambda keyed: keyed.window(TumblingEventTimeWindows(10, 0)).trigger(CountTrigger.of(2)),
    ],
)
def test_other_windows_are_refused(orders: Any, windows: Any) -> None:
    with pytest.raises(UnsupportedOperationError, match="tumbling and sliding event-time windows"):
        windows(orders.key_by("item")).aggregate_batches({"count": "sum"})


def batch(**columns: Any) -> ColumnBatch:
    return ColumnBatch(pa.RecordBatch.from_pydict(columns))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"k": ["a"], "w": [1]}, "it has no column 'v'"),
        ({"v": [1]}, "it has no column 'k'"),
        ({"k": ["a"], "v": ["x"]}, "Arrow cannot compute sum of 'v' by 'k' where the types are k: string, v: string"),
        ({"k": [[1]], "v": [1]}, "Arrow cannot compute"),
    ],
)
def test_columns_that_cannot_be_aggregated_are_refused(given: Any, told: str) -> None:
    operator = ColumnPartialsOperator(SUM_OF_V, None)
    with pytest.raises(BatchColumnsError, match=told):
        list(operator.process_columns(batch(**given), 0))


def test_watermarks_wait_for_the_results_of_the_epoch() -> None:
    partials, totals = ColumnPartialsOperator(SUM_OF_V, None), ColumnTotalsOperator(SUM_OF_V, None)
    with OperatorHarness(totals) as harness:
        harness.output()
        for start in (0, 10):
            columns = pa.RecordBatch.from_pydict({"k": ["a", "b", "a"], "v": [1, 2, 3]})
            stamps = int64_column([start, start + 1, start + 2])
            given = ColumnBatch(columns, timestamps=stamps, watermarks=[(1, start), (3, start + 1)])
            assert list(partials.process_columns(given, 0)) == []
            sent = [out for _, out in partials.prepare_snapshot()]
            assert [out.watermarks for out in sent] == [(), [(0, start + 1)]]
            for out in sent:
                process: Any = totals.process_columns if isinstance(out, ColumnBatch) else totals.process
                assert list(process(out, 0)) == []
            results, watermark = [out.rows() for _, out in totals.prepare_snapshot()]
            factor = 2 if start else 1
            assert results.records == [{"k": "a", "v_sum": 4 * factor}, {"k": "b", "v_sum": 2 * factor}]
            assert results.timestamps == [start + 2, start + 1]
            assert watermark == RowBatch([], None, [(0, start + 1)])


@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows(10, 0), SlidingEventTimeWindows(10, 5, 0)])
def test_records_that_wait_are_in_their_window_at_its_last_moment_and_not_before(assigner: Any) -> None:
    factory = ColumnWindowFactory(assigner, SUM_OF_V, None, allowed_lateness_ms=0, late_tag=None)
    operator: Any = factory.create()
    with OperatorHarness(operator) as harness:
        harness.open()
        found: list[Any] = []
        for watermark, stamps in ((4, [5, 12]), (8, [9, 19]), (9, [25])):
            columns = pa.RecordBatch.from_pydict({"k": ["a"] * len(stamps), "v": [1] * len(stamps)})
            marks = [(len(stamps), watermark)]
            given = ColumnBatch(columns, timestamps=int64_column(stamps), watermarks=marks)
            found.append([record for _, out in operator.process_columns(given, 0) for record in out.rows().records])
        assert found == [[], [], [{"k": "a", "window_start": 0, "window_end": 10, "v_sum": 2}]]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("scale", [0, 2])
def test_a_sum_of_decimals_has_all_of_its_digits(sign: int, scale: int) -> None:
    """Arrow's own sums of 38 digits wrap around."""
    most = sign * Decimal(9 * 10**37).scaleb(-scale)
    aggregates = ColumnAggregates("k", [("v", "sum"), ("v", "mean")])
    batch = pa.record_batch({"k": [1, 1], "v": pa.array([most, most], pa.decimal128(38, scale))})
    partials = aggregates.partials(aggregates.columns_of(batch))
    ((_, *held),) = aggregates.rows(aggregates.combined([partials, partials]))
    results = [[value] for value in aggregates.get_result(tuple(held))]
    [(_, _, found)] = aggregates.results([1], results, partials.schema, {})
    assert found.to_pydict() == {
        "k": [1],
        "v_sum": [sign * Decimal(36 * 10**37).scaleb(-scale)],
        "v_mean": [float(most)],
    }


LIMITS: list[tuple[Any, Any, Any]] = [
    (pa.int8(), -(2**7), 2**7 - 1),
    (pa.int64(), -(2**63), 2**63 - 1),
    (pa.uint64(), 0, 2**64 - 1),
    (pa.float32(), -1.5, 2.0**120),
    (pa.float64(), float("-inf"), 1e300),
    (pa.decimal128(38, 0), Decimal(-(10**37)), Decimal(10**38 - 1)),
    (pa.decimal256(76, 0), Decimal(-(10**75)), Decimal(10**76 - 1)),
    (pa.timestamp("s"), -(2**30), 2**30),
    (pa.timestamp("us", "Europe/Berlin"), -1, 2**50 + 1),
    (pa.timestamp("ns"), 1_577_836_800_000_000_001, 1_577_836_800_000_000_002),
    (pa.timestamp("ns", "Europe/Berlin"), 1, 2),
    (pa.date32(), -1, 40_000),
    (pa.time64("us"), 1, 2),
    (pa.bool_(), False, True),
    (pa.string(), "a", "é"),
    (pa.large_binary(), b"", b"\xff"),
]


@pytest.mark.parametrize(("kind", "least", "greatest"), LIMITS)
def test_extremes_are_values_of_the_column_in_its_type(kind: Any, least: Any, greatest: Any) -> None:
    """What is held as Python objects meanwhile is not rounded, and not taken for another type."""
    aggregates = ColumnAggregates("k", [("v", "min"), ("v", "max")])
    given = pa.array([greatest, None, least, greatest], kind)
    columns = aggregates.columns_of(pa.record_batch({"k": ["a", "a", "a", "b"], "v": given}))
    partials = aggregates.combined([aggregates.partials(columns), aggregates.partials(columns.slice(1, 1))])
    rows = {key: values for key, *values in aggregates.rows(partials)}
    results = [list(found) for found in zip(rows["a"], rows["b"], strict=True)]
    [(_, _, found)] = aggregates.results(["a", "b"], results, partials.schema, {})
    assert found.column("v_min").equals(pa.array([least, greatest], kind))
    assert found.column("v_max").equals(pa.array([greatest, greatest], kind))


@pytest.mark.parametrize("values", [[2**64 - 1], [2**63, 1], [2**64 - 2, 0, 1], [1, 2]])
def test_a_sum_of_a_column_without_signs_is_one_and_may_use_all_64_bits(values: list[int]) -> None:
    batch = pa.record_batch({"k": ["a"] * len(values), "v": pa.array(values, pa.uint64())})
    partials = SUM_OF_V.partials(SUM_OF_V.columns_of(batch))
    [(_, held)] = SUM_OF_V.rows(SUM_OF_V.combined([partials]))
    [(_, _, found)] = SUM_OF_V.results(["a"], [[held]], partials.schema, {})
    assert found.column("v_sum").equals(pa.array([sum(values)], pa.uint64()))


def test_a_sum_of_decimals_that_no_column_can_hold_is_an_error() -> None:
    values = pa.array([Decimal(9 * 10**75)] * 2, pa.decimal256(76, 0))
    aggregates = ColumnAggregates("k", [("v", "sum")])
    with pytest.raises(BatchColumnsError, match="more than 76 digits; cast it to floating point"):
        aggregates.partials(aggregates.columns_of(pa.record_batch({"k": [1, 1], "v": values})))


def test_a_sum_that_has_no_place_in_64_bits_is_an_error_and_does_not_wrap() -> None:
    partials, totals = ColumnPartialsOperator(SUM_OF_V, None), ColumnTotalsOperator(SUM_OF_V, None)
    with OperatorHarness(totals) as harness:
        harness.output()
        assert list(partials.process_columns(batch(k=["a", "a"], v=[2**63 - 1, 1]), 0)) == []
        for _, out in partials.finish():
            totals.process_columns(out, 0)  # type: ignore[arg-type]
        with pytest.raises(BatchColumnsError, match="values of 'v_sum' have no place in a column of int64"):
            list(totals.prepare_snapshot())


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"k": [1], "v": [1]}, {"k": [1.0], "v": [0.5]}, {"k": 1, "v_sum": 1.5}),
        ({"k": [1.0], "v": [0.5]}, {"k": [1], "v": [1]}, {"k": 1, "v_sum": 1.5}),
        ({"k": ["a"], "v": [1]}, {"k": ["a"], "v": [None]}, {"k": "a", "v_sum": 1}),
    ],
)
def test_batches_of_other_types_come_together_in_the_totals(first: Any, second: Any, expected: Any) -> None:
    partials, totals = ColumnPartialsOperator(SUM_OF_V, None), ColumnTotalsOperator(SUM_OF_V, None)
    with OperatorHarness(totals) as harness:
        harness.output()
        sent = [out for given in (first, second) for _, out in partials.process_columns(batch(**given), 0)]
        sent += [out for _, out in partials.finish()]
        for out in sent:
            totals.process_columns(out, 0)  # type: ignore[arg-type]
        [results] = [out.rows().records for _, out in totals.prepare_snapshot()]
        assert results == [expected]


DAY, MOMENT = datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 5, 6)  # noqa: DTZ001 - without a zone
#: Two columns of one name, of types that Arrow itself would bring together by changing values, or not at all.
APART: list[tuple[Any, Any]] = [
    (pa.array([0.1]), pa.array([0.5], pa.float32())),
    (pa.array([16777217.0]), pa.array([0.5], pa.float32())),
    (pa.array([2**60 + 1]), pa.array([0.5])),
    (pa.array([2]), pa.array([Decimal("0.5")])),
    (pa.array([DAY]), pa.array([MOMENT])),
    (pa.array(["x"]), pa.array([b"x"])),
    (pa.array([True]), pa.array([5])),
    (pa.array([2**64 - 1], pa.uint64()), pa.array([-1])),
    (pa.array([MOMENT]), pa.array([MOMENT], pa.timestamp("us", "UTC"))),
    (pa.array([Decimal("1.1234")]), pa.array([Decimal("1.12")])),
    (pa.array([None]), pa.array([7])),
]


def totals_of(function: str, batches: list[Any], key: str = "k") -> list[dict[str, Any]]:
    """Return the totals of batches, each of which comes by itself, of a column `v`."""
    aggregates = ColumnAggregates(key, [("v", function)])
    partials, totals = ColumnPartialsOperator(aggregates, None), ColumnTotalsOperator(aggregates, None)
    with OperatorHarness(totals) as harness:
        harness.output()
        for given in batches:
            sent = [out for _, out in partials.process_columns(ColumnBatch(given), 0)]
            for out in [*sent, *(out for _, out in partials.finish())]:
                totals.process_columns(out, 0)  # type: ignore[arg-type]
        return [record for _, out in totals.prepare_snapshot() for record in out.rows().records]


@pytest.mark.parametrize(("first", "second"), [*APART, *[(other, one) for one, other in APART]])
def test_the_results_of_a_key_do_not_depend_on_other_keys(first: Any, second: Any) -> None:
    """Neither its value, of which earlier and later batches have other types, nor the key itself."""
    values = [first[0].as_py(), second[0].as_py()]
    batches = [pa.record_batch([["a"], first], ["k", "v"]), pa.record_batch([["b"], second], ["k", "v"])]
    for function in ("min", "max"):
        found = {one["k"]: one[f"v_{function}"] for one in totals_of(function, batches)}
        assert found == {"a": values[0], "b": values[1]}
        assert [isinstance(one, datetime.datetime) for one in found.values()] == [
            isinstance(one, datetime.datetime) for one in values
        ]
    batches = [pa.record_batch([first, [1]], ["k", "v"]), pa.record_batch([second, [10]], ["k", "v"])]
    found = {(type(one["k"]), one["k"]): one["v_sum"] for one in totals_of("sum", batches)}
    assert sorted(found.values()) == [1, 10]
    assert [key for _, key in found] == values


@pytest.mark.parametrize(
    ("function", "first", "second", "expected"),
    [
        ("sum", pa.array([1]), pa.array([0.5]), 1.5),
        ("sum", pa.array([2**70], pa.decimal128(38, 0)), pa.array([1]), 2**70 + 1),
        ("sum", pa.array([2**53 + 1]), pa.array([Decimal("0.5")]), Decimal(2**53 + 1) + Decimal("0.5")),
        ("max", pa.array([0.5], pa.float32()), pa.array([16777217.0]), 16777217.0),
        ("min", pa.array([MOMENT]), pa.array([MOMENT], pa.timestamp("ns")), MOMENT),
        ("sum", pa.array([2**60 + 1]), pa.array([0.5]), "1152921504606846977 (int) stands beside fractions"),
        ("max", pa.array([2**60 + 1]), pa.array([0.5]), "1152921504606846977 (int) stands beside fractions"),
        ("sum", pa.array([Decimal("0.5")]), pa.array([0.5]), "Decimal('0.5') (Decimal) and 0.5 (float)"),
        ("min", pa.array([Decimal("0.5")]), pa.array([float("nan")]), "Decimal('0.5') (Decimal) and nan (float)"),
        ("max", pa.array([DAY]), pa.array([MOMENT]), "(date) and datetime.datetime(2020, 1, 1, 5, 6) (datetime)"),
        ("max", pa.array([True]), pa.array([5]), "True (bool) and 5 (int)"),
        ("min", pa.array(["b"]), pa.array([1]), "'b' (str) and 1 (int)"),
        ("max", pa.array([MOMENT]), pa.array([MOMENT], pa.timestamp("us", "UTC")), "has a time zone"),
    ],
)
def test_a_total_only_widens_its_type_or_names_the_column_and_both_values(
    function: str, first: Any, second: Any, expected: Any
) -> None:
    batches = [pa.record_batch([["a"], one], ["k", "v"]) for one in (first, second)]
    if isinstance(expected, str):
        with pytest.raises(BatchColumnsError) as caught:
            totals_of(function, batches)
        assert expected in str(caught.value)
        assert f"the {function} of 'v' brings" in str(caught.value)
    else:
        assert totals_of(function, batches) == [{"k": "a", f"v_{function}": expected}]


def test_what_no_python_value_is_names_its_column() -> None:
    far, nanos = pa.array([2**62], pa.timestamp("s")), pa.array([1], pa.time64("ns"))
    for name, column in (("k", far), ("v", far), ("k", nanos), ("v", nanos)):
        batch = pa.record_batch({"k": pa.array(["a"]), "v": pa.array([1])} | {name: column})
        with pytest.raises(BatchColumnsError, match=f"in its column '{name}'"):
            totals_of("max", [batch])
    interval = pa.record_batch({"k": pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "v": pa.array([1])})
    with pytest.raises(BatchColumnsError, match="its column 'k' is of month_day_nano_interval"):
        totals_of("max", [interval])


def test_keys_of_finer_units_are_those_of_microseconds_or_refused() -> None:
    whole, fine = pa.array([1_000], pa.timestamp("ns")), pa.array([1], pa.timestamp("us"))
    batches = [pa.record_batch([key, [1]], ["k", "v"]) for key in (whole, fine)]
    assert totals_of("sum", batches) == [{"k": datetime.datetime(1970, 1, 1, 0, 0, 0, 1), "v_sum": 2}]  # noqa: DTZ001
    batch = pa.record_batch([pa.array([1_000, 1_001], pa.timestamp("ns")), [1, 1]], ["k", "v"])
    with pytest.raises(BatchColumnsError, match=r"column 'k' Timestamp.*00:00:00\.000001001.*has nanoseconds"):
        totals_of("sum", [batch])


@pytest.mark.parametrize(
    "most",
    [
        {"waiting_columns._MOST_RECORDS": 1},
        {"waiting_columns._MOST_BYTES": 1},
        {"column_totals._RESULTS_AT_ONCE": 2},
        {"waiting_columns._MOST_RECORDS": 1, "column_totals._MOST_HELD": 3},
        {"waiting_columns._MOST_RECORDS": 1, "column_totals._MOST_HELD": 3, "column_totals._MOST_KEYS": 2},
    ],
)
def test_results_are_the_same_beyond_what_may_wait(monkeypatch: pytest.MonkeyPatch, most: dict[str, int]) -> None:
    for name, value in most.items():
        monkeypatch.setattr(f"penstock._engine.operators.columnar.{name}", value)
    partials, totals = ColumnPartialsOperator(SUM_OF_V, None), ColumnTotalsOperator(SUM_OF_V, None)
    with OperatorHarness(totals) as harness:
        harness.output()
        sent: list[Any] = []
        for first in range(0, 24, 4):
            numbers = range(first, first + 4)
            columns = pa.RecordBatch.from_pydict({"k": [f"{n % 5}" for n in numbers], "v": list(numbers)})
            given = ColumnBatch(columns, timestamps=int64_column(list(numbers)), watermarks=[(4, first)])
            sent += [out for _, out in partials.process_columns(given, 0)]
        early = len(sent)
        sent += [out for _, out in partials.prepare_snapshot()]
        for out in sent:
            process: Any = totals.process_columns if isinstance(out, ColumnBatch) else totals.process
            assert list(process(out, 0)) == []
        *results, watermark = [out.rows() for _, out in totals.prepare_snapshot()]
    sums: Counter[str] = Counter()
    for result in results:
        sums.update({record["k"]: record["v_sum"] for record in result.records})
    assert sums == {f"{key}": sum(range(key, 24, 5)) for key in range(5)}
    assert (early > 0) is ("column_totals._MOST_KEYS" in most), "what has too many keys is sent at once"
    assert [time for _, time in watermark.watermarks] == [20]


@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows(10, 3), SlidingEventTimeWindows(25, 10, 0)])
def test_windows_are_the_same_where_times_are_too_far_apart_to_number_the_slices_between(
    monkeypatch: pytest.MonkeyPatch, assigner: Any
) -> None:
    stamps = [70_007, 5, 29_993, 8, 13, 70_001, -40]

    def results() -> list[Any]:
        operator: Any = ColumnWindowFactory(assigner, SUM_OF_V, None, allowed_lateness_ms=0, late_tag=None).create()
        with OperatorHarness(operator) as harness:
            harness.open()
            columns = pa.RecordBatch.from_pydict({"k": ["a"] * len(stamps), "v": [1 << n for n in range(len(stamps))]})
            given = ColumnBatch(columns, timestamps=int64_column(stamps), watermarks=[(len(stamps), 1 << 40)])
            return [record for _, out in operator.process_columns(given, 0) for record in out.rows().records]

    far = results()  # a span of more than 4,096 slices
    monkeypatch.setattr("penstock._engine.operators.columnar.column_windows._MOST_SLICES_COUNTED", 1 << 20)
    assert far == results()
    assert [record["v_sum"] for record in far if record["window_end"] > 70_007]
    assert sum(record["v_sum"] for record in far) >= (1 << len(stamps)) - 1
