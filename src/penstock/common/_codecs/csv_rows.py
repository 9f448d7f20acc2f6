"""Rows as lines of CSV (``pyflink.datastream.formats.csv``)."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from penstock._shelf import show
from penstock.common._codecs.json_values import UNFIT, decimal, of_json, to_json, truth
from penstock.common._codecs.row_values import elements_of, values_of
from penstock.common._codecs.times import in_utc, of_rfc_timestamp, time_of_day, without_zeros
from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    Types,
)
from penstock.common.types import RowKind, make_row
from penstock.errors import MessageFormatError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation

__all__ = ["CsvRowDeserializationSchema", "CsvRowSerializationSchema"]

_TEXTS = frozenset({Types.STRING(), Types.CHAR()})
_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
#: Longer texts are quoted without a check of their characters, as in Flink's library.
_LOOKED_AT = 24


@dataclass(frozen=True, slots=True)
class CsvSigns:
    """The special characters of a line of CSV."""

    field_delimiter: str = ","
    line_delimiter: str = "\n"
    array_delimiter: str = ";"
    quote: str | None = '"'
    escape: str | None = None
    null: str | None = None
    comments: bool = False


class _SignsBuilder:
    """The settings that both builders have.

    Args:
        type_info: The type of the rows; their fields are single values, and arrays and rows of these.

    Raises:
        TypeError: It is no row.
        ValueError: A field's type has no CSV.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self._row_type, self._signs = _checked(type_info), CsvSigns()

    def set_array_element_delimiter(self, delimiter: str) -> Self:
        """Set the text between the elements of arrays and nested rows; a semicolon by default."""
        return self._set(array_delimiter=delimiter)

    def set_quote_character(self, c: str) -> Self:
        """Set the quote character of values; a double quote by default."""
        return self._set(quote=_sign("quote character", c))

    def _set(self, **changes: Any) -> Self:
        self._signs = replace(self._signs, **changes)
        return self


class CsvRowDeserializationSchema(DeserializationSchema):
    """Makes a Row of a line of CSV; ``CsvRowDeserializationSchema.Builder(type)`` begins one.

    Source: org.apache.flink.formats.csv.CsvRowDeserializationSchema.

    Example:
        >>> from penstock.common.typeinfo import Types
        >>> row_type = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
        >>> CsvRowDeserializationSchema.Builder(row_type).build().deserialize(b'7,"a, b"')
        Row(id=7, name='a, b')
    """

    def __init__(self, row_type: RowTypeInfo, signs: CsvSigns, *, ignore_parse_errors: bool) -> None:
        self._row_type, self._signs, self._lenient = row_type, signs, ignore_parse_errors
        self._names = list(row_type.get_field_names())
        self._fields = [_reader(one, signs) for one in row_type.get_field_types()]

    def deserialize(self, message: bytes) -> Any:
        """Return the row; None for a comment, and for a line that does not fit if errors are to be ignored.

        Raises:
            MessageFormatError: It has another number of fields, or one does not fit its type.
        """
        if message is None:  # pyright: ignore[reportUnnecessaryComparison] - a connector has none where a record has none
            return None
        if self._signs.comments and message.startswith(b"#"):
            return None
        try:
            values = self._values(message)
            converted = [self._convert(read, text) for read, text in zip(self._fields, values, strict=True)]
        except (*UNFIT, csv.Error) as error:
            if self._lenient:
                return None
            raise MessageFormatError("CSV", f"{message[:200]!r}", str(self._row_type), str(error)) from error
        return make_row(self._names, converted, RowKind.INSERT)

    def _values(self, message: bytes) -> list[str | None]:
        """Return the texts of the fields; None for those that a line lacks where errors are to be ignored."""
        signs = self._signs
        if len(message) > csv.field_size_limit():  # the only limit is that of the whole process
            csv.field_size_limit(len(message))
        lines = csv.reader(
            io.StringIO(message.decode(), newline=""),
            delimiter=signs.field_delimiter,
            quotechar=signs.quote,
            escapechar=signs.escape,
            quoting=csv.QUOTE_NONE if signs.quote is None else csv.QUOTE_MINIMAL,
            strict=True,
        )
        values: list[str | None] = [*next(lines, [""])]
        wanted = len(self._names)
        if len(values) < wanted and self._lenient:
            values += [None] * (wanted - len(values))
        if len(values) != wanted:
            raise ValueError(f"it has {len(values)} fields, and the type has {wanted}")
        return values

    def _convert(self, read: Callable[[str], Any], text: str | None) -> Any:
        try:
            return None if text is None else read(text)
        except UNFIT:
            if self._lenient:
                return None
            raise

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._row_type

    def __reduce__(self) -> tuple[Any, ...]:
        return _deserialization, (self._row_type, self._signs, self._lenient)

    class Builder(_SignsBuilder):
        """Builds a CsvRowDeserializationSchema.

        Args:
            type_info: The type of the rows; their fields are single values, and arrays and rows of these.

        Raises:
            TypeError: It is no row.
            ValueError: A field's type has no CSV.
        """

        _lenient = False

        def set_field_delimiter(self, delimiter: str) -> Self:
            """Set the sign between fields; a comma by default."""
            return self._set(field_delimiter=_sign("field delimiter", delimiter))

        def set_allow_comments(self, allow_comments: bool) -> Self:
            """Set whether to drop lines that begin with ``#``."""
            return self._set(comments=allow_comments)

        def set_escape_character(self, c: str) -> Self:
            """Set what escapes the next character; none by default."""
            return self._set(escape=_sign("escape character", c))

        def set_null_literal(self, null_literal: str) -> Self:
            """Set the text that means None; without one, empty fields that are no text are None."""
            return self._set(null=null_literal)

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> Self:
            """Set whether to let fields be None that do not fit, and drop lines that are no CSV."""
            self._lenient = ignore_parse_errors
            return self

        def build(self) -> CsvRowDeserializationSchema:
            """Return the schema."""
            return _deserialization(self._row_type, self._signs, self._lenient)


