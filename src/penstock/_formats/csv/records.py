"""Finds the boundaries of CSV records by the parser's rules, in which only a quote at the start of a value counts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock._formats.csv.schema import CsvDialect

_END: Final = rb"(?:\r\n?+|\n|\Z)"


class CsvRecords:
    """Finds whole records in a text that begins with a record; a record with a quoted value may have several lines.

    Args:
        dialect: The special characters of the file.
    """

    def __init__(self, dialect: CsvDialect) -> None:
        self._quote = None if dialect.quote_char is None else dialect.quote_char.encode()
        self._comments = dialect.allow_comments
        record = _record(dialect)
        comment = rb"#[^\r\n]*+" + _END + b"|" if dialect.allow_comments else b""
        # Possessive throughout, so that the text is scanned once, without backtracking.
        self._records = re.compile(rb"(?:" + comment + record + _END + rb")*+", re.DOTALL)
        self._one = re.compile(rb"(#[^\r\n]*+" + _END + rb")|" + record + _END, re.DOTALL)

    def whole(self, data: bytes) -> int:
        """Return how many bytes are whole records."""
        if self._quote is None or self._quote not in data:
            return len(data)
        match = self._records.match(data)
        return match.end() if match is not None else 0

    def may_end(self, line: bytes) -> bool:
        """Tell whether a value from an earlier line may end in this one."""
        return self._quote is not None and self._quote in line

    def without_comments(self, data: bytes) -> bytes:
        """Return whole records without the lines between them that begin with ``#``."""
        if not self._comments or not (data.startswith(b"#") or b"\n#" in data or b"\r#" in data):
            return data
        return self._one.sub(lambda match: b"" if match[1] else match[0], data)


def _record(dialect: CsvDialect) -> bytes:
    """Return the pattern of a record without the end of its line."""
    separator = re.escape(dialect.column_separator).encode()
    quote = b"" if dialect.quote_char is None else re.escape(dialect.quote_char).encode()
    escape = b"" if dialect.escape_char is None else re.escape(dialect.escape_char).encode()
    escaped = escape + rb".|" if escape else b""
    plain = rb"(?:" + escaped + rb"[^\r\n" + separator + escape + rb"]++)*+"
    if not quote:
        return plain + rb"(?:" + separator + plain + rb")*+"
    line_ends = b"" if dialect.multiline_values else rb"\r\n"
    inside = rb"(?:" + escaped + rb"[^" + line_ends + quote + escape + rb"]++|" + quote + quote + rb")*+"
    # Text after a closing quote belongs to the value; quotes in a value without an opening quote are ordinary.
    field = rb"(?:" + quote + inside + quote + plain + rb"|(?!" + quote + rb")" + plain + rb")"
    return field + rb"(?:" + separator + field + rb")*+"
