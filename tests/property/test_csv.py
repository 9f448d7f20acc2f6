"""CSV of any dialect, type and value: what is written is read back, and however it is read, the rows are the same."""

from __future__ import annotations

import datetime
import math
import struct
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock._formats import lines as line_blocks
from penstock._formats.parts import FilePart, cut_evenly
from penstock.common._codecs.csv_decoding import CsvDecoder
from penstock.common._codecs.csv_dialect import CsvDialect
from penstock.common._codecs.csv_encoding import CsvComposer, UnfitFieldError
from penstock.common._codecs.csv_values import CsvColumn, element_type
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types import Row
from penstock.datastream.formats.csv import CsvReaderFormat, CsvSchema

FLOAT32 = struct.Struct("<f")

DIALECTS = st.builds(
    CsvDialect,
    column_separator=st.sampled_from(",|;\t #.1e-a"),
    quote_char=st.sampled_from(["'", '"', "`", None, " ", "x", "1"]),
    escape_char=st.sampled_from([None, "\\", "*", "/"]),
    line_separator=st.sampled_from(["\n", "\r\n", "\r"]),
    null_value=st.sampled_from([None, "NULL", "", "1", "a", "NaN"]),
    allow_comments=st.booleans(),
    multiline_values=st.booleans(),
)
#: Fields with signs where they count, which single signs drawn by chance seldom make.
QUOTED = st.sampled_from(['"a" ,', "'b'\t|", '"",', '"a""b";', "'x' \n", '"\n" \r\n', "\\n,", '"#",', "#,\n"])
SOUP = st.text(st.sampled_from("ab,|;\t #.1en-\"'`\\*/\n\r\ufeff\0üNUL\U0001f600"), max_size=30)
TEXTS = st.one_of(SOUP, st.text(max_size=8), st.sampled_from(["", "NULL", "NaN", "1", "\ud800"]))
VALUES: dict[TypeInformation, st.SearchStrategy[Any]] = {
    Types.STRING(): TEXTS,
    Types.BOOLEAN(): st.booleans(),
    Types.BYTE(): st.integers(-128, 127),
    Types.LONG(): st.integers(-(2**63), 2**63 - 1),
    Types.BIG_INT(): st.integers(),
    Types.FLOAT(): st.floats(width=32),
    Types.DOUBLE(): st.floats(),
    Types.BIG_DEC(): st.decimals(allow_nan=False, allow_infinity=False),
    Types.SQL_DATE(): st.dates(),
    Types.SQL_TIME(): st.times().map(lambda one: one.replace(fold=0)),
    Types.SQL_TIMESTAMP(): st.datetimes(allow_imaginary=False).map(lambda one: one.replace(fold=0)),
    Types.PRIMITIVE_ARRAY(Types.BYTE()): st.binary(max_size=6),
}
#: Values of other types, which no column but their own takes.
STRANGE = st.one_of(*VALUES.values(), st.builds(dict), st.just(object), st.builds(Row, st.integers()))


@st.composite
def columns_of(draw: st.DrawFn) -> list[tuple[CsvColumn, st.SearchStrategy[Any]]]:
    found = []
    for index in range(draw(st.integers(1, 3))):
        type_info, value = draw(st.sampled_from(list(VALUES.items())))
        form = draw(st.sampled_from(["single", "single", "array", "row"]))
        if form == "array":
            type_info, value = Types.OBJECT_ARRAY(type_info), st.lists(st.none() | value, max_size=3)
        if form == "row":
            second, other = draw(st.sampled_from(list(VALUES.items())))
            type_info = Types.ROW_NAMED(["x", "y"], [type_info, second])
            value = st.builds(lambda x, y: Row(x=x, y=y), st.none() | value, st.none() | other)
        separator = draw(st.sampled_from([";", "|", ", ", "", "aa"]))
        found.append((CsvColumn.of(f"f{index}", type_info, separator), st.none() | value))
    return found


def is_sound(dialect: CsvDialect) -> bool:
    try:
        dialect.check()
    except ValueError:
        return False
    return True


