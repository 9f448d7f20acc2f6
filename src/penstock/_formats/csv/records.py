"""Where records of CSV begin and end: by the same rules as the parser, in which a quote counts where a value begins."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock._formats.csv.schema import CsvDialect

_END: Final = rb"(?:\r\n?+|\n|\Z)"


class CsvRecords:
    """Finds whole records in a text that begins with a record; a record of several lines has a quoted value in it.

    Args:
        dialect: The signs of the file.
    """

    def __init__(self, dialect: CsvDialect) -> None:
        self._quote = None if dialect.quote_char is None else dialect.quote_char.encode()
        self._comments = dialect.allow_comments
        record = _record(dialect)
        comment = rb"#[^\r\n]*+" + _END + b"|" if dialect.allow_comments else b""
        # Possessive throughout: the text is gone through once, without a way back.
        self._records = re.compile(rb"(?:" + comment + record + _END + rb")*+", re.DOTALL)
        self._one = re.compile(rb"(#[^\r\n]*+" + _END + rb")|" + record + _END, re.DOTALL)

    def whole(self, data: bytes) -> int:
        """Return how many bytes are whole records."""
        if self._quote is None or self._quote not in data:
            return len(data)
        match = self._records.match(data)
        return match.end() if match is not None else 0

    def may_end(self, line: bytes) -> bool:
        """Tell whether a value that began in a line before may end in this one."""
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
    # What follows a closing quote belongs to the value; a value that does not begin with a quote has none that counts.
    field = rb"(?:" + quote + inside + quote + plain + rb"|(?!" + quote + rb")" + plain + rb")"
    return field + rb"(?:" + separator + field + rb")*+"
