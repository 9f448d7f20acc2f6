"""Decodes CSV: single records by the rules of `csv_dialect` and `csv_values`, whole blocks of a file with Arrow.

Arrow gives the same rows where both can read a block, in a tenth of the time. What it would read otherwise is looked
for beforehand, and what it refuses is read record by record, which accepts more, or says what is wrong where.
"""

from __future__ import annotations

import io
import re
from codecs import BOM_UTF8
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.common._codecs.csv_dialect import CsvDialect, CsvRecords, blanks_behind_quotes
from penstock.common._codecs.csv_values import TEXTS, UNFIT, CsvColumn, reader
from penstock.common._conversion.checked import RANGES, reason_of
from penstock.common.typeinfo import BasicType, BasicTypeInfo, Types
from penstock.common.types import RowKind, make_row, make_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class CsvDecoder:
    """Makes rows of CSV.

    Args:
        columns: The columns of the rows.
        dialect: The special characters.
        found: The names of the fields in the order in which they stand; None for that of the columns.

    Raises:
        ValueError: A column's type cannot be read from CSV, or a character has two meanings.
    """

    def __init__(self, columns: Sequence[CsvColumn], dialect: CsvDialect, found: Sequence[str] | None = None) -> None:
        dialect.check()
        self._columns, self._dialect = list(columns), dialect
        self._names = [column.name for column in columns]
        self._found = self._names if found is None else list(found)
        self._places = list(range(len(columns))) if found is None else [found.index(name) for name in self._names]
        self._is_reordered = self._found != self._names
        self._readers = [reader(column, dialect.null_value) for column in columns]
        #: Divides text into records; blocks consist of whole ones.
        self.records = CsvRecords(dialect)
        escape = None if dialect.escape_char is None else re.escape(dialect.escape_char).encode()
        self._special_escapes = None if escape is None else re.compile(escape + rb"(?:[0nrt\r\n]|\Z)")
        quote = None if dialect.quote_char is None else re.escape(dialect.quote_char)
        ends = rf"(?=[{re.escape(dialect.column_separator)}\r\n]|\Z)"
        behind = None if quote is None else f"{quote}{blanks_behind_quotes(dialect)}+{ends}"
        self._blanks_behind_quotes = None if behind is None else re.compile(behind.encode())
        self._has_integers = any(column.type_info in _INTEGERS for column in columns)

    # ----------------------------------------------------------------------------------------------------- single texts

    def values(self, fields: Sequence[str], *, lenient: bool = False) -> list[Any]:
        """Return the values of a record's fields, in the order of the columns.

        Args:
            fields: The texts.
            lenient: Whether a field that is missing, or does not fit its type, is None.

        Raises:
            ValueError: There are more or fewer, or one does not fit.
        """
        if len(fields) == len(self._readers) == len(self._found) and not self._is_reordered:
            try:
                return [read(text) for read, text in zip(self._readers, fields, strict=True)]
            except UNFIT:  # one by one, to name the field
                pass
        if len(fields) != len(self._found):
            fits = len(fields) > len(self._found) if self._dialect.any_property_name is not None else False
            if not fits and (not lenient or len(fields) > len(self._found)):
                raise ValueError(f"it has {len(fields)} fields, and the type has {len(self._found)}")
        return [
            self._value(index, fields[place] if place < len(fields) else None, lenient)
            for index, place in enumerate(self._places)
        ]

    def _value(self, index: int, text: str | None, lenient: bool) -> Any:
        try:
            return None if text is None else self._readers[index](text)
        except UNFIT as error:
            if lenient:
                return None
            raise ValueError(f"field {self._names[index]!r}: {reason_of(error)}") from error

    def row(self, values: list[Any]) -> Any:
        """Return the row of some values."""
        return make_row(self._names, values, RowKind.INSERT)

    # ---------------------------------------------------------------------------------------------------------- blocks

    def rows(self, block: bytes) -> list[Any]:
        """Return the rows of whole records; empty lines are no records, except in files of one column.

        Raises:
            ValueError: One does not fit.
        """
        is_sound = self.records.are_sound(block)
        block = self.records.without_comments(block)
        if not block or (len(self._found) > 1 and block[0] in b"\r\n" and not block.strip(b"\r\n")):
            return []
        if is_sound and self._suits_arrow(block):
            try:
                return self._by_arrow(block)
            except (ValueError, OverflowError):  # Arrow's errors are among them
                pass
        return self.rows_of_text(block.decode())

    def rows_of_text(self, text: str) -> list[Any]:
        """Return the rows of a text, read record by record.

        Raises:
            ValueError: One does not fit.
        """
        skips_empty = len(self._found) > 1
        records: Iterable[list[str]] = self.records.records(text)
        return [self.row(self.values(one)) for one in records if not (skips_empty and one == [""])]

    def _suits_arrow(self, block: bytes) -> bool:
        if block.startswith(BOM_UTF8):  # Arrow would drop it; that of a file is gone by now
            return False
        if self._dialect.any_property_name is not None or (self._has_integers and _has_hex(block)):
            return False
        strange = (self._special_escapes, self._blanks_behind_quotes)
        return not any(pattern is not None and pattern.search(block) for pattern in strange)

    def _by_arrow(self, block: bytes) -> list[Any]:
        from pyarrow import csv as arrow_csv

        dialect = self._dialect
        table = arrow_csv.read_csv(
            io.BytesIO(block),
            read_options=arrow_csv.ReadOptions(column_names=self._found, use_threads=False, block_size=len(block) + 1),
            parse_options=arrow_csv.ParseOptions(
                delimiter=dialect.column_separator,
                quote_char=dialect.quote_char or False,
                escape_char=dialect.escape_char or False,
                newlines_in_values=not dialect.lines_are_records,
                ignore_empty_lines=len(self._found) > 1,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types={column.name: _arrow_type(column) for column in self._columns},
                include_columns=self._names,
                # Text stays as it is here: for it, only the null value is None, which its reader knows.
                null_values=["", dialect.null_value or ""],
                strings_can_be_null=False,
                true_values=["true", "True", "TRUE"],
                false_values=["false", "False", "FALSE"],
            ),
        )
        converted = [
            _converted(table.column(column.name), column, read, dialect.null_value)
            for column, read in zip(self._columns, self._readers, strict=True)
        ]
        return make_rows(self._names, zip(*converted, strict=True))


