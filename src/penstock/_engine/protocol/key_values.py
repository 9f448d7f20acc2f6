"""Decodes the canonical encoding of a key to a value that is equal to the key.

A tuple of texts, or a date, is stored as its encoding alone. The decoded value is equal to the key and has the same
encoding, but may have another type: a named tuple becomes a tuple, a Decimal a Fraction. State that functions and
savepoints show keeps such keys beside the values, see `gives_back`. Classes of enums and dataclasses are imported.
"""

from __future__ import annotations

import dataclasses
import sys
from datetime import UTC, date, datetime, time, timedelta, timezone
from enum import Enum, Flag
from fractions import Fraction
from importlib import import_module
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from penstock._engine.protocol.key_frames import NAMED, unframed
from penstock._engine.protocol.keys import ZONED, NormalKey, decode_normal
from penstock.common.types import Row, RowKind, make_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_INT64: Final = Struct(">q")
_DOUBLE: Final = Struct(">d")
_LENGTH: Final = Struct(">I")
_MINUTE: Final = timedelta(minutes=1)
_LAST_MINUTE: Final = timedelta(days=1) - timedelta(microseconds=1)
#: Tags of encodings that begin with the name of a class, and of all encodings that contain others.
_WITH_CLASS: Final = frozenset({b"e", b"d"})
_WITH_PARTS: Final = frozenset({b"q", b"c", b"t", NAMED, b"z", b"l"}) | _WITH_CLASS
#: Types whose values are decoded as they were.
_GIVEN_BACK: Final = frozenset({str, int, bytes, type(None), date, timedelta, UUID})
_are_given_back: Final = _GIVEN_BACK.issuperset
_FIRST_MOMENT: Final = datetime(1, 1, 1)  # noqa: DTZ001 - naive on purpose


def key_value(normal: NormalKey) -> Any:
    """Return a value that is equal to the key of a normal key.

    Raises:
        ImportError: The module of an enum or a dataclass is missing.
        AttributeError: The module lacks the class.

    Example:
        >>> from penstock._engine.protocol.keys import normal_key
        >>> key_value(normal_key(("a", 1.5)))
        ('a', 1.5)
    """
    return _decode(normal) if type(normal) is bytes else normal


def gives_back(key: Any) -> bool:
    """Return whether the encoding of a key gives the key itself again, and not only an equal one of another type.

    Example:
        >>> from decimal import Decimal
        >>> gives_back(("a", 7, None)), gives_back(True), gives_back(7.0), gives_back(("a", Decimal("1.10")))
        (True, False, False, False)
    """
    kind = cast("type[object]", type(key))
    if kind in _GIVEN_BACK:
        return True
    if kind is tuple:
        return _are_given_back(map(type, key)) or all(map(gives_back, key))
    if kind is float:
        return not key.is_integer()
    if kind is datetime or kind is time:
        return key.tzinfo is None and not key.fold
    return False


def _decode(encoded: bytes) -> Any:
    decoder = _DECODERS.get(encoded[:1])
    return decode_normal(encoded) if decoder is None else decoder(encoded[1:])


def _parts(payload: bytes) -> list[Any]:
    return [_decode(part) for part in unframed(payload)]


def _named_row(payload: bytes) -> Row:
    values, names = map(_decode, unframed(payload))
    return make_row(list(names), values, RowKind.INSERT)


def _moment(payload: bytes) -> datetime:
    return _FIRST_MOMENT + timedelta(microseconds=_INT64.unpack(payload)[0])


def _zoned(payload: bytes) -> datetime:
    moment, zone = unframed(payload)
    return _moment(moment).replace(tzinfo=ZoneInfo(zone.decode()))


def _time(payload: bytes) -> time:
    return (_FIRST_MOMENT + timedelta(microseconds=_INT64.unpack(payload)[0])).time()


def _time_with_zone(payload: bytes) -> time:
    moment = timedelta(microseconds=_INT64.unpack(payload)[0])
    # Subtracting the offset may have led into the day before or after: then another offset leads back.
    offset = -(moment // _MINUTE) * _MINUTE if moment < timedelta() else min(timedelta(), _LAST_MINUTE - moment)
    offset -= offset % _MINUTE
    return (_FIRST_MOMENT + (moment + offset)).time().replace(tzinfo=timezone(offset) if offset else UTC)


def _enum(payload: bytes) -> Any:
    name = unframed(payload)[0]
    kind = cast("type[Enum]", class_named(name.decode()))
    value = _decode(payload[_frame_size(name) :])
    return kind(value) if issubclass(kind, Flag) else kind[value]


def _frame_size(part: bytes) -> int:
    return len(part) + (1 if len(part) < 255 else 1 + _LENGTH.size)


def _dataclass(payload: bytes) -> Any:
    name, *values = unframed(payload)
    kind = class_named(name.decode())
    fields = [field for field in dataclasses.fields(kind) if field.compare]
    made = object.__new__(kind)  # the key already has the fields that its constructor computes
    for field, value in zip(fields, values, strict=True):
        object.__setattr__(made, field.name, _decode(value))
    return made


def classes_in(encoded: bytes) -> Iterator[str]:
    """Iterate the classes that the encoding of a key names; nothing is imported.

    Raises:
        ValueError: The bytes are no encoding of a key.
    """
    tag, payload = encoded[:1], encoded[1:]
    if tag not in _WITH_PARTS:
        return
    parts = unframed(payload)
    if tag in _WITH_CLASS:
        if not parts:
            reason = "it is no encoding of a key"
            raise ValueError(reason)
        yield parts[0].decode()
        parts = parts[1:] if tag == b"d" else [payload[_frame_size(parts[0]) :]]
    for part in parts:
        yield from classes_in(part)


def class_named(name: str) -> Any:
    """Return a class by its module and name; both may contain dots.

    Raises:
        ImportError: The module does not exist.
        AttributeError: The module lacks the class.
    """
    words = name.split(".")
    for end in range(len(words) - 1, 0, -1):
        module = ".".join(words[:end])
        try:
            found: Any = sys.modules.get(module) or import_module(module)
        except ModuleNotFoundError as error:
            if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
                continue
            raise
        for word in words[end:]:
            found = getattr(found, word)
        return found
    reason = f"no module of {name}"
    raise ModuleNotFoundError(reason)


#: The decoders by tag; int and str are decoded as normal keys.
_DECODERS: Final[dict[bytes, Callable[[bytes], Any]]] = {
    b"f": lambda payload: _DOUBLE.unpack(payload)[0],
    b"q": lambda payload: Fraction(*_parts(payload)),
    b"c": lambda payload: complex(*_parts(payload)),
    b"b": bytes,
    b"n": lambda _: None,
    b"t": lambda payload: tuple(_parts(payload)),
    NAMED: _named_row,
    b"z": lambda payload: frozenset(_parts(payload)),
    b"m": _moment,
    b"a": lambda payload: _moment(payload).replace(tzinfo=UTC),
    ZONED: _zoned,
    b"D": lambda payload: date.fromordinal(_INT64.unpack(payload)[0]),
    b"h": _time,
    b"H": _time_with_zone,
    b"l": lambda payload: timedelta(microseconds=_decode(payload)),
    b"u": lambda payload: UUID(bytes=payload),
    b"e": _enum,
    b"d": _dataclass,
}
