"""Sorting of batches whose columns differ in type: they become one type that holds all values, or name two of them."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import BatchColumnsError
from penstock.testing import OperatorHarness, StreamRecord

DAY, MOMENT = datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 5, 6)  # noqa: DTZ001 - without a zone


def ordered(*batches: Any, memory: str = "1 mb", stamps: bool = False) -> list[Any]:
    """Return the records of batches, sorted by ``n``; or their timestamps with them."""
    options = {"execution.sort-partition.memory": memory}
    with OperatorHarness.for_stream(
        lambda stream: stream.full_window_partition().sort_partition_batches("n"), configuration=options
    ) as harness:
        for batch in batches:
            given = pa.RecordBatch.from_pydict(batch)
            harness.process_batch(given, given["n"].to_pylist() if stamps else None)
        harness.end_input()
        found = [one for one in harness.output() if isinstance(one, StreamRecord)]
    return [(one.value, one.timestamp) for one in found] if stamps else [one.value for one in found]


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
def test_runs_on_a_disk_get_the_types_of_later_batches(size: int) -> None:
    batches = [
        {"n": pa.array(range(start, start - size, -1), pa.int8() if start < 100 else pa.float64())}
        for start in range(40 * size, 0, -size)
    ]
    assert [one["n"] for one in ordered(*batches, memory="300 b")] == list(range(1, 40 * size + 1))


def test_runs_on_a_disk_are_merged_row_by_row() -> None:
    dense, sparse = list(range(2_000)), list(range(0, 20_000, 10))
    found = [one["n"] for one in ordered({"n": sparse}, {"n": dense}, memory="300 b")]
    assert found == sorted(sparse + dense)


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
