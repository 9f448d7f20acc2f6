"""Reading lines, compared with Python's own text files wherever that reads a file at all."""

from __future__ import annotations

import bz2
import codecs
import errno
import gzip
import io
import lzma
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.cells import cells

from penstock._connectors.files.opening import FoundFile, filesystem_of
from penstock._formats import lines as line_blocks
from penstock._formats.unpacking import open_unpacked
from penstock.common.types import Row
from penstock.datastream.connectors.file_system import FilePart, FileSource, StreamFormat
from penstock.datastream.formats.csv import CsvReaderFormat, CsvSchema
from penstock.errors import SourceFileError
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.datastream.connectors.file_system import FileFormat

CHARSETS = [
    "utf-8",
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "utf-32",
    "utf-32-le",
    "utf-32-be",
    "latin-1",
    "shift_jis",
    "gb18030",
    "big5",
    "euc_kr",
    "iso2022_jp",
    "iso2022_kr",
    "hz",
    "utf-7",
    "cp037",
]
UNICODE_MARKS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}
packed = pytest.mark.parametrize("suffix", PACKED)


def found(path: Path) -> FoundFile:
    return FoundFile.of(filesystem_of(str(path)).status(str(path)))


def read(path: Path, file_format: FileFormat) -> list[Any]:
    return SourceRun(FileSource.for_record_stream_format(file_format, str(path)).build()).run_to_end()  # pyright: ignore[reportArgumentType]


def read_text(path: Path, charset: str = "utf-8") -> list[str]:
    return read(path, StreamFormat.text_line_format(charset))


def as_python_reads(path: Path, charset: str) -> list[str]:
    with path.open(encoding=charset, newline=None) as file:
        return [line.removesuffix("\n") for line in file]


@pytest.fixture(name="small_blocks", params=[1, 6])
def _small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_blocks, "CHUNK_BYTES", request.param)


def cut_at(file_format: FileFormat, path: Path, bounds: list[int]) -> Iterator[Any]:
    for start, end in pairwise(bounds):
        for block, _ in file_format.read(found(path), FilePart(start, end, end - start)):
            yield from block


TEXTS = st.lists(
    st.sampled_from(["a", "ü", "\u20ac", "\U0001f600", "\n", "\r", "\r\n", "\x0b", "\u2028", "\x85", "\ufeff"])
)


@settings(deadline=None, max_examples=300)
@given(signs=TEXTS, mark=st.booleans(), chunk=st.integers(1, 9), data=st.data())
def test_text_cut_anywhere_has_the_lines_that_python_reads(
    tmp_path_factory: pytest.TempPathFactory, signs: list[str], mark: bool, chunk: int, data: st.DataObject
) -> None:
    content = (codecs.BOM_UTF8 if mark else b"") + "".join(signs).encode()
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_bytes(content)
    cuts = data.draw(st.lists(st.integers(0, len(content)), max_size=6))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_blocks, "CHUNK_BYTES", chunk)
        read_in_parts = list(cut_at(StreamFormat.text_line_format(), path, [0, *sorted(cuts), len(content)]))
    assert read_in_parts == as_python_reads(path, "utf-8-sig")


@settings(deadline=None, max_examples=100)
@given(signs=TEXTS, chunk=st.integers(1, 9))
def test_reading_goes_on_from_any_position_whatever_ends_the_lines(
    tmp_path_factory: pytest.TempPathFactory, signs: list[str], chunk: int
) -> None:
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_bytes("".join(signs).encode())
    text = StreamFormat.text_line_format()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_blocks, "CHUNK_BYTES", chunk)
        size = path.stat().st_size
        blocks = list(text.read(found(path), FilePart(0, size, size)))
        for index, (_, position) in enumerate(blocks):
            rest = [line for block, _ in text.read(found(path), FilePart(0, size, size, position)) for line in block]
            assert rest == [line for block, _ in blocks[index + 1 :] for line in block]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@cells("charset", CHARSETS)
def test_lines_of_any_charset_are_those_that_python_reads(
    tmp_path: Path, charset: str, ending: str, small_blocks: None
) -> None:
    sample = [
        "plain",
        "",
        "ü\xad®°",
        "日本語",
        "한국어",
        "漢字",
        "\u0a0a\u0d0d\u0d0a",
        "\U00010a0d",
        "~{ + &",
        "x" * 90,
    ]
    fitting = [line for line in sample if line == line.encode(charset, "ignore").decode(charset, "ignore")]
    path = tmp_path / "a.txt"
    path.write_bytes(ending.join(fitting).encode(charset))
    assert len(fitting) >= 4
    assert read_text(path, charset) == as_python_reads(path, charset) == fitting


@pytest.mark.parametrize("charset", UNICODE_MARKS)
def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path, charset: str, small_blocks: None) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(UNICODE_MARKS[charset] + "one\ntwo\n\ufeffthree".encode(charset))
    family = charset.removesuffix("-le").removesuffix("-be")
    assert read_text(path, charset) == read_text(path, family) == ["one", "two", "\ufeffthree"]
    path.write_bytes(UNICODE_MARKS[charset])
    assert read_text(path, charset) == []


