"""Copies mutable records when they leave a function, so that receivers own their records.

A function may keep a returned object and change it in its next call, return one object several times, or change its
input, which another function also has. So each record is copied when it leaves a function, before the next call. An
immutable record is passed on as it is. The way of copying depends on the type alone and is chosen once for each type;
it is quick for flat dicts, lists, rows and dataclasses, and nested records are pickled, as on their way to another
process.
"""

from __future__ import annotations

import copy
import gc
import pickle
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import chain
from pathlib import PurePath
from types import BuiltinFunctionType, EllipsisType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from penstock.common.types import Row, bare_row
from penstock.errors import UncopyableRecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PLAIN: Final = (
    *(type(None), bool, int, float, complex, str, bytes, range, EllipsisType),
    *(date, datetime, time, timedelta, timezone, Decimal, Fraction, UUID),
)
#: Types with immutable values; more are found at run time, such as enumerations.
IMMUTABLE: Final[set[type]] = set(_PLAIN)
#: Tells whether types are all of that kind: for the fields of a record.
all_immutable: Final = IMMUTABLE.issuperset
#: Base classes of the ones that are found on the way.
_UNCHANGING: Final = (Enum, type, PurePath, FunctionType, BuiltinFunctionType, ModuleType)
#: Types that are remembered; a program that makes classes without end starts fresh.
_MOST_KEPT: Final = 1000
_TUPLES: Final = {tuple}


def copy_if_mutable(record: Any) -> Any:
    """Return a record that its receiver owns: later changes of the given record do not affect it.

    Args:
        record: The record that leaves a function.

    Returns:
        The record itself if it is immutable, else a copy.

    Raises:
        UncopyableRecordError: It can neither be copied nor pickled.

    Source: what `TypeSerializer.copy` does between chained operators of Flink.

    Example:
        >>> row = {"word": "to", "count": 1}
        >>> kept = copy_if_mutable(row)
        >>> row["count"] = 2
        >>> kept, copy_if_mutable("to") is copy_if_mutable("to")
        ({'word': 'to', 'count': 1}, True)
    """
    kind = type(record)  # pyright: ignore[reportUnknownVariableType]
    if kind in IMMUTABLE:
        return record
    if kind is tuple:  # without a further call, as there are so many of them
        for field in record:  # pyright: ignore[reportUnknownVariableType]
            if type(field) not in IMMUTABLE:
                break
        else:
            return record
    return _copiers[kind](record)


def copy_all_if_mutable(records: list[Any]) -> list[Any]:
    """Return records that their receiver owns; the same list, at little cost, if all are immutable."""
    return [copy_if_mutable(record) for record in records] if any_may_change(records) else records


def may_change(value: Any) -> bool:
    """Return whether a value, or a part of it, could be changed in place."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind in IMMUTABLE:
        return False
    copier = _copiers[kind]  # inspects a new type
    parts = _parts.get(cast("Any", kind))
    return copier is not _same if parts is None else any(map(may_change, parts(value)))


def any_may_change(values: list[Any]) -> bool:
    """Return whether one of many values could be changed in place; quick where all are plain values or flat tuples."""
    kinds = set(map(type, values)) - IMMUTABLE
    if kinds == _TUPLES:
        tuples = values if type(values[0]) is tuple and len(set(map(type, values))) == 1 else _tuples_of(values)
        # One pass in C over all fields.
        if all_immutable(map(type, chain.from_iterable(tuples))):
            return False
    return bool(kinds) and any(map(may_change, values))


def _tuples_of(values: list[Any]) -> list[Any]:
    return [value for value in values if type(value) is tuple]


def _same(record: Any) -> Any:
    return record


def _deep(record: Any) -> Any:
    """Copy a whole record by pickle, in a third of deepcopy's time; deepcopy copies classes that pickle cannot name."""
    try:
        return pickle.loads(pickle.dumps(record, pickle.HIGHEST_PROTOCOL))
    except Exception:  # noqa: BLE001 - from whatever a class does there
        try:
            return copy.deepcopy(record)
        except Exception as error:
            kind = type(record)  # pyright: ignore[reportUnknownVariableType]
            raise UncopyableRecordError(f"{kind.__module__}.{kind.__qualname__}", str(error).rstrip(".")) from error


def _are_flat(values: Iterable[Any]) -> bool:
    return all_immutable(map(type, values)) or not any(map(may_change, values))


def _dict(record: dict[Any, Any]) -> dict[Any, Any]:
    for value in record.values():  # quicker than in C, for as few as a record has
        if type(value) not in IMMUTABLE:
            if _are_flat(record.values()):
                break
            return _deep(record)
    # Keys are texts nearly always. CPython tells without a look at each: a dict that its collector passes over has no
    # key that could hold anything.
    return record.copy() if not gc.is_tracked(record) or _are_flat(record) else _deep(record)


