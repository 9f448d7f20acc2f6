"""Functions over batches of columns: what they get, what they may return, and what is refused."""

from __future__ import annotations

import datetime
import itertools
import re
import sys
from decimal import Decimal
from types import ModuleType
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.kit.program import Program

from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.columnar.map_batches import MapBatchesOperator
from penstock._engine.operators.columnar.record_columns import DeclaredColumns, column_batches
from penstock._engine.operators.columns import ColumnBatch
from penstock.common.columns import RecordLayout, int64_column
from penstock.common.typeinfo import Types
from penstock.common.types import Row, RowKind
from penstock.datastream.functions import MapFunction
from penstock.errors import BatchColumnsError, UnsupportedOperationError
from penstock.testing.harness import OperatorHarness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PAIRS = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()])
COLUMNS = pa.RecordBatch.from_pydict({"k": ["a", "b", "a"], "v": [1, 2, 3]})


def same(batch: Any) -> Any:
    return batch


def outputs(function: Any, batch: Any, given: Any = None, declared: Any = None, form: str = "arrow") -> list[Any]:
    """Return the batches that the operator makes of one."""
    harness = OperatorHarness(operator := MapBatchesOperator(function, form, given, declared))
    with harness:
        process: Any = operator.process_columns if isinstance(batch, ColumnBatch) else operator.process
        harness.output()
        return [out for _, out in process(batch, 0)]


def records(batches: list[Any]) -> list[Any]:
    return [record for batch in batches for record in batch.rows().records]


def double(batch: Any) -> Any:
    return batch.set_column(1, batch.schema.names[1], pc.multiply(batch.column(1), 2))


def test_columns_go_through_as_they_are_without_a_copy_or_a_record() -> None:
    [out] = outputs(same, ColumnBatch(COLUMNS))
    assert out.columns is COLUMNS


@pytest.mark.parametrize(
    ("given", "declared", "rows", "expected"),
    [
        (None, None, [{"k": "a", "v": 1}, {"k": "b"}], [{"k": "a", "v": 2}, {"k": "b", "v": None}]),
        (PAIRS, PAIRS, [Row(k="a", v=1)], [Row(k="a", v=2)]),
        (None, PAIRS, [Row(k="a", v=1)], [Row(k="a", v=2)]),
        (
            Types.TUPLE([Types.STRING(), Types.INT()]),
            Types.TUPLE([Types.STRING(), Types.INT()]),
            [("a", 1)],
            [("a", 2)],
        ),
    ],
)
def test_records_become_columns_and_rows_are_what_is_declared(
    given: Any, declared: Any, rows: list[Any], expected: list[Any]
) -> None:
    assert records(outputs(double, RowBatch(rows), given, declared)) == expected


def test_plain_values_are_one_column() -> None:
    lengths = outputs(
        lambda b: pa.record_batch([pc.utf8_length(b["f0"])], ["n"]), RowBatch(["a", "bcd"]), None, Types.INT()
    )
    assert records(lengths) == [1, 3]


@pytest.mark.parametrize("declared", [None, Types.INSTANT()])
@pytest.mark.parametrize(
    "column",
    [
        pa.array([1_577_836_800_000_000_001, None, 2], pa.timestamp("ns")),
        pa.array([1_577_836_800_000_000_001, None, 2], pa.timestamp("ns", "Europe/Berlin")),
        pa.array([1, None, -(2**62) + 1], pa.duration("ns")),
        pa.array([2**64 - 1, None, 0], pa.uint64()),
    ],
)
def test_columns_that_were_rows_in_between_have_all_their_digits(column: Any, declared: Any) -> None:
    given = None if declared is None else Types.ROW_NAMED(["v"], [declared])  # a type that columns do not have
    rows = ColumnBatch(pa.record_batch([column], ["v"])).records()
    if declared is not None:
        rows = [Row(**row) for row in rows]
    [out] = outputs(same, RowBatch(rows), given)
    assert out.columns.column("v").equals(column)


NAIVE = datetime.datetime(2026, 1, 1)  # noqa: DTZ001 - the one without a zone
AWARE = NAIVE.replace(tzinfo=datetime.UTC)


@pytest.mark.parametrize("times", [[[NAIVE, AWARE]], [AWARE.timetz()], [NAIVE.time(), AWARE.timetz()]])
def test_times_of_a_column_keep_their_zones_or_are_refused(times: list[Any]) -> None:
    """Arrow would drop a zone, or take a time without one for UTC."""
    with pytest.raises(BatchColumnsError, match="time zone"):
        outputs(same, RowBatch([{"at": time} for time in times]))
    for kept in ([NAIVE, None], [AWARE, None], [NAIVE.time()], [NAIVE, AWARE], [AWARE, None, NAIVE]):
        assert records(outputs(same, RowBatch([{"at": time} for time in kept]))) == [{"at": time} for time in kept]


