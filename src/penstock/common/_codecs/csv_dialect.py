"""The special characters of CSV, and how they divide a text into records and fields: Jackson's rules, as in Flink.

A quote counts only as the first character of a field; behind the closing one, nothing but blanks may stand. An escape
character stands before a character that is meant literally, or before ``n``, ``r``, ``t`` and ``0``, which mean a line
feed, a carriage return, a tab and NUL. Everything that reads CSV divides it here: files in blocks, and messages.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}
_END: Final = r"(?:\r\n?+|\n|\Z)"


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The special characters of CSV, and the meaning of a file's first lines."""

    column_separator: str = ","
    quote_char: str | None = '"'
    escape_char: str | None = None
    line_separator: str = "\n"
    null_value: str | None = None
    use_header: bool = False
    strict_headers: bool = False
    reorder_columns: bool = False
    skip_first_data_row: bool = False
    allow_comments: bool = False
    any_property_name: str | None = None
    multiline_values: bool = True

    def check(self) -> None:
        """Make sure that no character has two meanings, and that the null value has no special one.

        Raises:
            ValueError: One has.
        """
        signs = {"column separator": self.column_separator, "quote": self.quote_char, "escape sign": self.escape_char}
        taken = {"\n": "end of a line", "\r": "end of a line", **({"#": "comment sign"} if self.allow_comments else {})}
        for name, sign in signs.items():
            if sign is not None and sign in taken:
                msg = f"The {name} {sign!r} is the {taken[sign]}, too; choose another one."
                raise ValueError(msg)
            if sign is not None:
                taken[sign] = name
        null_value = self.null_value or ""
        sign = next((sign for sign in null_value if sign in taken), None)
        if sign is not None or null_value.startswith("\ufeff"):
            special = sign or null_value[0]
            msg = f"The null value {null_value!r} has the special sign {special!r} in it; choose another one."
            raise ValueError(msg)

    @property
    def lines_are_records(self) -> bool:
        """Whether no value can hold the end of a line."""
        return self.quote_char is None or not self.multiline_values


class CsvRecords:
    """Divides text into records and fields.

    Args:
        dialect: The special characters.
    """

    def __init__(self, dialect: CsvDialect) -> None:
        self._dialect = dialect
        self._quote, self._escape = dialect.quote_char, dialect.escape_char
        inner, behind, plain = _patterns(dialect)
        quote = re.escape(self._quote or "")
        quoted = f"{quote}{inner}{quote}{behind}"
        unquoted = plain if self._quote is None else rf"(?!{re.escape(self._quote)}){plain}"
        separator = re.escape(dialect.column_separator)
        field = rf"(?:{quoted}|{unquoted})"
        # What stands behind a closing quote is no part of a field, but of its record: so the error tells where it is.
        loose = rf"(?:{quoted}{plain}|{unquoted})"
        record, loose_record = (rf"{one}(?:{separator}{one})*+{_END}" for one in (field, loose))
        comment = rf"{blanks_before_comments(dialect)}#[^\r\n]*+{_END}" if dialect.allow_comments else "(?!)"
        # Possessive throughout, so that the text is scanned once, without backtracking.
        self._records = re.compile(rf"(?:(?!\Z)(?:{comment}|{record}))*+".encode(), re.DOTALL)
        self._one = re.compile(rf"(?!\Z)(?:({comment})|{loose_record})".encode(), re.DOTALL)
        self._quickly = re.compile(_only_quotes(dialect).encode())
        #: The text that was found to be sound last: blocks are cut by it, and then decoded.
        self._sound = b""
        self._comment = re.compile(comment)
        # The value of a field in quotes, or of another field, and what ends it.
        self._field = re.compile(rf"(?:{quote}({inner}){quote}{behind}|({unquoted}))({separator}|{_END})", re.DOTALL)
        self._library: Any = type(csv.get_dialect("excel"))(
            delimiter=dialect.column_separator,
            quotechar=self._quote,
            quoting=csv.QUOTE_MINIMAL if self._quote else csv.QUOTE_NONE,
            strict=True,
        )
        # What stands for another text: an escaped character, or a quote that is doubled within quotes.
        escaped = rf"{re.escape(self._escape)}(.)" if self._escape else r"(?!)()"
        self._escaped = re.compile(escaped, re.DOTALL)
        self._doubled = re.compile(rf"{escaped}|{re.escape(self._quote or '') * 2}", re.DOTALL)

    # ------------------------------------------------------------------------------------------------ blocks of a file

    def whole(self, data: bytes) -> int:
        """Return how many bytes at the beginning of a text are whole records."""
        return len(data) if self.are_sound(data) else self.behind_records(data, len(data))[0]

    def are_sound(self, data: bytes) -> bool:
        """Tell whether a text is whole records, in which nothing stands behind a closing quote."""
        if self._quote is None or self._quote.encode() not in data or data == self._sound:
            return True
        match = self._quickly.match(data) or self._records.match(data)
        if match is None or match.end() != len(data):
            return False
        self._sound = data
        return True

    def may_end(self, line: bytes) -> bool:
        """Tell whether a record from an earlier line may end in this one."""
        return self._quote is not None and self._quote.encode() in line

    def without_comments(self, data: bytes) -> bytes:
        """Return whole records without the lines between them that are comments."""
        if not self._dialect.allow_comments or b"#" not in data:
            return data
        return self._one.sub(lambda match: b"" if match[1] else _with_line_feed(match[0]), data)

    def behind_records(self, data: bytes, count: int) -> tuple[int, int, bytes]:
        """Return the place behind some records, how many of these are still to come, and the last of them."""
        place, last = 0, b""
        while count and (match := self._one.match(data, place)):
            place = match.end()
            if not match[1]:
                count, last = count - 1, match[0]
        return place, count, last

    # ---------------------------------------------------------------------------------------------------- single texts

    def records(self, text: str) -> Iterator[list[str]]:
        """Yield the fields of each record; lines that are comments are none.

        Raises:
            ValueError: Something stands behind a closing quote, or a quote never closes.
        """
        place, size = 0, len(text)
        while place < size:
            if self._dialect.allow_comments and (comment := self._comment.match(text, place)):
                place = comment.end()
                continue
            fields, place = self._record(text, place)
            yield fields

    def record(self, text: str) -> list[str] | None:
        """Return the fields of the only record of a text; None for comments. An empty text has one empty field.

        Raises:
            ValueError: There is more than one, or it cannot be divided.
        """
        if not self._dialect.allow_comments and text:
            line = text.removesuffix("\n").removesuffix("\r")
            if self._is_plain(line):
                return line.split(self._dialect.column_separator)
            if self._escape is None and (found := self._quickly_divided(line)) is not None:
                return found
        records = self.records(text)
        found = next(records, None if text else [""])
        if found is not None and next(records, None) is not None:
            raise ValueError("it has more than one record")
        return found

    def _quickly_divided(self, line: str) -> list[str] | None:
        """Return the fields of a record by Python's library, where it has the same rules; None where it may not."""
        ends = "\n" in line or "\r" in line
        if (ends and not self._dialect.multiline_values) or len(line) > csv.field_size_limit():
            return None
        try:
            return next(csv.reader([line], self._library))
        except csv.Error:
            return None

    def _is_plain(self, line: str) -> bool:
        signs = ("\n", "\r", self._quote, self._escape)
        return not any(sign in line for sign in signs if sign is not None)

    def _record(self, text: str, place: int) -> tuple[list[str], int]:
        fields: list[str] = []
        while True:
            match = self._field.match(text, place)
            if match is None:
                raise ValueError(self._flaw(text, place))
            fields.append(self._value(match[1] or "", match[2] or ""))
            place = match.end()
            if match[3] != self._dialect.column_separator:
                return fields, place

    def _value(self, quoted: str, plain: str) -> str:
        if self._escape is not None:
            return self._doubled.sub(self._meant, quoted) if quoted else self._escaped.sub(self._meant, plain)
        if quoted and self._quote is not None:
            return quoted.replace(self._quote * 2, self._quote)
        return plain

    def _meant(self, match: re.Match[str]) -> str:
        return self._quote or "" if match[1] is None else _ESCAPED.get(match[1], match[1])

    def _flaw(self, text: str, place: int) -> str:
        shown = repr(text[place : place + 80])
        if self._quote is None or text[place] != self._quote:
            return f"the escape sign {self._escape!r} has nothing behind it, at {shown}"
        return (
            f"a quote never closes, or something other than {self._dialect.column_separator!r} stands behind the "
            f"closing one, at {shown}"
        )


