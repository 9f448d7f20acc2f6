"""What files take as a record: rows that are new, dicts, and values in an order; the same in every format."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.common import Row, RowKind, Types
from penstock.datastream.formats.arrow import ArrowBulkWriters
from penstock.datastream.formats.avro import AvroBulkWriters, AvroSchema
from penstock.datastream.formats.csv import CsvBulkWriters
from penstock.datastream.formats.parquet import AvroParquetWriters, ParquetBulkWriters
from penstock.errors import RecordValueError

if TYPE_CHECKING:
    from penstock.common.serialization import BulkWriterFactory

PAIR = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.STRING()])
COLUMNS = pa.schema([("a", pa.string()), ("b", pa.string())])
RECORD = AvroSchema(
    {"type": "record", "name": "R", "fields": [{"name": name, "type": "string"} for name in ("a", "b")]}
)
TYPED = {
    "CSV": CsvBulkWriters.for_schema(PAIR),
    "Avro": AvroBulkWriters.for_generic_record(RECORD),
    "Avro in Parquet": AvroParquetWriters.for_generic_record(RECORD),
    "Parquet": ParquetBulkWriters.for_row_type(PAIR),
    "Parquet, lenient": ParquetBulkWriters.for_schema(COLUMNS, lenient=True),
    "Arrow": ArrowBulkWriters.for_schema(COLUMNS),
}
FORMATS = TYPED | {
    "Parquet, inferred": ParquetBulkWriters.for_schema(),
    "Arrow, inferred": ArrowBulkWriters.for_schema(),
}


def write(factory: BulkWriterFactory, record: Any) -> bytes:
    stream = BytesIO()
    writer = factory.create(stream)
    writer.add_element(record)
    writer.finish()
    return stream.getvalue()


@pytest.mark.parametrize("name", FORMATS)
def test_a_row_that_is_not_new_is_refused_as_the_file_would_have_it_as_a_new_one(name: str) -> None:
    assert write(FORMATS[name], Row(a="x", b="y"))
    for kind in set(RowKind) - {RowKind.INSERT}:
        with pytest.raises(RecordValueError, match=f"kind {kind.name}"):
            write(FORMATS[name], Row.of_kind(kind, a="x", b="y"))


@pytest.mark.parametrize("name", TYPED)
def test_what_has_no_values_in_an_order_is_refused(name: str) -> None:
    assert write(TYPED[name], ("x", "y"))
    assert write(TYPED[name], ["x", "y"])
    for record in ({"x", "y"}, "xy", b"xy", bytearray(b"xy"), iter("xy"), 7, None):
        with pytest.raises(RecordValueError):
            write(TYPED[name], record)