class CsvRowSerializationSchema(SerializationSchema):
    r"""Makes a line of CSV of a Row; ``CsvRowSerializationSchema.Builder(type)`` begins one.

    Text is quoted where Flink's library quotes it: with more than 24 characters, and with one that does not come after
    the delimiter, the quote and the line feed in ASCII, such as a space; almost all text with ``|`` as delimiter. Dicts
    are read by names, and so are Rows with the names of the type in another order; all others by position.

    Source: org.apache.flink.formats.csv.CsvRowSerializationSchema.

    Example:
        >>> from penstock.common.typeinfo import Types
        >>> from penstock.common.types import Row
        >>> row_type = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
        >>> CsvRowSerializationSchema.Builder(row_type).build().serialize(Row(7, "a, b"))
        b'7,"a, b"\n'
    """

    def __init__(self, row_type: RowTypeInfo, signs: CsvSigns) -> None:
        self._row_type, self._signs = row_type, signs
        self._names = list(row_type.get_field_names())
        self._fields = [_writer(one, signs) for one in row_type.get_field_types()]
        special = (signs.field_delimiter, signs.quote or "", "\r", "\n")
        self._safe = max(ord(sign) for sign in special if sign)

    def serialize(self, element: Any) -> bytes:
        """Return the line in UTF-8, with its end.

        Raises:
            MessageFormatError: The row has another number of fields, or one does not fit its type.
        """
        try:
            values = values_of(element, self._names)
            texts = [self._field(write, value) for write, value in zip(self._fields, values, strict=True)]
            return f"{self._signs.field_delimiter.join(texts)}{self._signs.line_delimiter}".encode()
        except UNFIT as error:
            raise MessageFormatError("CSV", f"{element!r:.200}", str(self._row_type), str(error)) from error

    def _field(self, write: tuple[Callable[[Any], str], bool], value: Any) -> str:
        convert, is_text = write
        if value is None:
            return self._signs.null or ""
        text = convert(value)
        quote, escape = self._signs.quote, self._signs.escape
        if not is_text or quote is None or not self._needs_quotes(text):
            return text
        inner = text if escape is None else text.replace(escape, escape * 2)
        return f"{quote}{inner.replace(quote, (escape or quote) + quote)}{quote}"

    def _needs_quotes(self, text: str) -> bool:
        return len(text) > _LOOKED_AT or any(ord(sign) <= self._safe or sign == self._signs.escape for sign in text)

    def __reduce__(self) -> tuple[Any, ...]:
        return CsvRowSerializationSchema, (self._row_type, self._signs)

    class Builder(_SignsBuilder):
        """Builds a CsvRowSerializationSchema.

        Args:
            type_info: The type of the rows; their fields are single values, and arrays and rows of these.

        Raises:
            TypeError: It is no row.
            ValueError: A field's type has no CSV.
        """

        def set_field_delimiter(self, c: str) -> Self:
            """Set the sign between fields; a comma by default."""
            return self._set(field_delimiter=_sign("field delimiter", c))

        def set_line_delimiter(self, delimiter: str) -> Self:
            """Set what ends a line; a line feed by default, may be nothing."""
            return self._set(line_delimiter=delimiter)

        def disable_quote_character(self) -> Self:
            """Quote nothing."""
            return self._set(quote=None)

        def set_escape_character(self, c: str) -> Self:
            """Set what escapes a quote in quotes; by default it is doubled."""
            return self._set(escape=_sign("escape character", c))

        def set_null_literal(self, s: str) -> Self:
            """Set the text of None; nothing by default."""
            return self._set(null=s)

        def build(self) -> CsvRowSerializationSchema:
            """Return the schema."""
            return CsvRowSerializationSchema(self._row_type, self._signs)