@cells("mark", list(UNICODE_MARKS))
@pytest.mark.parametrize("charset", UNICODE_MARKS)
def test_the_mark_of_another_charset_is_an_error_that_names_it(tmp_path: Path, charset: str, mark: str) -> None:
    if charset == mark or (charset, mark) == ("utf-16-le", "utf-32-le"):  # the latter may be a zero in the former
        return
    path = tmp_path / "a.txt"
    path.write_bytes(UNICODE_MARKS[mark] + "text\n".encode(mark))
    name = mark.upper().replace("-LE", "LE").replace("-BE", "BE")
    with pytest.raises(
        SourceFileError,
        match=rf"a\.txt cannot be read: it begins with the byte order mark of {name}, and should be {charset}",
    ):
        read_text(path, charset)


@pytest.mark.parametrize(
    ("charset", "content", "offset"),
    [
        ("utf-8", b"fine\n\xff\n", 5),
        ("utf-8", b"fine\nf\xc3", 6),
        ("utf-8", codecs.BOM_UTF8 + b"fine\n\xff", 8),
        ("utf-16-le", "fine\n".encode("utf-16-le") + b"\x00\xdc", 10),
        ("utf-16-le", codecs.BOM_UTF16_LE + "fine\n".encode("utf-16-le") + b"x", 12),
        ("utf-16", codecs.BOM_UTF16_BE + "fine\n".encode("utf-16-be") + b"x", 12),
        ("utf-32-be", b"\x00\x00\x00a\x00\x11\x00\x00", 4),
        ("ascii", b"1\r2\r\x80", 4),
    ],
)
def test_bytes_that_are_not_of_the_charset_are_named_by_their_place(
    tmp_path: Path, charset: str, content: bytes, offset: int, small_blocks: None
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(SourceFileError, match=rf"a\.txt .* bytes from {offset} on are no {charset}"):
        read_text(path, charset)


def test_utf_16_without_a_mark_is_an_error_that_says_which_charsets_need_none(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("text\n".encode("utf-16-be"))
    with pytest.raises(SourceFileError, match=r"no utf-16.*UTF-16LE or UTF-16BE"):
        read_text(path, "utf-16")


@pytest.mark.parametrize("charset", ["base64", "rot13", "no-such-charset"])
def test_what_is_no_charset_is_refused_where_it_is_given(charset: str) -> None:
    with pytest.raises(LookupError):
        StreamFormat.text_line_format(charset)


# ---------------------------------------------------------------------------------------------------- compressed files


@packed
@pytest.mark.parametrize("charset", ["utf-8", "utf-16"])
def test_an_archive_of_several_is_read_to_its_end(
    tmp_path: Path, suffix: str, charset: str, small_blocks: None
) -> None:
    texts = ["one\r\ntw", "o\rthree\n", "", "four"]
    pack = PACKED[suffix]
    path = tmp_path / f"a.txt{suffix}"
    halves = [text.encode("utf-16-le" if charset == "utf-16" else charset) for text in texts]
    halves[0] = (codecs.BOM_UTF16_LE if charset == "utf-16" else codecs.BOM_UTF8) + halves[0]
    path.write_bytes(b"".join(map(pack, halves)))
    assert read_text(path, charset) == ["one", "two", "three", "four"]


class FailingDisk(io.BytesIO):
    """A file of which the disk gives the beginning alone."""

    name, path, size = "a.txt", "a.txt", 1_000

    def __init__(self, suffix: str) -> None:
        super().__init__(PACKED[suffix](bytes(1_000))[:8])
        self.path += suffix

    def open(self) -> FailingDisk:
        return self

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if not data:
            raise OSError(errno.EIO, "Input/output error")
        return data


@packed
def test_an_error_of_the_disk_is_no_damage_of_an_archive(suffix: str) -> None:
    disk: Any = FailingDisk(suffix)
    with pytest.raises(OSError, match="Input/output error") as caught, open_unpacked(disk) as stream:
        stream.read()
    assert caught.value.errno == errno.EIO


@packed
@pytest.mark.parametrize("charset", ["utf-8", "utf-16"])
@cells(
    "damage",
    [
        *("cut in the header", "cut", "last byte cut", "second one cut", "other bytes", "none of it"),
        *("something behind", "second one without its header"),
    ],
)
def test_an_archive_that_is_damaged_is_an_error_that_names_it(
    tmp_path: Path, suffix: str, charset: str, damage: str
) -> None:
    whole = PACKED[suffix](("line\n" + "".join(f"{number:x}\n" for number in range(999))).encode(charset))
    content = {
        "cut in the header": whole[:3],
        "cut": whole[: len(whole) // 2],
        "last byte cut": whole[:-1],
        "second one cut": whole + whole[:-1],
        "other bytes": whole[:30] + bytes(byte ^ 0x55 for byte in whole[30:90]) + whole[90:],
        "none of it": b"plain text\n",
        "something behind": whole + b"plain text\n",
        "second one without its header": whole + whole[4:],
    }[damage]
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(content)
    with pytest.raises(SourceFileError, match=r"a\.txt\.\w+ cannot be read: it cannot be unpacked \(.+\); repair"):
        read_text(path, charset)
    schema = CsvSchema.builder().add_string_column("line").set_use_header().build()
    with pytest.raises(
        SourceFileError, match="cannot be unpacked" if charset == "utf-8" else "unpacked|mark of UTF-16LE"
    ):
        read(path, CsvReaderFormat.for_schema(schema))


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("zeros", [1, 4, 100_000])
def test_zeros_behind_and_between_archives_are_padding(tmp_path: Path, suffix: str, zeros: int) -> None:
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(b"".join(PACKED[suffix](line) + bytes(zeros) for line in (b"one\n", b"two\n")))
    assert read_text(path) == ["one", "two"]


@packed
@pytest.mark.parametrize("content", ["no byte", "an archive of nothing"])
def test_an_empty_archive_has_no_lines(tmp_path: Path, suffix: str, content: str) -> None:
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(b"" if content == "no byte" else PACKED[suffix](b""))
    assert read_text(path) == read_text(path, "utf-16-le") == []
    assert read(path, CsvReaderFormat.for_schema(CsvSchema.builder().add_string_column("a").build())) == []


@packed
def test_reading_an_archive_goes_on_where_it_was(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.txt{suffix}"
    lines = [f"line {number}" for number in range(60_000)]
    path.write_bytes(PACKED[suffix]("\r".join(lines).encode()))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()
    assert SourceRun(source, keep_readers=False).run_to_end(polls=1) == lines


@packed
def test_an_archive_that_has_less_than_was_read_of_it_is_an_error_that_names_it(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(PACKED[suffix](b"one\ntwo\n"))
    text = StreamFormat.text_line_format()
    assert list(text.read(found(path), FilePart(0, 1, 1, 8))) == []
    with pytest.raises(SourceFileError, match=rf"a\.txt{suffix} .* has 8 bytes when .* was read up to byte 9"):
        list(text.read(found(path), FilePart(0, 1, 1, 9)))


class Shorter:
    """A file that lost its end after it was found, which only its readers notice."""

    path, size = "a.txt", 9

    def open(self) -> io.BytesIO:
        return io.BytesIO(b"one\ntwo\n")


@pytest.mark.parametrize("start", [0, 4])
def test_a_file_that_ends_before_its_end_is_an_error_behind_its_last_line(start: int) -> None:
    blocks, file = list[bytes](), Shorter()
    with pytest.raises(SourceFileError, match=r"a\.txt .* ends at byte 8, but had 9 bytes"):
        blocks.extend(block.data for block in line_blocks.read_lines(file, FilePart(start, 9, 9), "utf-8"))
    assert b"".join(blocks) == b"one\ntwo\n"[start:]


# ----------------------------------------------------------------------------------------------------------------- CSV

NAMES = CsvSchema.builder().add_string_column("name").add_number_column("n")


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("several_lines", [True, False], ids=["multiline", "cut at lines"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["no mark", "mark"])
def test_csv_ends_its_records_as_text_does(
    tmp_path: Path, ending: str, several_lines: bool, mark: str, small_blocks: None
) -> None:
    path = tmp_path / "a.csv"
    value = f"a{ending}b" if several_lines else "a b"
    rows = [f'"{value}",1', "# no record", "ü,2", f'"{value}{value}",3']
    path.write_bytes((mark + ending.join(rows)).encode())
    schema = CsvSchema.builder().add_columns_from(NAMES.build()).set_allow_comments()
    file_format = CsvReaderFormat.for_schema(schema.set_multiline_values(several_lines).build())
    expected = [Row(name=value, n=1), Row(name="ü", n=2), Row(name=value + value, n=3)]
    assert read(path, file_format) == expected
    if not several_lines:
        size = path.stat().st_size
        assert all(list(cut_at(file_format, path, [0, cut, size])) == expected for cut in range(size))


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_a_header_after_comments_is_found_whatever_ends_the_lines(
    tmp_path: Path, ending: str, small_blocks: None
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(ending.join(["\ufeff# one", "# two", "n,name", "# three", "to,skip", "1,a", ""]).encode())
    schema = CsvSchema.builder().add_columns_from(NAMES.build()).set_allow_comments().set_use_header()
    schema = schema.set_reorder_columns()
    assert read(path, CsvReaderFormat.for_schema(schema.set_skip_first_data_row().build())) == [Row(name="a", n=1)]


@pytest.mark.parametrize("mark", ["utf-16-le", "utf-16-be", "utf-32-be"])
def test_csv_in_another_charset_is_an_error_that_names_it(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(UNICODE_MARKS[mark] + "a,1\n".encode(mark))
    with pytest.raises(SourceFileError, match="begins with the byte order mark of UTF"):
        read(path, CsvReaderFormat.for_schema(NAMES.build()))


def test_csv_with_bytes_that_are_no_text_is_an_error_that_says_where(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,1\nf\xfcr,2\n")
    with pytest.raises(SourceFileError, match="between bytes 0 and 10 do not fit"):
        read(path, CsvReaderFormat.for_schema(NAMES.build()))
