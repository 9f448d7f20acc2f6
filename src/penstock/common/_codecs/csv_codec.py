"""Rows as records of CSV and back, for messages; files use its two halves for whole blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common._codecs.csv_decoding import CsvDecoder
from penstock.common._codecs.csv_encoding import CsvComposer, UnfitFieldError
from penstock.common._codecs.csv_values import UNFIT, CsvColumn
from penstock.common._conversion.checked import reason_of
from penstock.common._conversion.row_values import values_of
from penstock.common.user_values import short_repr
from penstock.errors import MessageFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.common._codecs.csv_dialect import CsvDialect
    from penstock.common.typeinfo import RowTypeInfo


class CsvCodec:
    r"""Reads and writes rows of one type as records of CSV.

    Args:
        type_info: The type of the rows.
        dialect: The special characters.
        array_delimiter: The text between the elements of arrays and nested rows.
        ignore_parse_errors: Whether fields that do not fit are None, and what is no record as well.

    Raises:
        ValueError: A field's type has no CSV, or a character has two meanings.

    Example:
        >>> from penstock.common._codecs.csv_dialect import CsvDialect
        >>> from penstock.common.typeinfo import Types
        >>> codec = CsvCodec(Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()]), CsvDialect())
        >>> codec.encode((7, "a, b")), codec.decode(b"8,c")
        (b'7,"a, b"\n', Row(id=8, name='c'))
    """

    def __init__(
        self,
        type_info: RowTypeInfo,
        dialect: CsvDialect,
        array_delimiter: str = ";",
        ignore_parse_errors: bool = False,
    ) -> None:
        self._made_of = type_info, dialect, array_delimiter, ignore_parse_errors
        self.type_info: RowTypeInfo = type_info
        self._lenient = ignore_parse_errors
        self._names = list(type_info.get_field_names())
        fields = zip(self._names, type_info.get_field_types(), strict=True)
        columns = [CsvColumn.of(name, one, array_delimiter) for name, one in fields]
        self._decoder, self._composer = CsvDecoder(columns, dialect), CsvComposer(columns, dialect)

    def __reduce__(self) -> tuple[Any, ...]:
        return CsvCodec, self._made_of

    def decode(self, message: bytes) -> Any:
        """Return the row of a text in UTF-8; None for a comment.

        Raises:
            MessageFormatError: It has another number of fields or more than one record, or a field does not fit.
        """
        try:
            fields = self._decoder.records.record(message.decode("utf-8-sig"))
            return None if fields is None else self._decoder.row(self._decoder.values(fields, lenient=self._lenient))
        except UNFIT as error:
            if self._lenient:
                return None
            raise MessageFormatError("CSV", f"{message[:200]!r}", str(self.type_info), reason_of(error)) from error

    def decode_block(self, messages: Iterable[bytes]) -> list[Any]:
        """Return the rows of some texts.

        Raises:
            MessageFormatError: One of them does not fit.
        """
        return list(map(self.decode, messages))

    def encode(self, value: Any) -> bytes:
        """Return a row as a line in UTF-8, with its end.

        Raises:
            MessageFormatError: It has another number of fields, or one does not fit its type.
        """
        try:
            return self._composer.line(values_of(value, self._names))
        except UnfitFieldError as error:
            reason = f"field {error.column.name!r}: {error.reason}"
        except UNFIT as error:
            reason = reason_of(error)
        raise MessageFormatError("CSV", short_repr(value), str(self.type_info), reason)

    def encode_block(self, values: Iterable[Any]) -> list[bytes]:
        """Return rows as lines.

        Raises:
            MessageFormatError: One of them does not fit.
        """
        return list(map(self.encode, values))
