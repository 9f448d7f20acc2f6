"""A job of many files and buckets has no more descriptors than its cap, and none when it has ended, however it ends."""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.connectors.test_buckets import descriptors
from tests.kit.stories import Story

from penstock.common import Encoder, WatermarkStrategy
from penstock.common.job_status import JobStatus
from penstock.datastream import MapFunction
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, StreamFormat
from penstock.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.coordinator import instructions as do
    from penstock._engine.driver.driver import JobDriver

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors as Linux shows them")

FILES, LINES, BUCKETS, CAP = 6, 8, 11, 3
SCHEMA = pa.schema([("n", pa.int64())])
#: How the lines of a file are packed, by the end of its name.
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "txt": lambda data: data,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}


#: The most descriptors that were seen below each folder; functions of the job find it by this module.
MOST: dict[Path, int] = {}


def look() -> None:
    MOST.update({folder: max(most, descriptors(folder)) for folder, most in MOST.items()})


class ByNumber(BucketAssigner):
    def get_bucket_id(self, element: Any, timestamp: int | None, processing_time_ms: int) -> str:
        look()
        return f"b{element['n'] % BUCKETS}"


class Record(MapFunction[Any, dict[str, int]]):
    """Makes a record of what a source gives; one of them may be refused."""

    def __init__(self, refused: int | None) -> None:
        self.refused = refused

    def map(self, value: Any) -> Any:
        look()
        if not isinstance(value, str):  # a dict, or a row
            value = value["n"] if hasattr(value, "keys") else value[0]
        number = int(value)
        if number == self.refused:
            raise ValueError(number)
        return {"n": number}


def lines_of(kind: str) -> Callable[[Path], FileSource]:
    def make(folder: Path) -> FileSource:
        for number in range(FILES):
            lines = "".join(f"{number * LINES + line}\n" for line in range(LINES))
            (folder / f"{number}.{kind}").write_bytes(PACKED[kind](lines.encode()))
        return FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder)).build()

    return make


def csv_of(folder: Path) -> FileSource:
    lines_of("txt")(folder)
    schema = CsvSchema.builder().add_number_column("n").build()
    return FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(folder)).build()


def parquet_of(folder: Path) -> FileSource:
    pq: Any = importlib.import_module("pyarrow.parquet")
    for number in range(FILES):
        pq.write_table(pa.table({"n": [number * LINES + line for line in range(LINES)]}), folder / f"{number}.parquet")
    return FileSource.for_bulk_file_format(ParquetFormat(), str(folder)).build()


SOURCES = {**{kind: lines_of(kind) for kind in PACKED}, "csv": csv_of, "parquet": parquet_of}
SINKS: dict[str, Callable[[str], Any]] = {
    "rows": lambda folder: FileSink.for_row_format(folder, Encoder.simple_string_encoder()),
    "parquet": lambda folder: FileSink.for_bulk_format(folder, ParquetBulkWriters.for_schema(SCHEMA)),
    "csv": lambda folder: FileSink.for_bulk_format(
        folder, CsvBulkWriters.for_schema(CsvSchema.builder().add_number_column("n").build())
    ),
}
ENDS = ("ends", "cancelled", "fails")


@pytest.mark.parametrize(
    ("source", "sink", "end"),
    [
        (source, list(SINKS)[number % 3], ENDS[(number + turn) % 3])
        for turn in (0, 1)
        for number, source in enumerate(SOURCES)
    ],
)
def test_a_job_holds_no_more_descriptors_than_its_cap_and_none_after_its_end(
    tmp_path: Path, source: str, sink: str, end: str
) -> None:
    given, taken = tmp_path / "in", tmp_path / "out"
    given.mkdir()
    taken.mkdir()
    made, refused = SOURCES[source](given), FILES * LINES - 2 if end == "fails" else None
    MOST.clear()
    MOST.update({given: 0, taken: 0})

    def program(sheet: Any) -> None:
        stream = (
            sheet.env.from_source(made, WatermarkStrategy.no_watermarks(), "files").uid("files").map(Record(refused))
        )
        builder = SINKS[sink](str(taken)).with_bucket_assigner(ByNumber()).with_max_open_buckets(CAP)
        stream.sink_to(builder.build()).uid("sink")

    def watched(instruction: do.Instruction, perform: Callable[[do.Instruction], None]) -> None:
        perform(instruction)
        look()

    def cancel(driver: JobDriver) -> None:
        driver.cancel()

    chapter = Story(tmp_path, records=5).run(program, step=watched, asks={4: cancel} if end == "cancelled" else None)
    expected = {"ends": JobStatus.FINISHED, "cancelled": JobStatus.CANCELED, "fails": JobStatus.FAILED}
    assert chapter.status is expected[end], chapter.error
    assert 1 <= MOST[given] <= 2, "a reader opens the next file before it lets go of one"
    assert 2 <= MOST[taken] <= CAP
    assert descriptors(tmp_path) == 0
