"""Reads CSV: whole lines are cut out of the file, and Arrow parses them block by block."""

from __future__ import annotations

import csv
import datetime
import io
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from penstock._formats.arrow_types import arrow_type
from penstock._formats.csv.records import CsvRecords
from penstock._formats.csv.schema import CsvSchema, as_csv_schema
from penstock._formats.file_format import StreamFormat
from penstock._formats.json_lines import BadLine
from penstock._formats.lines import LINE_END, read_lines, read_text
from penstock._shelf import show
from penstock.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, Types
from penstock.common.types import RowKind, make_row
from penstock.errors import SourceFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock._formats.csv.schema import CsvColumn, CsvDialect
    from penstock._formats.json_lines import BadLines
    from penstock._formats.parts import FilePart, InputFile
    from penstock.common.typeinfo import TypeInformation

_CHARSET = "utf-8"

# Types that Arrow reads as text and Python converts.
_OF_TEXT: dict[TypeInformation, Callable[[str], Any]] = {
    Types.BIG_INT(): int,
    Types.BIG_DEC(): Decimal,
    Types.SQL_TIME(): datetime.time.fromisoformat,
}
_SINGLE_OF_TEXT: dict[BasicType, Callable[[str], Any]] = {
    BasicType.STRING: str,
    BasicType.CHAR: str,
    BasicType.BOOLEAN: lambda text: text.lower() == "true",
    BasicType.FLOAT: float,
    BasicType.DOUBLE: float,
    BasicType.BIG_DEC: Decimal,
}


def _nowhere(lines: int) -> None:
    del lines


