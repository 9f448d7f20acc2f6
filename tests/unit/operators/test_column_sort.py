"""Sorting of batches whose columns differ in type: they become one type that holds all values, or name two of them."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock._engine.operators.columns import ColumnBatch
from penstock._engine.operators.partitions.column_sort import ColumnSorter, SortBatchesOperator
from penstock.common.columns import int64_column
from penstock.common.order import Order
from penstock.errors import BatchColumnsError
from penstock.testing.harness import OperatorHarness

if TYPE_CHECKING:
    from pathlib import Path

DAY, MOMENT = datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 5, 6)  # noqa: DTZ001 - without a zone


def ordered(*batches: Any, stamps: bool = False) -> list[Any]:
    """Return the records of batches, sorted by ``n``; or their timestamps with them."""
    operator = SortBatchesOperator([("n", Order.ASCENDING)], None, nulls_first=False, by_key=False)
    with OperatorHarness(operator):
        for batch in batches:
            given = pa.RecordBatch.from_pydict(batch)
            operator.process_columns(ColumnBatch(given, timestamps=int64_column(given["n"]) if stamps else None), 0)
        rows = [out.rows() for _, out in operator.end_input(0)]
    records = [record for one in rows for record in one.records]
    return [*zip(records, [stamp for one in rows for stamp in one.stamps()], strict=True)] if stamps else records


def test_batches_of_several_types_are_sorted_together() -> None:
    found = ordered({"n": [3, 1], "v": [None, None]}, {"n": [2.5], "v": [7]}, {"n": [2], "w": ["x"]})
    assert found == [
        {"n": 1, "v": None, "w": None},
        {"n": 2, "v": None, "w": "x"},
        {"n": 2.5, "v": 7, "w": None},
        {"n": 3, "v": None, "w": None},
    ]
    stamped = ordered({"n": [3]}, {"n": [1], "w": ["x"]}, stamps=True)
    assert stamped == [({"n": 1, "w": "x"}, 1), ({"n": 3, "w": None}, 3)]


@pytest.mark.parametrize("size", [1, 40])
def test_runs_on_a_disk_get_the_types_of_later_batches(tmp_path: Path, size: int) -> None:
    sorter = ColumnSorter([("n", Order.ASCENDING)], 300, tmp_path, nulls_first=False)
    for start in range(40 * size, 0, -size):
        numbers = list(range(start, start - size, -1))
        kind = pa.int8() if start < 100 else pa.float64()
        sorter.add(pa.RecordBatch.from_pydict({"n": pa.array(numbers, kind)}))
    found = [one for batch in sorter.batches() for one in batch["n"].to_pylist()]
    sorter.close()
    assert found == list(range(1, 40 * size + 1))


@pytest.mark.parametrize(
    ("batches", "told"),
    [
        ([{"n": [1], "d": [DAY]}, {"n": [2], "d": [MOMENT]}], r"'d': datetime.*column 'd' is timestamp.* and date32"),
        ([{"n": [1], "d": ["x"]}, {"n": [2], "d": [b"x"]}], "column 'd' is binary here and string before"),
        ([{"n": [2**60 + 1]}, {"n": [0.5]}], "column 'n' is int64 here and double with the others: Integer value 115"),
        ([{"n": [1]}, {"m": [1]}], "cannot sort by 'n': it has no such column"),
        ([{"n": [1]}, {"n": [{"a": 1}]}], "column 'n' is struct<a: int64> here and int64 before"),
    ],
)
def test_what_no_column_holds_together_is_refused_by_its_column(batches: list[Any], told: str) -> None:
    with pytest.raises(BatchColumnsError, match=told):
        ordered(*batches)
