"""Files with a JSON value in each line."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.datastream.connectors.file_system import FileSource
from penstock.datastream.formats.json import BadLine, JsonLinesFormat
from penstock.errors import SourceFileError
from penstock.testing.connector_contexts import TestReaderContext
from penstock.testing.source_contract import SourceContract, SourceRun

if TYPE_CHECKING:
    from pathlib import Path

GOOD = [{"id": 1, "tags": ["ü", None]}, [1, 2.5], "text", 12345678901234567890123, True, None]


def source(place: Path, *settings: Any) -> FileSource:
    return FileSource.for_record_stream_format(JsonLinesFormat(*settings), str(place)).build()


def test_contract_over_plain_and_packed_files(tmp_path: Path) -> None:
    text = "".join(json.dumps(value) + "\n" for value in GOOD)
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(text.replace("\n", "\r\n").encode()))
    with pa.CompressedOutputStream(str(tmp_path / "c.jsonl.zst"), "zstd") as packed:
        packed.write(("\n\n" + text.rstrip()).encode())
    SourceContract(lambda: source(tmp_path), GOOD * 3).check_all()


BAD = b'{"id": 1}\n{"id": \r\n{"id": 2}\r{"id": 3}\nNaN\n\xff\n'


def test_a_bad_line_ends_the_job_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + BAD)
    with pytest.raises(SourceFileError, match=r"a\.jsonl .*line at byte 13 is no JSON .*\"emit\""):
        SourceRun(source(tmp_path), 1).run_to_end()


def test_bad_lines_are_emitted_in_their_places(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(BAD)
    found = SourceRun(source(tmp_path, "emit"), 1).run_to_end()
    bad = [record for record in found if isinstance(record, BadLine)]
    assert [record for record in found if record not in bad] == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert [(record.offset, record.data) for record in bad] == [(10, b'{"id": '), (39, b"NaN"), (43, b"\xff")]
    assert all(BAD[record.offset :].startswith(record.data) for record in bad)


def test_bad_lines_that_are_left_out_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(BAD)
    run = SourceRun(source(tmp_path, "skip"), 1)
    assert run.run_to_end() == [{"id": 1}, {"id": 2}, {"id": 3}]
    [context] = run._reader_contexts
    assert isinstance(context, TestReaderContext)
    assert context.metric_group.counter("skippedLines").get_count() == 3
    with pytest.raises(ValueError, match="not 'drop'"):
        JsonLinesFormat("drop")  # type: ignore[arg-type]