def as_read(value: Any, column: CsvColumn, dialect: CsvDialect) -> Any:
    """Return what the documentation says of a value."""
    if value is None and dialect.null_value is None:
        is_array = element_type(column.type_info) is not None
        empty: dict[TypeInformation, Any] = {Types.STRING(): "", Types.PRIMITIVE_ARRAY(Types.BYTE()): b""}
        return [] if is_array else empty.get(column.type_info)
    return value


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)  # NaN equals itself, -0.0 is not 0.0, and 1.50 is not 1.5


def read_singly(decoder: CsvDecoder, text: str) -> list[Any]:
    """Read records as a message each."""
    found = [one for one in decoder.records.records(text) if one != [""] or len(decoder._found) == 1]
    return [decoder.row(decoder.values(one)) for one in found]


def outcome(read: Any, *args: Any) -> Any:
    try:
        return repr(read(*args))
    except ValueError:
        return "refused"


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_what_is_written_is_read_back_or_refused_with_its_field(data: st.DataObject) -> None:
    dialect = data.draw(DIALECTS.filter(is_sound))
    columns = data.draw(columns_of())
    rows = data.draw(st.lists(st.tuples(*(value for _, value in columns)), min_size=1, max_size=4))
    composer = CsvComposer([column for column, _ in columns], dialect)
    written, kept = b"", []
    for row in rows:
        try:
            written += composer.lines([row])
            kept.append(row)
        except UnfitFieldError:
            continue
    expected = [[as_read(one, column, dialect) for one, (column, _) in zip(row, columns, strict=True)] for row in kept]
    if kept:
        assert composer.lines(kept) == written
    decoder = CsvDecoder([column for column, _ in columns], dialect)
    assert same([list(row) for row in decoder.rows(written)], expected)
    assert same([list(row) for row in read_singly(decoder, written.decode())], expected)
    for row, values in zip(kept, expected, strict=True):
        fields = decoder.records.record(composer.lines([row]).decode())
        assert fields is not None
        assert same(decoder.values(fields), values)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_value_of_another_type_is_never_written_as_something_else(data: st.DataObject) -> None:
    columns = [CsvColumn.of("f", data.draw(st.sampled_from(list(VALUES))), ";")]
    value = data.draw(STRANGE)
    try:
        written = CsvComposer(columns, CsvDialect()).lines([(value,)])
    except UnfitFieldError:
        return
    [row] = CsvDecoder(columns, CsvDialect()).rows(written)
    if isinstance(value, float) and columns[0].type_info == Types.FLOAT():
        value = FLOAT32.unpack(FLOAT32.pack(value))[0]
    assert row[0] == value or str(row[0]) == str(value) == "nan"
    assert isinstance(value, bool) == isinstance(row[0], bool)


NUMBERS = st.text(st.sampled_from("0123456789+-.eExXnNaAiIfFtruels _T:ZQ\u0661\0"), max_size=12)
SHAPES = st.sampled_from(
    """2026-01-01,2026-01-01 01,2026-01-01T01:02:03.1234567,20260101,2026-01-01 01:02:03.5Z,2026-01-01 24:00:00,1e400,
2026-01-01 23:59:60,0000-01-01,2026-1-1,2026-01-01 01:02:03+01:00,12:30,2026-W01-1,1e39,3.4028236e38,1e-400,007,0x1F,
 7 ,1_0,nan,NaN,Infinity,-inf,TRUE,tRue,1,0,-0,1.,.5,1f,0b1,\t5,99999999999999999999,+5""".replace("\n", "").split(",")
)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(list(VALUES)), st.one_of(NUMBERS, SHAPES, SOUP))
def test_a_text_has_one_value_in_blocks_and_in_messages(type_info: TypeInformation, text: str) -> None:
    assume(not set(text) & set('",\r\n'))
    decoder = CsvDecoder([CsvColumn("a", type_info), CsvColumn("b", Types.STRING())], CsvDialect())
    line = f"{text},x\n"
    assert outcome(decoder.rows, line.encode()) == outcome(read_singly, decoder, line)