@pytest.mark.parametrize(
    ("value", "declared", "why"),
    [
        (UUID(int=5), None, "of a class that columns do not have"),
        (Decimal("NaN"), None, "columns of decimals have finite numbers alone"),
        (Decimal("-Infinity"), None, "columns of decimals have finite numbers alone"),
        (1.5, Types.INT(), "no whole number"),
    ],
)
def test_what_no_column_holds_is_refused_with_a_way_out_that_helps(value: Any, declared: Any, why: str) -> None:
    given = None if declared is None else Types.ROW_NAMED(["v"], [declared])
    ways = "declare the type of the records" if declared is None else "declare another type"
    with pytest.raises(BatchColumnsError, match=rf"'v' .*{why}; convert it in a map\(\) before, or {ways}"):
        outputs(same, RowBatch([{"v": value} if given is None else Row(v=value)]), given)


@pytest.mark.parametrize("stamped", [False, True])
@pytest.mark.parametrize(
    "returns",
    [
        lambda b: [b.slice(0, 1), b.slice(1)],
        lambda b: (part for part in (b.slice(0, 0), b.slice(0, 2), b.slice(2))),
        lambda b: pa.Table.from_batches([b.slice(0, 2), b.slice(2)]),
        lambda b: b.to_pandas(),
        lambda b: [b.slice(0, 2).to_pandas(), pa.Table.from_batches([b.slice(2)])],
    ],
)
def test_a_function_may_return_several_batches_tables_and_frames(returns: Callable[[Any], Any], stamped: bool) -> None:
    stamps = int64_column([5, 6, 7]) if stamped else None
    batches = outputs(returns, ColumnBatch(COLUMNS, timestamps=stamps, watermarks=[(0, 1), (2, 3)]))
    assert records(batches) == COLUMNS.to_pylist()
    if stamped:
        assert [stamp for batch in batches for stamp in batch.rows().timestamps or ()] == [5, 6, 7]
    assert [batch.watermarks for batch in batches if batch.watermarks] == [[(0, 3)]]
    assert batches[-1].watermarks


def test_none_and_batches_without_rows_are_no_rows_and_the_watermark_goes_on() -> None:
    for nothing in (lambda _: None, lambda b: b.slice(0, 0)):
        [out] = outputs(nothing, ColumnBatch(COLUMNS, watermarks=[(1, 7)]))
        assert len(out) == 0
        assert out.watermarks == [(0, 7)]


def test_a_batch_of_nothing_but_a_watermark_does_not_reach_the_function() -> None:
    [out] = outputs(lambda _: 1 / 0, RowBatch([], None, [(0, 4)]))
    assert out.watermarks == [(0, 4)]


def test_another_number_of_rows_needs_records_without_timestamps() -> None:
    def first(batch: Any) -> Any:
        return batch.slice(0, 1)

    assert records(outputs(first, ColumnBatch(COLUMNS))) == [{"k": "a", "v": 1}]
    with pytest.raises(BatchColumnsError, match=r"1 rows of 3 records that have timestamps.*before timestamps"):
        outputs(first, ColumnBatch(COLUMNS, timestamps=int64_column([1, 2, 3])))


def test_pandas_frames_come_and_go() -> None:
    def more(frame: pd.DataFrame) -> pd.DataFrame:
        assert isinstance(frame, pd.DataFrame)
        return frame.assign(v=frame["v"] + 0.5)

    assert records(outputs(more, ColumnBatch(COLUMNS), form="pandas"))[0] == {"k": "a", "v": 1.5}


def test_whole_numbers_among_nulls_stay_whole_in_pandas() -> None:
    columns = pa.RecordBatch.from_pydict({"k": ["a", "b"], "v": [2**62 + 1, None]})
    for declared in (None, PAIRS):
        [out] = outputs(same, ColumnBatch(columns), declared=declared, form="pandas")
        assert out.columns.equals(columns)


def test_polars_frames_come_and_go_where_polars_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class DataFrame:
        __module__ = "polars.dataframe"

        def __init__(self, batch: Any) -> None:
            self.batch = batch

        def to_arrow(self) -> Any:
            return pa.Table.from_batches([self.batch])

    polars: Any = ModuleType("polars")
    polars.from_arrow = DataFrame
    stream = Program(tmp_path).source([1])
    monkeypatch.setattr("penstock._builders.checks.find_spec", lambda _: None)
    with pytest.raises(UnsupportedOperationError, match="polars is not installed"):
        stream.map_batches(same, batch_format="polars")
    monkeypatch.setitem(sys.modules, "polars", polars)

    def through(frame: Any) -> Any:
        assert type(frame) is DataFrame
        return frame

    assert records(outputs(through, ColumnBatch(COLUMNS), form="polars")) == COLUMNS.to_pylist()


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ({"k": ["a"], "w": [1]}, "declared are k: string, v: int64"),
        ({"k": ["a"]}, "declared are k: string, v: int64"),
        ({"k": ["a"], "v": [1], "w": [1]}, "declared are k: string, v: int64"),
        ({"k": ["a"], "v": ["1"]}, "not all values of k: string, v: string are of these types"),
        ({"k": ["a"], "v": pa.array([2**63], pa.uint64())}, "not all values"),
    ],
)
def test_other_columns_than_declared_are_refused_by_the_operators_name(returned: Any, told: str) -> None:
    batch = pa.RecordBatch.from_pydict(returned)
    with pytest.raises(BatchColumnsError, match=f"'MapBatchesOperator' returned it, and .*{told}"):
        outputs(lambda _: batch, ColumnBatch(COLUMNS), declared=PAIRS)