def _list(record: list[Any]) -> list[Any]:
    return record.copy() if _are_flat(record) else _deep(record)


def _set(record: set[Any]) -> set[Any]:
    return record.copy() if _are_flat(record) else _deep(record)


def _row(record: Row) -> Row:
    values = record._values  # pyright: ignore[reportPrivateUsage]
    if not all_immutable(map(type, values)) and not _are_flat(values):
        return _deep(record)
    row = bare_row(Row)
    row._fields = record._fields  # pyright: ignore[reportPrivateUsage]
    row._values = values.copy()  # pyright: ignore[reportPrivateUsage]
    row._row_kind = record._row_kind  # pyright: ignore[reportPrivateUsage]
    return row


def _unchanging(parts: Callable[[Any], Iterable[Any]]) -> Callable[[Any], Any]:
    """Return the copier of a type whose parts are fixed; it copies if the parts themselves are mutable."""
    return lambda record: record if _are_flat(parts(record)) else _deep(record)


class _Copiers(dict[type, "Callable[[Any], Any]"]):
    """type -> what copies its values, found out at the first one."""

    def __missing__(self, kind: type) -> Callable[[Any], Any]:
        if len(self) >= _MOST_KEPT:
            _forget()
        copier = self[kind] = _copier_of(kind)
        return copier


#: By type with fixed parts: returns the parts.
_parts: dict[type, Callable[[Any], Iterable[Any]]] = {}
_copiers: Final = _Copiers()


def _forget() -> None:
    """Begin with the types that are known from the start."""
    IMMUTABLE.intersection_update(_PLAIN)
    _parts.clear()
    _parts.update({tuple: _same, frozenset: _same})
    _copiers.clear()
    _copiers.update({dict: _dict, list: _list, set: _set, Row: _row, bytearray: bytearray.copy})
    _copiers.update({kind: _unchanging(parts) for kind, parts in _parts.items()})


def _copier_of(kind: Any) -> Callable[[Any], Any]:
    if issubclass(kind, _UNCHANGING):
        IMMUTABLE.add(kind)
        return _same
    if hasattr(kind, "__dataclass_fields__") and _is_plain_class(kind):
        return _dataclass_copier(kind)
    if issubclass(kind, tuple) and not kind.__dictoffset__:  # a named tuple
        _parts[kind] = _same
        return _unchanging(_same)
    return _deep


#: Methods by which a class defines how it is copied or pickled.
_OWN_WAYS: Final = (
    *("__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__"),
    *("__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__"),
)
_MADE_IN_PYTHON: Final = 1 << 9


def _is_plain_class(kind: type) -> bool:
    """Return whether the objects of a class consist of their attributes only."""
    if not all(base is object or base.__flags__ & _MADE_IN_PYTHON for base in kind.__mro__):
        return False
    own_ways = {
        getattr(kind, name, None) for name in _OWN_WAYS if getattr(kind, name, None) is not getattr(object, name, None)
    }
    return all(getattr(way, "__module__", None) == "dataclasses" for way in own_ways)


def _dataclass_copier(kind: Any) -> Callable[[Any], Any]:
    slots: list[str] = [name for base in kind.__mro__ for name in _names(base.__dict__.get("__slots__", ()))]
    if (slots and kind.__dictoffset__) or any(name.startswith("__") for name in slots):
        return _deep
    attributes = _slots_getter(slots) if slots else _dict_of

    def parts(record: Any) -> Iterable[Any]:
        return attributes(record).values()

    parameters = kind.__dict__.get("__dataclass_params__")
    if parameters is not None and parameters.frozen:
        _parts[kind] = parts
        return _unchanging(parts)

    def copied(record: Any) -> Any:
        values = attributes(record)
        if not _are_flat(values.values()):
            return _deep(record)
        made: Any = object.__new__(kind)
        if slots:
            for name, value in values.items():
                object.__setattr__(made, name, value)
        else:
            made.__dict__.update(values)
        return made

    return copied


def _dict_of(record: Any) -> dict[str, Any]:
    return record.__dict__


def _names(slots: str | Iterable[str]) -> list[str]:
    names = [slots] if isinstance(slots, str) else list(slots)
    return [name for name in names if name != "__weakref__"]


def _slots_getter(slots: list[str]) -> Callable[[Any], dict[str, Any]]:
    return lambda record: {name: getattr(record, name) for name in slots if hasattr(record, name)}


_forget()