class CsvReaderFormat(StreamFormat):
    """Lines of CSV as Row, with the names and types of a schema.

    A file is read in parts only where no quoted value can hold a line feed; see
    ``CsvSchemaBuilder.set_multiline_values`` and ``disable_quote_char``.

    Source: ``pyflink.datastream.formats.csv.CsvReaderFormat``.
    """

    emits_new_records = True
    leaves_out = True

    def __init__(self, schema: CsvSchema, bad_lines: BadLines = "fail") -> None:
        self._schema = schema
        self._bad_lines: BadLines = bad_lines
        self._dialect = schema.dialect
        self._skipped: Callable[[int], object] = _nowhere
        if bad_lines not in {"fail", "skip", "emit"}:
            msg = f'bad_lines is "fail", "skip" or "emit", not {bad_lines!r}.'
            raise ValueError(msg)
        if bad_lines != "fail" and not self.lines_are_records:
            msg = (
                f"bad_lines={bad_lines!r} needs to know where a record ends: set_multiline_values(False) says that no "
                "value has the end of a line in it, and disable_quote_char() that none is quoted."
            )
            raise ValueError(msg)
        for column in schema.columns:
            _check_type(column)

    @staticmethod
    def for_schema(schema: CsvSchema | RowTypeInfo, bad_lines: BadLines = "fail") -> CsvReaderFormat:
        """Return the format of a schema.

        Args:
            schema: A CsvSchema, or the type of the rows for a file without header.
            bad_lines: What becomes of a line that does not fit the schema; ours. ``"fail"`` ends the job with its
                place; ``"skip"`` leaves it out and counts it (``skippedLines``); ``"emit"`` puts a ``BadLine`` in its
                place, for a side output.

        Raises:
            TypeError: It is no CsvSchema.
            ValueError: A column's type cannot be read from CSV, or bad lines cannot be told from others.
        """
        return CsvReaderFormat(as_csv_schema(schema), bad_lines)

    def counting(self, skipped: Callable[[int], object]) -> CsvReaderFormat:
        """Return the format for a reader that counts lines that are left out."""
        counting = CsvReaderFormat(self._schema, self._bad_lines)
        counting._skipped = skipped
        return counting

    def get_produced_type(self) -> RowTypeInfo | None:
        """Return the type of the rows; None where bad lines are among them."""
        return None if self._bad_lines == "emit" else self._schema.row_type

    @property
    def holds_produced_type(self) -> bool:
        """Whether all records have that type: the file is read by it."""
        return self._bad_lines != "emit"

    @property
    def lines_are_records(self) -> bool:
        """Whether no value can hold the end of a line."""
        return self._dialect.quote_char is None or not self._dialect.multiline_values

    def read(self, file: InputFile, part: FilePart) -> Iterator[tuple[list[Any], int]]:
        """Read the records that begin in the part; the position counts bytes."""
        left = 0
        names = self._column_names(file)
        converters = [_converter(column, self._dialect.null_value) for column in self._schema.columns]
        records = CsvRecords(self._dialect)
        bounds = None if self.lines_are_records else records
        for data, begin, position in read_lines(file, part, _CHARSET, bounds):
            block = records.without_comments(data)
            if begin == 0:
                left = int(self._dialect.use_header) + int(self._dialect.skip_first_data_row)
            dropped = left
            if left:
                block, left = _without_first(block, left)
            # In a file of one column, an empty line is an empty value.
            if not (block if len(names) == 1 else block.strip()):
                continue
            try:
                rows = self._rows(block, names, converters)
            except ValueError as error:  # Arrow's errors are ValueErrors too
                if self._bad_lines == "fail":
                    reason = (
                        f"the lines between bytes {begin} and {position} do not fit the schema {self._schema} "
                        f"({error}); repair the file, change the schema, or choose what becomes of such lines "
                        "by bad_lines"
                    )
                    raise SourceFileError(file.path, reason) from error
                lines = self._lines(data, dropped - left, skips_empty=len(names) > 1)
                rows = self._one_by_one(file.path, position - len(data), lines, names, converters)
            yield rows, position

    def _rows(self, block: bytes, names: list[str], converters: list[Callable[[str], Any] | None]) -> list[Any]:
        field_names = [column.name for column in self._schema.columns]
        converted = [
            column if convert is None else [convert(value) for value in column]
            for column, convert in zip(self._parse(block, names), converters, strict=True)
        ]
        return [make_row(field_names, row, RowKind.INSERT) for row in zip(*converted, strict=True)]

    def _lines(self, data: bytes, drop: int, *, skips_empty: bool) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that are records, each with its place."""
        place = 0
        while place < len(data):
            found = LINE_END.search(data, place)
            line, begin = data[place : len(data) if found is None else found.start()], place
            place = len(data) if found is None else found.end()
            if self._dialect.allow_comments and line.startswith(b"#"):
                continue
            if drop:
                drop -= 1
            elif line.strip() or not skips_empty:
                yield begin, line

    def _one_by_one(
        self,
        path: str,
        begin: int,
        lines: Iterable[tuple[int, bytes]],
        names: list[str],
        converters: list[Callable[[str], Any] | None],
    ) -> list[Any]:
        """Return the rows of lines, with what is chosen in place of those that do not fit."""
        rows: list[Any] = []
        skipped = 0
        for offset, line in lines:
            try:
                rows += self._rows(line + b"\n", names, converters)
            except ValueError as error:
                if self._bad_lines == "emit":
                    rows.append(BadLine(path, begin + offset, line, str(error)))
                else:
                    skipped += 1
        if skipped:
            self._skipped(skipped)
        return rows

    def _parse(self, block: bytes, names: list[str]) -> list[list[Any]]:
        from pyarrow import csv as arrow_csv

        dialect, columns = self._dialect, self._schema.columns
        if dialect.any_property_name is not None:
            block = _without_more(block, len(names), dialect)
        table = arrow_csv.read_csv(
            io.BytesIO(block),
            read_options=arrow_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block) + 1),
            parse_options=arrow_csv.ParseOptions(
                delimiter=dialect.column_separator,
                quote_char=dialect.quote_char or False,
                escape_char=dialect.escape_char or False,
                newlines_in_values=dialect.quote_char is not None and dialect.multiline_values,
                ignore_empty_lines=len(names) > 1,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types={column.name: _parsed_type(column) for column in columns},
                include_columns=[column.name for column in columns],
                # Text stays as it is here: for it, only the null value is None, which its converter knows.
                null_values=["", dialect.null_value or ""],
                strings_can_be_null=False,
            ),
        )
        return [table.column(column.name).to_pylist() for column in columns]

    def _column_names(self, file: InputFile) -> list[str]:
        """Return the names of the file's columns: its header, or the schema's."""
        wanted = [column.name for column in self._schema.columns]
        if not self._dialect.use_header:
            return wanted
        all_lines = chain.from_iterable(read_text(file, _CHARSET, errors="replace"))
        line = next((one for one in all_lines if not (self._dialect.allow_comments and one.startswith("#"))), "")
        quote = self._dialect.quote_char
        reader = csv.reader(
            io.StringIO(line),
            delimiter=self._dialect.column_separator,
            quotechar=quote,
            quoting=csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL,
        )
        found = next(reader, list[str]())
        missing = [name for name in wanted if name not in found]
        if line and (missing or (self._dialect.strict_headers and found != wanted)):
            reason = (
                f"its header is {', '.join(found)}, and the schema's columns are {', '.join(wanted)}; "
                "change the schema, or take the file out of the source's paths"
            )
            raise SourceFileError(file.path, reason)
        return found


def _without_more(block: bytes, count: int, dialect: CsvDialect) -> bytes:
    """Return a block with surplus values of its lines removed."""
    quoting = csv.QUOTE_NONE if dialect.quote_char is None else csv.QUOTE_MINIMAL
    signs: dict[str, Any] = {
        "delimiter": dialect.column_separator,
        "quotechar": dialect.quote_char,
        "escapechar": dialect.escape_char,
        "quoting": quoting,
    }
    kept = io.StringIO()
    rows = csv.reader(io.StringIO(block.decode(_CHARSET), newline=""), **signs)
    csv.writer(kept, lineterminator="\n", **signs).writerows(row[:count] for row in rows)
    return kept.getvalue().encode(_CHARSET)


def _without_first(block: bytes, count: int) -> tuple[bytes, int]:
    """Return a block without some lines at its beginning, and the number of lines to drop from the next block."""
    place = 0
    while count and place < len(block):
        found = LINE_END.search(block, place)
        place, count = (len(block) if found is None else found.end()), count - 1
    return block[place:], count


def _check_type(column: CsvColumn) -> None:
    if column.separator is not None:
        _element_converter(column)
    elif column.type_info not in _OF_TEXT:
        arrow_type(column.type_info, column.name)


def _parsed_type(column: CsvColumn) -> Any:
    as_text = column.separator is not None or column.type_info in _OF_TEXT
    return arrow_type(Types.STRING() if as_text else column.type_info, column.name)


def _converter(column: CsvColumn, null_value: str | None) -> Callable[[str], Any] | None:
    """Return the converter from the text of a column to its values; None if Arrow has converted it."""
    if column.separator is not None:
        return partial(_elements, column.separator, _element_converter(column), null_value)
    convert = _OF_TEXT.get(column.type_info)
    if convert is not None:
        return lambda text: None if not text or text == null_value else convert(text)
    if null_value is not None and _parsed_type(column) == arrow_type(Types.STRING(), column.name):
        return lambda text: None if text == null_value else text
    return None


def _elements(separator: str, convert: Callable[[str], Any], null_value: str | None, text: str) -> list[Any] | None:
    if text == null_value:
        return None
    if not separator:
        return [convert(text)] if text else []
    return [convert(part) for part in text.split(separator)] if text else []


def _element_converter(column: CsvColumn) -> Callable[[str], Any]:
    element_type = getattr(column.type_info, "elem_type", None)
    if isinstance(element_type, BasicTypeInfo):
        return _SINGLE_OF_TEXT.get(element_type.basic_type, int)
    msg = f"The column {column.name!r} is {column.type_info}, but arrays in CSV can hold single values only."
    raise ValueError(msg)


show("penstock.datastream.formats.csv", CsvReaderFormat)
