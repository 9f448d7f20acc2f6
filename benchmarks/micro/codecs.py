"""What codecs of formats cost, beside what a program does by itself with ``json``, in processor time.

    python benchmarks/micro/codecs.py [rounds]

Each round times both of a pair in turn, for 4,000 records of five fields; the figures are medians for a record. A ratio
above 1 means that the codec is faster.
"""

from __future__ import annotations

import io
import json
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, BinaryIO

from penstock._formats.parts import FilePart
from penstock.common import Row, Types
from penstock.datastream.connectors.file_system import StreamFormat
from penstock.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from penstock.datastream.formats.json import (
    JsonLinesFormat,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 4000
ROW = Types.ROW_NAMED(
    ["id", "name", "price", "ok", "tags"],
    [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN(), Types.LIST(Types.STRING())],
)
VALUES = (12345, "some name", 12.5, True, ["a", "b"])
AVRO = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": ["null", "string"]},
            {"name": "price", "type": "double"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    }
)


@dataclass(frozen=True)
class InMemory:
    """A file, for a format."""

    data: bytes
    path: str = "memory"

    @property
    def size(self) -> int:
        return len(self.data)

    def open(self) -> BinaryIO:
        return io.BytesIO(self.data)


def records_of(file_format: StreamFormat, file: InMemory) -> list[Any]:
    part = FilePart(0, file.size, file.size)
    return [record for block, _ in file_format.read(file, part) for record in block]


def pairs() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return what is compared: by the program itself, and by a codec."""
    row = dict(zip(ROW.get_field_names(), VALUES, strict=True))
    rows, dicts = [Row(**row) for _ in range(RECORDS)], [dict(row) for _ in range(RECORDS)]
    read = JsonRowDeserializationSchema.builder().type_info(ROW).build()
    write = JsonRowSerializationSchema.builder().with_type_info(ROW).build()
    messages = write.serialize_all(rows)
    lines = InMemory(b"\n".join(messages))
    text, typed, untyped = StreamFormat.text_line_format(), JsonLinesFormat(type_info=ROW), JsonLinesFormat()
    avro = [(*VALUES[:3], time_of(place), VALUES[4]) for place in range(RECORDS)]
    to_avro = AvroRowSerializationSchema(avro_schema_string=AVRO)
    of_avro = AvroRowDeserializationSchema(avro_schema_string=AVRO)
    avro_messages = to_avro.serialize_all(avro)

    def loads() -> object:
        return [json.loads(message) for message in messages]

    def dumps() -> object:
        return [json.dumps(one).encode() for one in dicts]

    def loads_lines() -> object:
        return [json.loads(line) for line in records_of(text, lines)]

    return {
        "JSON rows, blocks read": (loads, lambda: read.deserialize_all(messages)),
        "JSON rows, one by one": (loads, lambda: [read.deserialize(message) for message in messages]),
        "JSON rows, written": (dumps, lambda: write.serialize_all(rows)),
        "JSON lines of a type": (loads_lines, lambda: records_of(typed, lines)),
        "JSON lines without a type": (loads_lines, lambda: records_of(untyped, lines)),
        "Avro rows, read": (loads, lambda: of_avro.deserialize_all(avro_messages)),
        "Avro rows, written": (dumps, lambda: to_avro.serialize_all(avro)),
    }


def time_of(place: int) -> Any:
    import datetime

    return datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=place)  # noqa: DTZ001 - as SQL has them


def nanoseconds(run: Callable[[], object]) -> float:
    begin = time.process_time()
    for _ in range(5):
        run()
    return (time.process_time() - begin) / 5 / RECORDS * 1e9


def main(rounds: int) -> None:
    for name, (own, codec) in pairs().items():
        times = [(nanoseconds(own), nanoseconds(codec)) for _ in range(rounds)]
        by_itself, by_codec = median(one for one, _ in times), median(one for _, one in times)
        print(f"{name}: {by_itself:.0f} ns by json, {by_codec:.0f} ns, ratio {by_itself / by_codec:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