def _has_hex(block: bytes) -> bool:
    """Tell whether a block may have a number in base 16, which Arrow would read."""
    return (b"x" in block and b"0x" in block) or (b"X" in block and b"0X" in block)


_INTEGERS: Final = frozenset(map(BasicTypeInfo, RANGES))


def _arrow_type(column: CsvColumn) -> Any:
    """Return the type as which Arrow reads a column: text where it has none with the same rules."""
    import pyarrow as pa

    types: dict[Any, Any] = {
        BasicTypeInfo(BasicType.BYTE): pa.int8(),
        BasicTypeInfo(BasicType.SHORT): pa.int16(),
        BasicTypeInfo(BasicType.INT): pa.int32(),
        BasicTypeInfo(BasicType.LONG): pa.int64(),
        Types.BOOLEAN(): pa.bool_(),
        Types.FLOAT(): pa.float64(),
        Types.DOUBLE(): pa.float64(),
        Types.SQL_DATE(): pa.date32(),
        Types.SQL_TIMESTAMP(): pa.timestamp("us"),
    }
    return types.get(column.type_info, pa.string())


def _converted(found: Any, column: CsvColumn, read: Callable[[str], Any], null_value: str | None) -> list[Any]:
    """Return the values of a column that Arrow has read."""
    import pyarrow as pa
    import pyarrow.compute as arrow_compute

    kinds: Any = pa.types
    compute: Any = arrow_compute
    if kinds.is_string(found.type):
        texts = found.to_pylist()
        return texts if column.type_info in TEXTS and null_value is None else [read(text) for text in texts]
    if kinds.is_floating(found.type):
        found = found.cast(pa.float32(), safe=False) if column.type_info == Types.FLOAT() else found
        if compute.any(compute.is_inf(found)).as_py():  # also what is too great
            raise ValueError("a number is endless")
    return cast("list[Any]", found.to_pylist())