def _with_line_feed(record: bytes) -> bytes:
    """Return a record that does not end in a carriage return, which would be one end with a line feed behind it."""
    return record[:-1] + b"\n" if record.endswith(b"\r") else record


def blanks_before_comments(dialect: CsvDialect) -> str:
    """Return the pattern of what may stand before the sign of a comment, as in Jackson."""
    return "" if " " in (dialect.column_separator, dialect.quote_char) else " *+"


def blanks_behind_quotes(dialect: CsvDialect) -> str:
    """Return the pattern of a sign that is passed over behind a closing quote, as in Jackson."""
    signs = f"\r\n{dialect.column_separator}"
    return "[" + "".join(rf"\x{code:02x}" for code in range(0x21) if chr(code) not in signs) + "]"


def _only_quotes(dialect: CsvDialect) -> str:
    """Return a pattern that looks at quotes alone, in a fourth of the time; not all sound texts match."""
    ends = "" if dialect.multiline_values else r"\r\n"
    quote, separator = re.escape(dialect.quote_char or ""), re.escape(dialect.column_separator)
    escape = re.escape(dialect.escape_char or "")
    inside = rf"{quote}(?:[^{quote}{escape}{ends}]++|{quote}{quote})*+{quote}"
    outside = rf"[^{quote}{escape}]*+"
    return rf"(?:{outside}(?<![^{separator}\r\n]){inside}(?=[{separator}\r\n]|\Z))*+{outside}\Z" if quote else "(?!)"


def _patterns(dialect: CsvDialect) -> tuple[str, str, str]:
    """Return the patterns of what is within quotes, which matches nothing without them, behind them, and elsewhere."""
    separator = re.escape(dialect.column_separator)
    escape = "" if dialect.escape_char is None else re.escape(dialect.escape_char)
    plain = rf"(?:[^\r\n{separator}{escape}]++" + (rf"|{escape}[^\r\n])*+" if escape else ")*+")
    if dialect.quote_char is None:
        return "(?!)", "", plain
    quote = re.escape(dialect.quote_char)
    ends = "" if dialect.multiline_values else r"\r\n"
    escaped = (rf"|{escape}[^{ends}]" if ends else rf"|{escape}.") if escape else ""
    return rf"(?:[^{ends}{quote}{escape}]++|{quote}{quote}{escaped})*+", f"{blanks_behind_quotes(dialect)}*+", plain
