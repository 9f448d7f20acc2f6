"""A record of a file has a limit of length, however the file holds it."""

from __future__ import annotations

import gzip
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.cells import cells

from penstock._connectors.files.opening import FoundFile, filesystem_of
from penstock._formats import lines, parts
from penstock.common.typeinfo import Types
from penstock.datastream.connectors.file_system import StreamFormat
from penstock.datastream.formats.avro import AvroBulkWriters, AvroFormat, AvroSchema
from penstock.datastream.formats.csv import CsvReaderFormat
from penstock.datastream.formats.json import JsonLinesFormat
from penstock.datastream.formats.parquet import ParquetFormat
from penstock.errors import SourceFileError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock._formats.file_format import FileFormat
    from penstock._formats.parts import FilePart

LIMIT = 4_000
TEXTS = AvroSchema.parse_string('{"type": "record", "name": "Text", "fields": [{"name": "a", "type": "string"}]}')


def avro(text: str) -> bytes:
    file = BytesIO()
    writer = AvroBulkWriters.for_generic_record(TEXTS).create(file)
    writer.add_element({"a": text})
    writer.finish()
    return file.getvalue()


def parquet(text: str) -> bytes:
    file = BytesIO()
    write: Any = pq.write_table  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    write(pa.table({"a": [text]}), file, use_dictionary=False, write_statistics=False)
    return file.getvalue()


CSV = CsvReaderFormat.for_schema(Types.ROW_NAMED(["a"], [Types.STRING()]))  # pyright: ignore[reportArgumentType]
ENCODERS: dict[str, Callable[[str], bytes]] = {
    "lines": lambda text: b"%s\nb\n" % text.encode(),
    "packed": lambda text: gzip.compress(text.encode()),
    "wide": lambda text: text.encode("utf-16le"),
    "quoted": lambda text: b'"%s"\n' % text.encode(),
    "quoted lines": lambda text: b'"%s"\n' % text.replace("x" * 50, "x" * 49 + "\n").encode(),
    "avro": avro,
    "parquet": parquet,
}
FORMATS: list[tuple[str, FileFormat, str]] = [
    ("a.txt", StreamFormat.text_line_format(), "lines"),
    ("a.gz", StreamFormat.text_line_format(), "packed"),
    ("a.txt", StreamFormat.text_line_format("UTF-16LE"), "wide"),
    ("a.jsonl", JsonLinesFormat("skip"), "quoted"),
    ("a.csv", CSV, "lines"),
    ("a.csv", CSV, "quoted lines"),
    ("a.avro", AvroFormat(), "avro"),
    ("a.parquet", ParquetFormat(), "parquet"),
]


def read(file_format: FileFormat, path: Path) -> list[Any]:
    file = FoundFile.of(filesystem_of(str(path)).status(str(path)))
    cut: list[FilePart] = file_format.cut(file, 1 << 20)
    return [record for part in cut for block, _ in file_format.read(file, part) for record in block]


@cells("name, file_format, encoder", FORMATS)
def test_a_record_that_is_too_long_is_an_error_that_names_its_file(
    name: str, file_format: FileFormat, encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", 64)
    monkeypatch.setattr(parts, "LONGEST_RECORD", LIMIT)
    monkeypatch.setattr(parts, "LARGEST_GROUP", LIMIT)
    path = tmp_path / name
    path.write_bytes(ENCODERS[encoder]("x" * (LIMIT // 2)))
    assert read(file_format, path)
    path.write_bytes(ENCODERS[encoder]("x" * LIMIT * 2))
    with pytest.raises(SourceFileError, match=f"{path}.* has more than {LIMIT} bytes.*smaller"):
        read(file_format, path)
