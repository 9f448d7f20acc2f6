"""Columns with values that Python would cut or does not have: told, whether they are read or are to be written."""

from __future__ import annotations

import datetime
import functools
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.datastream.connectors.file_system import FileSource
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetFormat
from penstock.errors import SourceFileError
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from pathlib import Path

_VERSION = int(pa.__version__.partition(".")[0])
_NANOSECONDS = pa.time64("ns")
#: What is too deep for the readers of Parquet since version 26.
DEEP, LIMITS_DEPTH = functools.reduce(lambda inner, _: pa.list_(inner), range(60), pa.int32()), _VERSION >= 26


def read(path: Path, column: Any) -> list[Any]:
    pq.write_table(pa.table({"datum": column}), path)
    return SourceRun(FileSource.for_bulk_file_format(ParquetFormat(), str(path)).build()).run_to_end()


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([123_456_789], _NANOSECONDS), "lose data"),
        (pa.array([[123_456_789]], pa.list_(_NANOSECONDS)), "lose data"),
        (pa.array([{"at": 123_456_789}], pa.struct([("at", _NANOSECONDS)])), "lose data"),
        (pa.array([[("a", 123_456_789)]], pa.map_(pa.string(), _NANOSECONDS)), "lose data"),
        (pa.array([123_456_789], _NANOSECONDS).dictionary_encode(), "lose data"),
        (pa.array([[([1], 1)]], pa.map_(pa.list_(pa.int64()), pa.int64())), "keys that no dict has"),
    ],
    ids=lambda given: str(getattr(given, "type", "")),
)
def test_a_value_that_python_would_cut_or_does_not_have_is_told(tmp_path: Path, column: Any, reason: str) -> None:
    with pytest.raises(SourceFileError, match=f"(?s)datum.*{reason}"):
        read(tmp_path / "a.parquet", column)


def test_times_of_day_in_nanoseconds_are_read_where_python_has_them(tmp_path: Path) -> None:
    time = datetime.time(1, 2, 3, 456789)
    columns = {
        _NANOSECONDS: time,
        pa.list_(_NANOSECONDS): [time, None],
        pa.struct([("at", _NANOSECONDS), ("x", pa.int64())]): {"at": time, "x": 1},
        pa.map_(pa.string(), _NANOSECONDS): {"a": time},
    }
    for kind, value in columns.items():
        assert read(tmp_path / "a.parquet", pa.array([value, None], kind)) == [{"datum": value}, {"datum": None}]


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.decimal128(5, -2), pa.struct([]), pa.month_day_nano_interval()),
        *(pa.dense_union([pa.field("a", pa.int32())]), pa.run_end_encoded(pa.int32(), pa.int64())),
        *(pa.struct([("a", pa.int32()), ("a", pa.int32())]), pa.map_(pa.list_(pa.int32()), pa.int32())),
        *([DEEP] if LIMITS_DEPTH else []),
    ],
    ids=lambda kind: str(kind)[:30],
)
def test_a_column_that_no_file_or_no_record_can_have_is_refused_when_the_program_is_built(kind: Any) -> None:
    with pytest.raises(ValueError, match="'datum'"):
        ParquetBulkWriters.for_schema(pa.schema([("id", pa.int64()), ("datum", kind)]))
