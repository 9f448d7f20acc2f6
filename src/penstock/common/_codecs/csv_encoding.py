"""Encodes records as CSV, in blocks; text is quoted as Jackson quotes it, as in Flink.

Jackson quotes text that has more than 24 characters, and with one that does not come after the separator, the quote and
the line feed in Unicode, such as a blank; almost all text with ``|`` as separator. Quotes within quotes are doubled.
What Jackson would write so that it is read back otherwise is quoted, too, escaped, or refused.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from penstock.common._codecs.csv_dialect import blanks_before_comments
from penstock.common._codecs.csv_values import RAW, UNFIT, CsvColumn, texts_at_once, writer
from penstock.common._conversion.checked import reason_of
from penstock.common.typeinfo import Types

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.common._codecs.csv_dialect import CsvDialect

#: Longer texts are quoted without a look at their characters.
_LOOKED_AT: Final = 24
#: What the text of a number or a truth value may consist of.
_RAW_SIGNS: Final = frozenset("0123456789+-.eENaInfityrulse")
_MARK: Final = "\ufeff"


class UnfitFieldError(ValueError):
    """A value that CSV does not give back.

    Args:
        index: The number of its record in the block, from 0.
        column: Its column.
        reason: What is wrong, a clause without a full stop.
    """

    def __init__(self, index: int, column: CsvColumn, reason: str) -> None:
        super().__init__(index, column, reason)
        self.index, self.column, self.reason = index, column, reason


class CsvComposer:
    """Makes lines of CSV of values.

    Args:
        columns: The columns.
        dialect: The special characters.
        any_text: Makes the text of a value that does not fit its column of the value and the column's separator; by
            default it is refused.

    Raises:
        ValueError: A column's type has no CSV, or a character has two meanings.
    """

    def __init__(
        self,
        columns: Sequence[CsvColumn],
        dialect: CsvDialect,
        any_text: Callable[[Any, str | None], str] | None = None,
    ) -> None:
        dialect.check()
        self._any_text = any_text
        self._columns, self._dialect = list(columns), dialect
        self._null = dialect.null_value or ""
        self._signs = _Signs(dialect)
        self._writers = [self._writer(index, column) for index, column in enumerate(columns)]

    @property
    def is_lenient(self) -> bool:
        """Whether it writes values that do not fit."""
        return self._any_text is not None

    def lines(self, rows: Sequence[Sequence[Any]]) -> bytes:
        """Return the lines of records in UTF-8, each with its end.

        Raises:
            UnfitFieldError: A value is not of its column's type, or would not be read back.
        """
        texts = [self._texts(index, values) for index, values in enumerate(zip(*rows, strict=True))]
        end = self._dialect.line_separator
        try:
            return (end.join(map(self._dialect.column_separator.join, zip(*texts, strict=True))) + end).encode()
        except UnicodeEncodeError:
            self._refuse_surrogate(texts)

    def line(self, values: Sequence[Any]) -> bytes:
        """Return the line of one record.

        Raises:
            UnfitFieldError: A value is not of its column's type, or would not be read back.
        """
        null, dialect = self._null, self._dialect
        try:
            texts = [
                null if value is None else write(value) for write, value in zip(self._writers, values, strict=True)
            ]
            return f"{dialect.column_separator.join(texts)}{dialect.line_separator}".encode()
        except UNFIT:
            return self.lines([values])

    def header(self) -> bytes:
        """Return the line with the names of the columns."""
        names = [self._signs.text(column.name, first=index == 0) for index, column in enumerate(self._columns)]
        return (self._dialect.column_separator.join(names) + self._dialect.line_separator).encode()

    def _texts(self, index: int, values: tuple[Any, ...]) -> list[str]:
        column, null_value = self._columns[index], self._dialect.null_value
        texts = self._at_once(column, values, first=index == 0)
        if texts is not None and (null_value is None or null_value not in texts):
            return texts
        write, null = self._writers[index], self._null
        try:
            return [null if value is None else write(value) for value in values]
        except UNFIT:
            self._refuse(index, values)

    def _at_once(self, column: CsvColumn, values: tuple[Any, ...], *, first: bool) -> list[str] | None:
        """Return the texts of values of one class that need no look at single ones; None for others."""
        if column.type_info == Types.STRING():
            is_plain = set(map(type, values)) == {str} and not self._signs.any_quoted(values, first=first)
            return list(values) if is_plain else None
        return texts_at_once(column.type_info, values) if self._signs.raw_fits else None

    def _writer(self, index: int, column: CsvColumn) -> Callable[[Any], str]:
        write, signs, first = writer(column, self._dialect.null_value), self._signs, index == 0
        if self._any_text is not None:
            return partial(self._leniently, write, self._any_text, column.separator, first)
        if column.type_info not in RAW:
            return signs.writer(write, first=first)
        return write if signs.raw_fits else lambda value: signs.raw(write(value))

    def _leniently(
        self, write: Callable[[Any], str], any_text: Any, separator: str | None, first: bool, value: Any
    ) -> str:
        try:
            text = write(value)
        except UNFIT:
            text = any_text(value, separator)
        return self._signs.text(text, first=first)

    def _refuse(self, index: int, values: tuple[Any, ...]) -> NoReturn:
        for place, value in enumerate(values):
            try:
                if value is not None:
                    self._writers[index](value)
            except UNFIT as error:
                raise UnfitFieldError(place, self._columns[index], reason_of(error)) from error
        raise AssertionError("each value fits")

    def _refuse_surrogate(self, texts: list[list[str]]) -> NoReturn:
        for column, found in zip(self._columns, texts, strict=True):
            for place, text in enumerate(found):
                try:
                    text.encode()
                except UnicodeEncodeError as error:
                    reason = f"it has the lone surrogate {error.object[error.start]!r}, which UTF-8 does not have"
                    raise UnfitFieldError(place, column, reason) from error
        raise AssertionError("each text is Unicode")


class _Signs:
    """Quotes and escapes the text of fields."""

    def __init__(self, dialect: CsvDialect) -> None:
        self._dialect, self._quote, self._escape = dialect, dialect.quote_char, dialect.escape_char
        quote, escape, separator = dialect.quote_char or "", dialect.escape_char or "", dialect.column_separator
        self._special = re.compile(f"[\r\n{re.escape(separator + quote + escape)}]")
        #: Whether the text of numbers and truth values has no special character.
        self.raw_fits = not _RAW_SIGNS.intersection(separator + quote + escape)
        safe = re.escape(max(separator, quote, "\r"))
        # Without an escape sign Jackson takes the backslash for one here.
        self._unsafe = re.compile(rf"[\0-{safe}{re.escape(quote + (escape or chr(92)))}]")
        firsts = f"{_MARK}#" if dialect.allow_comments else _MARK
        self._firsts = re.compile(f"{blanks_before_comments(dialect)}[{firsts}]")

    def any_quoted(self, texts: Sequence[str], *, first: bool) -> bool:
        """Tell whether one of some texts may not stand as it is; ``first``: in the first column."""
        joined = "".join(texts)
        if first and (_MARK in joined or "#" in joined):
            return True
        if self._quote is None:
            return self._special.search(joined) is not None
        return max(map(len, texts), default=0) > _LOOKED_AT or self._unsafe.search(joined) is not None

    def writer(self, write: Callable[[Any], str], *, first: bool) -> Callable[[Any], str]:
        """Return the function from a value to what stands in its field."""
        is_special, quotes = self._unsafe.search, self._quote is not None

        def text(value: Any) -> str:
            found = write(value)
            if quotes and not first and len(found) <= _LOOKED_AT and not is_special(found):
                return found
            return self.text(found, first=first)

        return text

    def text(self, text: str, *, first: bool) -> str:
        """Return a text as it stands in a field.

        Raises:
            ValueError: It would not be read back.
        """
        begins = first and self._firsts.match(text) is not None
        if self._quote is None:
            return self._escaped(text, begins=begins) if begins or self._special.search(text) else text
        if not (begins or len(text) > _LOOKED_AT or self._unsafe.search(text)):
            return text
        return self._quoted(text, self._quote)

    def raw(self, text: str) -> str:
        """Return the text of a number as it stands in a field; Jackson never quotes it."""
        if not self._special.search(text):
            return text
        return self._escaped(text, begins=False) if self._quote is None else self._quoted(text, self._quote)

    def _quoted(self, text: str, quote: str) -> str:
        escape = self._escape
        if escape is not None:
            text = text.replace(escape, escape * 2)
        text = text.replace(quote, quote * 2)
        if not self._dialect.multiline_values and ("\n" in text or "\r" in text):
            if escape is None:
                raise ValueError("it has the end of a line, which set_multiline_values(False) excludes")
            text = text.replace("\n", f"{escape}n").replace("\r", f"{escape}r")
        return f"{quote}{text}{quote}"

    def _escaped(self, text: str, *, begins: bool) -> str:
        escape = self._escape
        if escape is None:
            sign = text.lstrip(" ")[0] if begins else self._special.findall(text)[0]
            raise ValueError(f"it has the special sign {sign!r}, and there are neither quotes nor an escape sign")
        named = {"\n": "n", "\r": "r"}
        found = self._special.sub(lambda match: escape + named.get(match[0], match[0]), text)
        return escape + found if begins and not found.startswith(escape) else found