def test_columns_in_another_order_and_narrower_numbers_are_as_declared() -> None:
    batch = pa.RecordBatch.from_pydict({"v": pa.array([1], pa.int8()), "k": ["a"]})
    [out] = outputs(lambda _: batch, ColumnBatch(COLUMNS), declared=PAIRS)
    assert out.columns.schema == pa.schema([("k", pa.string()), ("v", pa.int64())])
    assert out.layout is RecordLayout.ROWS


@pytest.mark.parametrize("returned", [1, "a", {"a": 1}, [1], [{"a": 1}], [[COLUMNS]]])
def test_what_is_no_batch_is_refused(returned: Any) -> None:
    with pytest.raises(BatchColumnsError, match=r"the function (returned|yielded)"):
        outputs(lambda _: returned, ColumnBatch(COLUMNS))


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": 1}, {"a": [1, "x"]}],
        [{"a": 1}, {1: 2}],
        [{"a": 1}, {}],
        [{}],
        [2**70],
        [object()],
    ],
)
def test_a_record_that_is_no_columns_is_refused_by_itself(rows: list[Any]) -> None:
    with pytest.raises(BatchColumnsError, match=f"records such as {re.escape(repr(rows[-1])[:20])}"):
        list(column_batches(RowBatch(rows), None))


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": 1}, 2],
        [(1, 2), (1,)],
        [(1,), {"a": 1}],
        [Row(a=1), {"a": 1}],
        [{"a": 1}, {"a": "x"}, {"a": "y"}, {"a": 2}],
        [{"d": datetime.date(2020, 1, 1)}, {"d": datetime.datetime(2020, 1, 1, 5, 6)}],  # noqa: DTZ001
        ["a", b"a", "a", b"a", b"b"],
        [2**60 + 1, 1, 0.5],
        [0.5, 1, 2**60 + 1],
        [2**64 - 1, -1],
        [{"s": {"at": datetime.datetime(2020, 1, 1)}}, {"s": {"at": datetime.datetime.now(datetime.UTC)}}],  # noqa: DTZ001
    ],
)
@pytest.mark.parametrize("stamps", [None, [10, 20, 30, 40, 50]])
def test_records_that_no_column_holds_together_come_in_batches_of_their_own(
    rows: list[Any], stamps: list[int] | None
) -> None:
    marks = [(1, 7), (len(rows), 9)]
    given = RowBatch(rows, stamps and stamps[: len(rows)], marks)
    found = list(column_batches(given, None))
    assert 1 < len(found) <= len(rows)
    assert [record for one in found for record in one.rows().records] == rows
    assert [stamp for one in found for stamp in one.rows().stamps()] == given.stamps()
    starts = list(itertools.accumulate(map(len, found), initial=0))
    assert [
        (start + at, mark) for start, one in zip(starts, found, strict=False) for at, mark in one.watermarks
    ] == marks


def test_values_that_change_often_are_few_tries_in_few_batches() -> None:
    rows: list[Any] = [place if place % 100 else str(place) for place in range(2048)]
    assert len(list(column_batches(RowBatch(rows), None))) < 200


def test_an_update_is_no_row_of_columns() -> None:
    row = Row(k="a", v=1)
    row.set_row_kind(RowKind.DELETE)
    for declared in (None, DeclaredColumns.of(PAIRS)):
        with pytest.raises(BatchColumnsError, match="kind DELETE"):
            list(column_batches(RowBatch([Row(k="a", v=1), row]), declared))


def test_fields_that_arrow_does_not_have_a_type_for_are_as_their_values_say() -> None:
    declared = DeclaredColumns.of(Types.ROW_NAMED(["a", "b"], [Types.PICKLED_BYTE_ARRAY(), Types.SQL_DATE()]))
    assert declared is not None
    assert not declared.are_complete
    [batch] = column_batches(RowBatch([Row(a=[1], b=datetime.date(2026, 1, 1))]), declared)
    assert batch.columns.schema.field("a").type == pa.list_(pa.int64())
    assert batch.rows().records == [Row(a=[1], b=datetime.date(2026, 1, 1))]


def test_a_function_object_is_opened_and_closed() -> None:
    calls: list[str] = []

    class Noting(MapFunction):
        def open(self, runtime_context: Any) -> None:
            calls.append("open")

        def map(self, value: Any) -> Iterator[Any]:
            calls.append("map")
            yield value

        def close(self) -> None:
            calls.append("close")

    outputs(Noting(), ColumnBatch(COLUMNS))
    assert calls == ["open", "map", "close"]


def test_a_wrong_call_is_refused_on_the_driver(tmp_path: Path) -> None:
    stream: Any = Program(tmp_path).source([1])
    with pytest.raises(ValueError, match="batch_format must be one of arrow, pandas, polars, not 'dask'"):
        stream.map_batches(same, batch_format="dask")
    with pytest.raises(TypeError, match="func must be a MapFunction or a callable"):
        stream.map_batches(3)
