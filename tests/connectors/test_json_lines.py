"""Files with a JSON value in each line."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.kit.cells import cells

from penstock.common import Row, Types
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


@cells(
    "lines, good",
    [
        (b'{"id":1,"v":[10\n,20]}\n{"id":2}\n', [{"id": 2}]),
        (b'{"a":1}{"a":2}\n{"a":3}\n', [{"a": 3}]),
        (b'{"a":1},{"a":2}\n', []),
        (b'{"a":"\\ud800"}\n{"a":1}\n', [{"a": "\ud800"}, {"a": 1}]),
        (b'{"a":1}\r{"a":2}\r\n  \n{"a":1e400}\n', [{"a": 1}, {"a": 2}]),
    ],
)
def test_a_line_is_one_value_whatever_stands_beside_it(lines: bytes, good: list[Any], tmp_path: Path) -> None:
    """Lines that are decoded together must not become one value, or more values than there are lines."""
    for more in (b"", b"bad\n"):
        (tmp_path / "a.jsonl").write_bytes(lines + more)
        assert SourceRun(source(tmp_path, "skip"), 1).run_to_end() == good


def test_lines_of_a_type_are_rows_and_a_line_that_does_not_fit_is_a_bad_one(tmp_path: Path) -> None:
    kind = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    (tmp_path / "a.jsonl").write_bytes(b'{"id": 1, "name": "a"}\n{"name": 5}\n{"id": 1.5}\n')
    assert source(tmp_path, "skip", kind).get_produced_type() == kind
    assert source(tmp_path, "emit", kind).get_produced_type() is None
    rows = [Row(id=1, name="a"), Row(id=None, name="5")]
    SourceContract(lambda: source(tmp_path, "skip", kind), rows).check_all()
    with pytest.raises(SourceFileError, match=r"a\.jsonl .*line at byte 35 does not fit .*field id, '1.5' is no whole"):
        SourceRun(source(tmp_path, "fail", kind), 1).run_to_end()
    with pytest.raises(ValueError, match="no form in JSON"):
        JsonLinesFormat(type_info=Types.TUPLE([Types.INT()]))
