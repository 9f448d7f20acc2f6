"""Values that JSON would have otherwise than they are: they are refused by the name of their field."""

from __future__ import annotations

import dataclasses
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

import msgspec

from penstock.common.types import Row

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Kinds that JSON has, or that have a text of their own.
_PLAIN: Final = frozenset({str, int, bool, NoneType, bytes, Decimal, date, timedelta, UUID})
_MINUTE: Final = timedelta(minutes=1)


class DocumentValueError(ValueError):
    """A field has a value that JSON would have otherwise; the text names the field."""


def check_value(value: Any, path: tuple[str, ...] = ()) -> None:
    """Check what is in a document.

    Args:
        value: A document, or a part of it.
        path: The fields that lead to it.

    Raises:
        DocumentValueError: JSON would have one of its values otherwise.

    Example:
        >>> check_value({"prices": [1.5, float("nan")]})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        penstock...DocumentValueError: prices.1 is nan, and JSON has no such number
    """
    kind = cast("Any", type(value))
    if kind in _PLAIN:
        return
    if kind is float:
        if not isfinite(value):
            msg = f"{_shown(path)} is {value}, and JSON has no such number"
            raise DocumentValueError(msg)
    elif kind is datetime or kind is time:
        offset = value.utcoffset()
        if offset is not None and offset % _MINUTE:
            msg = f"{_shown(path)} is {value!r}, and the zone of a time in JSON has whole minutes"
            raise DocumentValueError(msg)
    else:
        for name, one in _parts(value, path):
            if type(one) not in _PLAIN:
                check_value(one, (*path, str(name)))


def _parts(value: Any, path: tuple[str, ...] = ()) -> Iterable[tuple[Any, Any]]:
    """Return the parts of a value, each with its name or place."""
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        if not all(type(key) is str for key in fields):
            _check_keys(fields, path)
        return fields.items()
    if isinstance(value, list | tuple | set | frozenset):
        return enumerate(cast("Iterable[Any]", value))
    if isinstance(value, Row):
        return value.as_dict().items() if value._fields is not None else enumerate(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    if isinstance(value, msgspec.Struct):
        return [(name, getattr(value, name, None)) for name in value.__struct_fields__]
    return ()


def _check_keys(fields: dict[Any, Any], path: tuple[str, ...]) -> None:
    """Check that keys that are no texts stay different ones as texts."""
    names: dict[bytes, Any] = {}
    for key in fields:
        name = msgspec.json.encode({key: 0})
        if name in names:
            msg = f"{_shown(path)} has the keys {names[name]!r} and {key!r}, which are one in JSON"
            raise DocumentValueError(msg)
        names[name] = key


def place_of_text(value: Any, text: str, path: tuple[str, ...] = ()) -> str:
    """Return where a text is in a document.

    Args:
        value: The document, or a part of it.
        text: The text: a value or a key.
        path: The fields that lead to the part.
    """
    for name, one in _parts(value, path):
        if text in {str(name), one if isinstance(one, str) else None}:
            return _shown((*path, str(name)))
        if type(one) not in _PLAIN and (found := place_of_text(one, text, (*path, str(name)))):
            return found
    return "" if path else "the document"


def _shown(path: tuple[str, ...]) -> str:
    return ".".join(path).encode(errors="backslashreplace").decode()[:300] or "the document"
