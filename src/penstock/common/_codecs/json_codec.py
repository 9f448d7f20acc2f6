"""JSON as values and values as JSON, for files, messages and connectors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.common._codecs import json_reading, json_writing
from penstock.common._codecs.json_quick_writing import quick_values, quick_writer
from penstock.common._codecs.json_reading import UNREADABLE, converter, parsed, plain, quick_reader
from penstock.common._codecs.json_writing import UNWRITABLE, anything, encoded, writer
from penstock.common._conversion.checked import reason_of
from penstock.common.user_values import short_repr
from penstock.errors import MessageFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.common.typeinfo import TypeInformation


class JsonCodec:
    r"""Reads and writes JSON values of one type, one by one and in blocks.

    Args:
        type_info: The type; None for whatever is there: dicts, lists, texts, numbers, truth values and None.
        fail_on_missing_field: Whether a field that is not there is an error; else it is None.
        ignore_parse_errors: Whether fields that do not fit are None, and what is no JSON as well; else it is an error.
        exact: Whether values without a type come back as they were, or are refused: numbers that a float does not hold
            are Decimals, and what JSON does not have is an error.

    Raises:
        ValueError: The type has no JSON.

    Example:
        >>> JsonCodec().decode_block([b'{"a": [1, null]}', b"2.5"])
        [{'a': [1, None]}, 2.5]
        >>> from penstock.common.typeinfo import Types
        >>> codec = JsonCodec(Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()]))
        >>> codec.decode(codec.encode((7, "für")))
        Row(id=7, name='für')
    """

    def __init__(
        self,
        type_info: TypeInformation | None = None,
        *,
        fail_on_missing_field: bool = False,
        ignore_parse_errors: bool = False,
        exact: bool = False,
    ) -> None:
        self.type_info = type_info
        self._settings = fail_on_missing_field, ignore_parse_errors, exact
        self._lenient = ignore_parse_errors
        self._make: Callable[[Any], Any] | None = None
        self._write_block: Callable[[list[Any]], list[bytes] | None]
        if type_info is not None:
            strict = fail_on_missing_field
            self._parse, self._make = quick_reader(type_info, strict=strict)
            convert = converter(type_info, strict=strict, lenient=ignore_parse_errors)
            self._slowly, self._write = _after(parsed, convert), writer(type_info)
            self._write_block = quick_writer(type_info, self.encode)
        elif exact:
            self._parse = self._slowly = json_reading.exactly
            self._write = json_writing.exactly
            self._write_block = _not_at_once
        else:
            self._parse, self._slowly, self._write = _ANY.decode, _after(parsed, plain), anything
            self._write_block = partial(quick_values, write=self.encode)

    def decode(self, message: bytes) -> Any:
        """Return the value of a text in UTF-8.

        Raises:
            MessageFormatError: It is no JSON, or does not fit the type.
        """
        try:
            found = self._parse(message)
            return found if self._make is None else self._make(found)
        except UNREADABLE:
            pass
        try:
            return self._slowly(message)
        except UNREADABLE as error:
            if self._lenient:
                return None
            raise MessageFormatError("JSON", f"{message[:200]!r}", self._shown(), reason_of(error)) from error

    def decode_block(self, messages: Iterable[bytes]) -> list[Any]:
        """Return the values of some texts.

        Raises:
            MessageFormatError: One of them is no JSON, or does not fit the type.
        """
        messages = list(messages)
        try:
            found = map(self._parse, messages)
            return list(found if self._make is None else map(self._make, found))
        except UNREADABLE:
            return list(map(self.decode, messages))

    def encode(self, value: Any) -> bytes:
        """Return a value as JSON in UTF-8, in one line.

        Raises:
            MessageFormatError: It does not fit the type.
        """
        try:
            return encoded(self._write(value))
        except UNWRITABLE as error:
            raise MessageFormatError("JSON", short_repr(value), self._shown(), reason_of(error)) from error

    def encode_block(self, values: Iterable[Any]) -> list[bytes]:
        """Return values as JSON.

        Raises:
            MessageFormatError: One of them does not fit the type.
        """
        values = list(values)
        try:
            return self._write_block(values) or list(map(encoded, map(self._write, values)))
        except UNWRITABLE:
            return list(map(self.encode, values))

    def _shown(self) -> str:
        return "any value" if self.type_info is None else str(self.type_info)

    def __reduce__(self) -> tuple[Any, ...]:
        return _codec, (self.type_info, *self._settings)


def _codec(type_info: TypeInformation | None, strict: bool, lenient: bool, exact: bool) -> JsonCodec:
    return JsonCodec(type_info, fail_on_missing_field=strict, ignore_parse_errors=lenient, exact=exact)


def _not_at_once(values: list[Any]) -> None:
    del values


def _after(parse: Callable[[bytes], Any], convert: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    return lambda message: convert(parse(message))


_ANY = msgspec.json.Decoder[Any]()
