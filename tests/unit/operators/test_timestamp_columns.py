"""Timestamps from a field, of records and of columns."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.columns import ColumnBatch
from penstock._engine.operators.sources.watermarks import TimestampsAndWatermarksOperator
from penstock.common import Duration, WatermarkStrategy
from penstock.common.columns import RecordLayout
from penstock.errors import FieldError, TimestampError
from penstock.testing.harness import OperatorHarness

DAY = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
#: A time before the epoch, with a part of a millisecond.
BEFORE = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=datetime.UTC)


def stamped(batch: Any) -> Any:
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(2))
    operator = TimestampsAndWatermarksOperator(bounded.with_timestamp_assigner("at"))
    with OperatorHarness(operator) as harness:
        harness.output()
        assert operator.takes_columns
        process: Any = operator.process_columns if isinstance(batch, ColumnBatch) else operator.process
        [(_, out)] = process(batch, 0)
        return out


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([5, 3], pa.int64()), [5, 3]),
        (pa.array([5, 3], pa.int16()), [5, 3]),
        (pa.array([DAY, BEFORE], pa.timestamp("us", "UTC")), [int(DAY.timestamp() * 1000), -1]),
        (pa.array([DAY.replace(tzinfo=None)] * 2, pa.timestamp("us")), [int(DAY.timestamp() * 1000)] * 2),
    ],
)
def test_a_field_gives_columns_and_records_the_same_timestamps(column: Any, expected: list[int]) -> None:
    columns = ColumnBatch(pa.record_batch([column], ["at"]))
    by_columns, by_rows = stamped(columns), stamped(columns.rows())
    assert isinstance(by_columns, ColumnBatch)
    assert by_columns._records is None
    assert by_columns.timestamps.to_pylist() == by_rows.timestamps == expected
    assert by_columns.watermarks == by_rows.watermarks == [(2, max(expected) - 3)]


def test_columns_without_that_name_are_looked_at_as_records() -> None:
    values = ColumnBatch(pa.record_batch([pa.array([{"at": 7}])], ["f0"]), RecordLayout.VALUES)
    assert stamped(values).timestamps.to_pylist() == [7]
    with pytest.raises(FieldError, match=r"with_timestamp_assigner\('at'\) .* no such field; it has 'a'"):
        stamped(ColumnBatch(pa.record_batch([pa.array([1])], ["a"])))


@pytest.mark.parametrize("wrong", [None, "soon", 1.5])
def test_what_is_no_time_is_an_error(wrong: Any) -> None:
    for batch in (ColumnBatch(pa.record_batch([pa.array([wrong])], ["at"])), RowBatch([{"at": wrong}])):
        with pytest.raises(TimestampError):
            stamped(batch)