@settings(deadline=None, max_examples=200)
@given(DIALECTS.filter(is_sound), st.lists(SOUP | QUOTED, max_size=5).map("".join), st.integers(1, 3))
def test_any_text_gives_the_same_rows_in_blocks_and_in_messages(dialect: CsvDialect, text: str, count: int) -> None:
    decoder = CsvDecoder([CsvColumn(f"f{index}", Types.STRING()) for index in range(count)], dialect)
    assert outcome(decoder.rows, text.encode()) == outcome(read_singly, decoder, text), repr((text, dialect))


class Bytes:
    """A file in memory."""

    path = "a.csv"

    def __init__(self, data: bytes) -> None:
        self._data, self.size = data, len(data)

    def open(self) -> BytesIO:
        return BytesIO(self._data)


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_a_file_gives_the_same_rows_wherever_it_is_cut(data: st.DataObject) -> None:
    dialect = data.draw(DIALECTS.filter(is_sound))
    columns = [CsvColumn("s", Types.STRING()), CsvColumn("n", Types.LONG())]
    composer = CsvComposer(columns, dialect)
    written, expected = [], []
    for row in data.draw(st.lists(st.tuples(SOUP, st.integers(-9, 99)), min_size=1, max_size=6)):
        try:
            written.append(composer.lines([row]))
            expected.append([as_read(one, column, dialect) for one, column in zip(row, columns, strict=True)])
        except UnfitFieldError:
            continue
    between = ["", dialect.line_separator] + ([f"# {data.draw(SOUP)}".split("\r")[0].split("\n")[0] + "\n"]) * (
        dialect.allow_comments
    )
    header, skipped = data.draw(st.booleans()), data.draw(st.booleans())
    first = [composer.header()] * header + [composer.lines([("skip", 0)])] * (skipped and dialect.null_value != "0")
    parts = first + [part for line in written for part in (data.draw(st.sampled_from(between)).encode(), line)]
    whole = b"".join(parts).rstrip(dialect.line_separator.encode()) if data.draw(st.booleans()) else b"".join(parts)
    schema = CsvSchema(tuple(columns), replace(dialect, use_header=header, skip_first_data_row=skipped))
    csv_format, file = CsvReaderFormat(schema), Bytes(whole)
    if csv_format.lines_are_records:
        cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=3)) | {0, len(whole)})
        cut = [FilePart(begin, end, end - begin) for begin, end in pairwise(cuts)]
    else:
        cut = cut_evenly(0, len(whole), max(1, len(whole)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_blocks, "CHUNK_BYTES", data.draw(st.integers(1, 40)))
        found = [list(row) for part in cut for rows, _ in csv_format.read(file, part) for row in rows]
    assert same(found, expected)


def test_floats_are_written_as_java_writes_them() -> None:
    columns = [CsvColumn("f", Types.FLOAT()), CsvColumn("d", Types.DOUBLE())]
    singles = [3e38, 0.1, 1.0, 16777216.0, 1e6, 1234567.0, math.inf, -0.0]
    doubles = [2e-308, 0.1, 1e7, 123456.789, 1e6, 9999999.0, -math.inf, 0.001]
    composer, rows = CsvComposer(columns, CsvDialect()), list(zip(singles, doubles, strict=True))
    lines = composer.lines(rows)
    assert lines.decode().split() == [
        *("3.0E38,2.0E-308", "0.1,0.1", "1.0,1.0E7", "1.6777216E7,123456.789"),
        *("1000000.0,1000000.0", "1234567.0,9999999.0", "Infinity,-Infinity", "-0.0,0.001"),
    ]
    assert b"".join(map(composer.line, rows)) == lines


def test_decimals_keep_their_digits_and_zeros() -> None:
    columns = [CsvColumn("d", Types.BIG_DEC())]
    rows = [(Decimal("1.50"),), (Decimal("1E+30"),), (Decimal("1e-30"),), (datetime.date.max.year,)]
    found = CsvDecoder(columns, CsvDialect()).rows(CsvComposer(columns, CsvDialect()).lines(rows))
    assert [str(row[0]) for row in found] == ["1.50", "1E+30", "1E-30", "9999"]
