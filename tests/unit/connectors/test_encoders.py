"""A block is written as its records would be one by one."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common.serialization import BulkWriter, Encoder
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.datastream.formats.csv import CsvBulkWriters, CsvEncoder, CsvSchema

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation

SCHEMA = CsvSchema.builder().add_string_column("name").add_number_column("n").set_use_header().build()


@pytest.mark.parametrize(
    ("type_info", "records"),
    [
        (None, ["a", (1, None), Row(1), b"raw"]),
        (Types.STRING(), ["a", "", None]),
        (Types.ROW([Types.INT()]), [Row(1), Row(None)]),
        (Types.LONG(), [1, None]),
    ],
)
def test_string_encoder(type_info: TypeInformation | None, records: list[Any]) -> None:
    encoder = Encoder.simple_string_encoder().for_type(type_info)
    block, single = BytesIO(), BytesIO()
    encoder.encode_all(records, block)
    for record in records:
        encoder.encode(record, single)
    assert block.getvalue() == single.getvalue()


def test_csv_encoder() -> None:
    records: list[Any] = [Row(name="a", n=1), Row("b", 2), ("c,", None), {"n": 4, "name": 'd"'}]
    block, single = BytesIO(), BytesIO()
    CsvEncoder(SCHEMA).encode_all(records, block)
    for record in records:
        CsvEncoder(SCHEMA).encode(record, single)
    assert block.getvalue() == single.getvalue() == b'a,1\nb,2\n"c,",\n"d""",4\n'


def test_csv_record_with_another_number_of_values_is_shown() -> None:
    with pytest.raises(ValueError, match=r"\('a',\) has 1 values"):
        CsvEncoder(SCHEMA).encode(("a",), BytesIO())


def test_bulk_writer_takes_blocks_and_single_records() -> None:
    file = BytesIO()
    writer = CsvBulkWriters.for_schema(SCHEMA).create(file)
    writer.add_elements([("a", 1)])
    writer.add_element(("b", 2))
    writer.finish()
    assert file.getvalue() == b"name,n\na,1\nb,2\n"


def test_block_of_a_bulk_writer_is_its_records_in_order() -> None:
    class Recorded(BulkWriter):
        elements: list[Any]

        def add_element(self, element: Any) -> None:
            self.elements.append(element)

        def flush(self) -> None: ...

        def finish(self) -> None: ...

    writer = Recorded()
    writer.elements = []
    writer.add_elements([1, 2, 3])
    assert writer.elements == [1, 2, 3]
