"""Values of ``json`` and ``jsonb``: numbers stay exact, and ``null`` is not the missing value."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from penstock._connectors.postgres.unfit import UnfitError
from penstock._shelf import show
from penstock.common._codecs.json_codec import JsonCodec
from penstock.errors import MessageFormatError


class Json(Enum):
    """The value ``null`` of a ``json`` or ``jsonb`` column, which is another one than no value, None.

    Example:
        >>> Json.NULL
        <Json.NULL: 'null'>
    """

    NULL = "null"


def parse_json(text: str) -> Any:
    try:
        found = _JSON.decode(text.encode())
    except MessageFormatError as error:
        raise UnfitError(error.reason) from None
    return Json.NULL if found is None else found


def write_json(value: Any) -> str:
    if value is Json.NULL:
        return "null"
    try:
        return _JSON.encode(value).decode()
    except MessageFormatError as error:
        raise UnfitError(error.reason) from None


_JSON: Final = JsonCodec(exact=True)

show("penstock.datastream.connectors.postgres", Json)
