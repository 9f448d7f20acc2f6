"""Rows as messages of CSV (``pyflink.datastream.formats.csv``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from penstock._shelf import show
from penstock.common._codecs.codec import CodecDeserializationSchema, CodecSerializationSchema
from penstock.common._codecs.csv_codec import CsvCodec
from penstock.common._codecs.csv_dialect import CsvDialect
from penstock.common.typeinfo import RowTypeInfo

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation

__all__ = ["CsvRowDeserializationSchema", "CsvRowSerializationSchema"]

_LINE_DELIMITERS = ("\n", "\r", "\r\n", "")


class _DialectBuilder:
    """The settings that both builders have.

    Args:
        type_info: The type of the rows; their fields are single values, and arrays and rows of these.

    Raises:
        TypeError: It is no row.
        ValueError: A field's type has no CSV.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self._row_type, self._array_delimiter, self._dialect = _checked(type_info), ";", CsvDialect()

    def set_array_element_delimiter(self, delimiter: str) -> Self:
        """Set the text between the elements of arrays and nested rows; a semicolon by default."""
        self._array_delimiter = delimiter
        return self

    def set_quote_character(self, c: str) -> Self:
        """Set the quote character of values; a double quote by default."""
        return self._set(quote_char=_sign("quote character", c))

    def _codec(self, ignore_parse_errors: bool = False) -> CsvCodec:
        return CsvCodec(self._row_type, self._dialect, self._array_delimiter, ignore_parse_errors)

    def _set(self, **changes: Any) -> Self:
        self._dialect = replace(self._dialect, **changes)
        return self


class CsvRowDeserializationSchema(CodecDeserializationSchema):
    """Makes a Row of a line of CSV; ``CsvRowDeserializationSchema.Builder(type)`` begins one.

    Source: org.apache.flink.formats.csv.CsvRowDeserializationSchema.

    Example:
        >>> from penstock.common.typeinfo import Types
        >>> row_type = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
        >>> CsvRowDeserializationSchema.Builder(row_type).build().deserialize(b'7,"a, b"')
        Row(id=7, name='a, b')
    """

    def __init__(self, codec: CsvCodec) -> None:
        super().__init__(codec)
        self._row_type = codec.type_info

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._row_type

    class Builder(_DialectBuilder):
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
            return self._set(column_separator=_sign("field delimiter", delimiter))

        def set_allow_comments(self, allow_comments: bool) -> Self:
            """Set whether to drop lines that begin with ``#``."""
            return self._set(allow_comments=allow_comments)

        def set_escape_character(self, c: str) -> Self:
            """Set what escapes the next character; none by default."""
            return self._set(escape_char=_sign("escape character", c))

        def set_null_literal(self, null_literal: str) -> Self:
            """Set the text that means None; without one, empty fields that are no text are None."""
            return self._set(null_value=null_literal)

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> Self:
            """Set whether to let fields be None that do not fit, and drop lines that are no CSV."""
            self._lenient = ignore_parse_errors
            return self

        def build(self) -> CsvRowDeserializationSchema:
            """Return the schema.

            Raises:
                ValueError: A character has two meanings.
            """
            return CsvRowDeserializationSchema(self._codec(self._lenient))


class CsvRowSerializationSchema(CodecSerializationSchema):
    r"""Makes a line of CSV of a Row; ``CsvRowSerializationSchema.Builder(type)`` begins one.

    Text is quoted where Flink's library quotes it: with more than 24 characters, and with one that does not come after
    the delimiter, the quote and the line feed in Unicode, such as a space; almost all text with ``|`` as delimiter.
    Dicts are read by names, and so are Rows with the names of the type in another order; all others by position.

    Source: org.apache.flink.formats.csv.CsvRowSerializationSchema.

    Example:
        >>> from penstock.common.typeinfo import Types
        >>> from penstock.common.types import Row
        >>> row_type = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
        >>> CsvRowSerializationSchema.Builder(row_type).build().serialize(Row(7, "a, b"))
        b'7,"a, b"\n'
    """

    class Builder(_DialectBuilder):
        """Builds a CsvRowSerializationSchema.

        Args:
            type_info: The type of the rows; their fields are single values, and arrays and rows of these.

        Raises:
            TypeError: It is no row.
            ValueError: A field's type has no CSV.
        """

        def set_field_delimiter(self, c: str) -> Self:
            """Set the sign between fields; a comma by default."""
            return self._set(column_separator=_sign("field delimiter", c))

        def set_line_delimiter(self, delimiter: str) -> Self:
            r"""Set what ends a line: ``\n`` by default, ``\r``, ``\r\n``, or nothing.

            Raises:
                ValueError: It is something else.
            """
            if delimiter not in _LINE_DELIMITERS:
                msg = f"A line ends with one of {_LINE_DELIMITERS}, not {delimiter!r}."
                raise ValueError(msg)
            return self._set(line_separator=delimiter)

        def disable_quote_character(self) -> Self:
            """Quote nothing."""
            return self._set(quote_char=None)

        def set_escape_character(self, c: str) -> Self:
            """Set what escapes itself; quotes are doubled, as in Flink, and escaped where quotes are disabled."""
            return self._set(escape_char=_sign("escape character", c))

        def set_null_literal(self, s: str) -> Self:
            """Set the text of None; nothing by default."""
            return self._set(null_value=s)

        def build(self) -> CsvRowSerializationSchema:
            """Return the schema.

            Raises:
                ValueError: A character has two meanings.
            """
            return CsvRowSerializationSchema(self._codec())


def _checked(type_info: TypeInformation) -> RowTypeInfo:
    if not isinstance(type_info, RowTypeInfo):
        msg = f"The type of the rows is made by Types.ROW_NAMED or Types.ROW, not {type_info!r}."
        raise TypeError(msg)
    CsvCodec(type_info, CsvDialect())
    return type_info


def _sign(what: str, given: str) -> str:
    if len(given) != 1:
        msg = f"The {what} is one character, not {given!r}."
        raise ValueError(msg)
    return given


show("penstock.datastream.formats.csv", CsvRowDeserializationSchema, CsvRowSerializationSchema)