def _deserialization(row_type: RowTypeInfo, signs: CsvSigns, lenient: bool) -> CsvRowDeserializationSchema:
    return CsvRowDeserializationSchema(row_type, signs, ignore_parse_errors=lenient)


def _checked(type_info: TypeInformation) -> RowTypeInfo:
    if not isinstance(type_info, RowTypeInfo):
        msg = f"The type of the rows is made by Types.ROW_NAMED or Types.ROW, not {type_info!r}."
        raise TypeError(msg)
    for one in type_info.get_field_types():
        _reader(one, CsvSigns())
    return type_info


def _sign(what: str, given: str) -> str:
    if len(given) != 1:
        msg = f"The {what} is one character, not {given!r}."
        raise ValueError(msg)
    return given


# --------------------------------------------------------------------------------------------------- values of a field


def _reader(type_info: TypeInformation, signs: CsvSigns) -> Callable[[str], Any]:
    """Return the converter from the text of a field to its value."""
    if type_info in _TEXTS:
        return lambda text: None if text == signs.null else text
    return partial(_read, _of_text(type_info, signs), signs.null)


def _read(convert: Callable[[str], Any], null: str | None, text: str) -> Any:
    return None if text in ("", null) else convert(text)


def _of_text(type_info: TypeInformation, signs: CsvSigns) -> Callable[[str], Any]:
    if isinstance(type_info, RowTypeInfo):
        parts = [_reader(one, signs) for one in type_info.get_field_types()]
        names = list(type_info.get_field_names())
        return lambda text: make_row(
            names,
            [read(one) for read, one in zip(parts, text.split(signs.array_delimiter), strict=True)],
            RowKind.INSERT,
        )
    if isinstance(type_info, _ARRAYS) and type_info != _BYTES:
        read = _reader(type_info.elem_type, signs)
        return lambda text: [read(one) for one in text.split(signs.array_delimiter)]
    if type_info == Types.SQL_TIMESTAMP():
        return of_rfc_timestamp
    return of_json(type_info, strict=False, lenient=False)


_ARRAYS = (ListTypeInfo, ObjectArrayTypeInfo, BasicArrayTypeInfo, PrimitiveArrayTypeInfo)


def _writer(type_info: TypeInformation, signs: CsvSigns) -> tuple[Callable[[Any], str], bool]:
    """Return the converter from a value to its text, and whether the text may need quotes."""
    if isinstance(type_info, RowTypeInfo):
        names, parts = list(type_info.get_field_names()), type_info.get_field_types()
        return partial(_joined, signs, names, [_writer(one, signs)[0] for one in parts]), True
    if isinstance(type_info, _ARRAYS) and type_info != _BYTES:
        write = _writer(type_info.elem_type, signs)[0]
        return lambda value: signs.array_delimiter.join(_element(signs, write, one) for one in elements_of(value)), True
    if type_info in _WRITERS:
        return _WRITERS[type_info], type_info in (Types.SQL_TIME(), Types.SQL_TIMESTAMP())
    plain = to_json(type_info)
    return lambda value: str(plain(value)), type_info in _TEXTS or type_info == _BYTES


#: What CSV has in another form than JSON.
_WRITERS: Final[dict[TypeInformation, Callable[[Any], str]]] = {
    Types.SQL_TIMESTAMP(): lambda value: without_zeros(str(in_utc(value))),
    Types.SQL_TIME(): lambda value: without_zeros(str(time_of_day(value))),
    Types.BOOLEAN(): lambda value: str(truth(value)).lower(),
    Types.BIG_DEC(): lambda value: str(decimal(value)),
}


def _element(signs: CsvSigns, write: Callable[[Any], str], value: Any) -> str:
    return signs.null or "" if value is None else write(value)


def _joined(signs: CsvSigns, names: list[str], parts: list[Callable[[Any], str]], value: Any) -> str:
    values = zip(parts, values_of(value, names), strict=True)
    return signs.array_delimiter.join(_element(signs, write, one) for write, one in values)


show("penstock.datastream.formats.csv", CsvRowDeserializationSchema, CsvRowSerializationSchema)
