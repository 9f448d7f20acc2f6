"""Converts Python values to Arrow and Spark and back, without changing any value.

Numbers, text, bytes, dates and decimals stay as they are. Values with parts become structs. A struct with the fields
``_1``, ``_2`` … is a tuple, as in Spark; one with other names is a dict. A value that Arrow has no type for, such as a
member of an enum or a dataclass, becomes a struct with its Python type in the field `PYTHON` and its parts in other
fields.
"""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from penstock._engine.protocol.key_values import class_named
from penstock.common.types import Row, RowKind, field_names, make_row
from penstock.errors import UnsupportedOperationError, UntrustedClassError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock._engine.state.files.trust import AllowedClasses

#: The field of a struct with the Python type of the value.
PYTHON: Final = "_python"

_AS_THEY_ARE: Final = frozenset({str, float, bool, bytes, type(None), date, timedelta})
_NUMBERS: Final = frozenset({float, bool})
_TOLD_APART: Final = _NUMBERS | {int}
#: A value of a class of the user's that is one of these keeps its class, and so does a bytearray, which Arrow has as
#: bytes. Gives what Python's own class has of it, whatever methods it has.
_BARE: Final[dict[Any, Callable[[Any], Any]]] = {
    str: lambda value: "".join(str.__iter__(value)),
    bytes: lambda value: bytes(memoryview(value)),
    int: int.__int__,
    float: float.__float__,
    bytearray: bytes,
}
_INT64: Final = range(-(1 << 63), 1 << 63)


# ------------------------------------------------------------------------------------------------------------ to Arrow


def plain(value: Any, *, exact: int = 0) -> Any:
    """Return a value in Arrow's form.

    Args:
        value: The value.
        exact: 1 stores with each tuple and dict which parts it has, for columns in which these differ. 2 also stores
            with each number its type, for columns with numbers of several types.

    Example:
        >>> plain(("a", {1: 2}))
        {'_1': 'a', '_2': {'_python': 'dict', 'items': [{'key': 1, 'value': 2}]}}
        >>> plain((1, 2), exact=1)
        {'_python': 'tuple[2]', '_1': 1, '_2': 2}
    """
    kind = cast("type[Any]", type(value))
    if kind in _AS_THEY_ARE:
        return {PYTHON: kind.__name__, "text": repr(value)} if exact > 1 and kind in _NUMBERS else value
    convert = _BY_TYPE.get(kind) or next((convert for base, convert in _BY_BASE if isinstance(value, base)), None)
    if convert is None:
        convert = _plain_dataclass if dataclasses.is_dataclass(value) else _plain_array
    return convert(value, exact)


def _struct(names: Iterable[str], values: Iterable[Any], exact: int) -> dict[str, Any]:
    return {name: plain(value, exact=exact) for name, value in zip(names, values, strict=True)}


def _numbers(values: Sequence[Any]) -> list[str]:
    return [f"_{number}" for number in range(1, len(values) + 1)]  # as Spark calls them


def _plain_int(value: int, exact: int) -> Any:
    return value if value in _INT64 and exact < 2 else {PYTHON: "int", "text": str(value)}


def _plain_decimal(value: Decimal, exact: int) -> Any:
    return {PYTHON: "Decimal", "text": str(value)} if exact else value  # a column has one scale for all decimals


def _plain_of_base(value: Any, _: int) -> Any:
    if type(value).__module__ == "numpy":
        return value  # a number or text of NumPy
    _check_attributes(value, ())
    base: Any = next(base for base in _BARE if isinstance(value, base))
    return {PYTHON: _name(value), "value": plain(_BARE[base](value))}


def _check_attributes(value: Any, names: Sequence[str]) -> None:
    """Raise for an object with state beside its fields, except for cached values that follow from the fields."""
    kind: Any = cast("Any", type(value))
    more = set(getattr(value, "__dict__", ())).difference(names)
    if lost := sorted(name for name in more if not isinstance(getattr(kind, name, None), cached_property)):
        reason = (
            f"a {_name(value)} has {', '.join(lost)} beside what it is, and that would be lost. Take it as Python "
            "values: iterate, or to_pandas()"
        )
        raise UnsupportedOperationError("Arrow data of state", reason)


def _plain_list(value: list[Any], exact: int) -> list[Any]:
    return [plain(item, exact=exact) for item in value]


def _plain_tuple(value: tuple[Any, ...], exact: int) -> dict[str, Any]:
    head = {PYTHON: f"tuple[{len(value)}]"} if exact or not value else {}
    return head | _struct(_numbers(value), value, exact)


def _plain_dict(value: dict[Any, Any], exact: int) -> Any:
    if not all(isinstance(key, str) for key in value) or PYTHON in value:
        return {PYTHON: "dict", "items": _items(value, exact)}
    names = list(value)
    is_marked = exact or not value or names == _numbers(names)
    return ({PYTHON: f"dict{json.dumps(names)}"} if is_marked else {}) | _struct(names, value.values(), exact)


def _items(value: dict[Any, Any], exact: int) -> list[Any]:
    return [{"key": plain(key, exact=exact), "value": plain(item, exact=exact)} for key, item in value.items()]


def _marked_struct(value: Any, names: Sequence[str], exact: int) -> dict[str, Any]:
    if PYTHON in names:
        reason = f"a field of {_name(value)} is called {PYTHON!r}, by which structs say what they were in Python"
        raise UnsupportedOperationError("Arrow data of state", reason)
    return {PYTHON: _name(value)} | _struct(names, [getattr(value, name) for name in names], exact)


def _plain_row(row: Row, exact: int) -> dict[str, Any]:
    names = field_names(row)
    values = list(cast("Iterable[Any]", row))
    head = f"Row{row.get_row_kind()}{json.dumps([len(values)] if names is None else list(names))}"
    return {PYTHON: head} | _struct(_numbers(values) if names is None else names, values, exact)


def _plain_enum(member: Enum, exact: int) -> dict[str, Any]:
    name = {PYTHON: _name(member), "name": member.name}  # combinations of flags may have none
    return name | {"value": plain(member.value, exact=exact)} if isinstance(member, Flag) else name


def _plain_datetime(value: datetime, _: int) -> Any:
    offset = value.utcoffset()
    # Spark returns timestamps in its own time zone, without the zone.
    return value if offset is None else {PYTHON: "datetime", "at": value.astimezone(UTC), "offset": offset}


def _plain_named_tuple(value: tuple[Any, ...], exact: int) -> Any:
    names: Any = getattr(value, "_fields", None)
    return _plain_tuple(value, exact) if names is None else _marked_struct(value, names, exact)


def _plain_dataclass(value: Any, exact: int) -> Any:
    if isinstance(value, type):
        return value
    names = [field.name for field in dataclasses.fields(value)]
    _check_attributes(value, names)
    return _marked_struct(value, names, exact)


def _plain_array(value: Any, exact: int) -> Any:
    if type(value).__module__ != "numpy" or not value.shape:
        return value  # a number of NumPy, or a value that Arrow converts or refuses
    return {PYTHON: "numpy.ndarray", "dtype": str(value.dtype), "items": plain(value.tolist(), exact=exact)}


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


_BY_TYPE: Final[dict[type[Any], Callable[[Any, int], Any]]] = {
    int: _plain_int,
    tuple: _plain_tuple,
    dict: _plain_dict,
    list: _plain_list,
    Decimal: _plain_decimal,
}
#: For other types, subclasses of these among them: by the first base that a value is of.
_BY_BASE: Final[tuple[tuple[type[Any], Callable[[Any, int], Any]], ...]] = (
    (Enum, _plain_enum),
    (Row, _plain_row),
    (tuple, _plain_named_tuple),
    (list, lambda value, exact: {PYTHON: _name(value), "items": _plain_list(value, exact)}),
    (dict, lambda value, exact: {PYTHON: _name(value), "items": _items(value, exact)}),
    (frozenset, lambda value, exact: {PYTHON: "frozenset", "items": [plain(item, exact=exact) for item in value]}),
    (set, lambda value, exact: {PYTHON: "set", "items": [plain(item, exact=exact) for item in value]}),
    (datetime, _plain_datetime),
    (time, lambda value, _: {PYTHON: "time", "text": value.isoformat()}),
    (UUID, lambda value, _: {PYTHON: "UUID", "text": str(value)}),
    (Fraction, lambda value, _: {PYTHON: "Fraction", "text": str(value)}),
    (complex, lambda value, _: {PYTHON: "complex", "real": value.real, "imag": value.imag}),
    *((base, _plain_of_base) for base in _BARE),
)


def is_array(value: Any) -> bool:
    """Tell whether a value is an array of NumPy's."""
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray" and bool(value.shape)


def is_same(found: Any, wanted: Any, *, numbers: bool = True) -> bool:
    """Return whether a value survives Arrow unchanged; with ``numbers``, an int and a float differ.

    Structs of one column have the fields of all of them, with None for those that one lacks. Where a struct says what
    it was, that does no harm.
    """
    if isinstance(wanted, dict):
        return isinstance(found, dict) and _is_same_struct(
            cast("dict[str, Any]", found), cast("dict[str, Any]", wanted), numbers=numbers
        )
    if isinstance(wanted, list):
        items, others = cast("list[Any]", wanted), cast("list[Any]", found)
        return (
            isinstance(found, list)
            and len(others) == len(items)
            and all(is_same(other, item, numbers=numbers) for other, item in zip(others, items, strict=True))
        )
    if isinstance(wanted, Decimal):
        return isinstance(found, Decimal) and found.as_tuple() == wanted.as_tuple()
    if numbers and type(wanted) in _TOLD_APART and type(found) is not type(wanted):
        return False
    return bool(found == wanted) or (found != found and wanted != wanted)  # noqa: PLR0124 - nan


def _is_same_struct(found: dict[str, Any], wanted: dict[str, Any], *, numbers: bool) -> bool:
    if wanted.keys() - found.keys():
        return False
    more = found.keys() - wanted.keys()
    if any(found[name] is not None for name in more) or (more and PYTHON not in wanted and more != {PYTHON}):
        return False
    return all(is_same(found[name], part, numbers=numbers) for name, part in wanted.items())


# ---------------------------------------------------------------------------------------------------------- from Arrow


def restored(value: Any, classes: AllowedClasses) -> Any:
    """Return the Python value of a data frame's value in Arrow's form; other Python values are unchanged.

    Args:
        value: The value in the data frame.
        classes: The classes that it may name, beside plain types.

    Raises:
        UntrustedClassError: It names another class.
        UnsupportedOperationError: Its class cannot be imported, or does not accept the parts.

    Example:
        >>> from penstock._engine.state.files.trust import AllowedClasses
        >>> restored(plain(("a", {1: UUID(int=2)})), AllowedClasses.of([]))
        ('a', {1: UUID('00000000-0000-0000-0000-000000000002')})
    """
    kind = cast("type[Any]", type(value))
    if kind is dict:
        return _restored_struct(value, classes)
    if kind is list:
        return [restored(item, classes) for item in value]
    if kind is bytearray:  # Spark's form of bytes
        return bytes(value)
    return _restored_struct(value.asDict(True), classes) if kind.__module__.startswith("pyspark.") else value


def as_read(value: Any) -> Any:
    """Return what `restored` makes this very value of: itself, unless it would be taken for the struct of another.

    Example:
        >>> as_read({"a": 1}), as_read({"_1": 1})
        ({'a': 1}, {'_python': 'dict["_1"]', '_1': 1})
    """
    return plain(value, exact=1) if _is_mistaken(value) else value


def _is_mistaken(value: Any) -> bool:
    if type(value) is list:
        return any(map(_is_mistaken, cast("list[Any]", value)))
    if type(value) is not dict:
        return type(value) is bytearray or is_array(value)
    parts = cast("dict[Any, Any]", value)
    names = list(parts)
    return PYTHON in parts or bool(names and names == _numbers(names)) or any(map(_is_mistaken, parts.values()))


def _restored_struct(struct: dict[Any, Any], classes: AllowedClasses) -> Any:
    mark = struct.get(PYTHON)
    if isinstance(mark, str):
        try:
            return _restored_marked(mark, struct, classes)
        except UntrustedClassError:
            raise
        except Exception as error:  # of a user's class
            reason = (
                f"a value of it was a {mark.partition('[')[0]}, and cannot be one here ({type(error).__name__}: "
                f"{error}). Let its class be where it was, or take another column for keys or values"
            )
            raise UnsupportedOperationError("A data frame as state", reason) from error
    parts = {name: restored(part, classes) for name, part in struct.items() if name != PYTHON}
    names = list(parts)
    return tuple(parts.values()) if names and names == _numbers(names) else parts


def _restored_marked(mark: str, struct: dict[str, Any], classes: AllowedClasses) -> Any:
    head, bracket, names = mark.partition("[")
    listed: list[Any] = json.loads(bracket + names) if bracket else []
    if head.startswith("Row"):
        return _restored_row(head, listed, struct, classes)
    if listed and head == "tuple":
        return tuple(restored(struct[f"_{number}"], classes) for number in range(1, listed[0] + 1))
    if bracket:
        return {name: restored(struct[name], classes) for name in listed}
    build = _BUILDERS.get(head)
    if build is not None:
        return build(struct, classes)
    classes.check(head)  # before it is imported
    return _restored_object(class_named(head), struct, classes)


def _restored_row(head: str, listed: list[Any], struct: dict[str, Any], classes: AllowedClasses) -> Row:
    kind = next(kind for kind in RowKind if str(kind) == head.removeprefix("Row"))
    is_named = not (listed and isinstance(listed[0], int))
    names = listed if is_named else [f"_{number}" for number in range(1, listed[0] + 1)]
    return make_row(list(names) if is_named else None, [restored(struct[name], classes) for name in names], kind)


def _restored_object(kind: Any, struct: dict[str, Any], classes: AllowedClasses) -> Any:
    """Return an object of a user's class."""
    if issubclass(kind, Flag):
        return kind(restored(struct["value"], classes))
    if issubclass(kind, Enum):
        return kind[struct["name"]]
    if issubclass(kind, tuple):
        names: Any = cast("Any", kind)._fields
        new: Any = tuple
        return new.__new__(kind, [restored(struct[name], classes) for name in names])
    if issubclass(kind, (dict, list)):
        return cast("Any", kind)(_pairs(struct, classes) if issubclass(kind, dict) else _items_of(struct, classes))
    base: Any = next((base for base in _BARE if issubclass(kind, base)), None)
    if base is not None:
        value = restored(struct["value"], classes)
        return kind(value) if base is bytearray else base.__new__(kind, value)
    return _restored_dataclass(kind, struct, classes)


def _restored_dataclass(kind: Any, struct: dict[str, Any], classes: AllowedClasses) -> Any:
    made = object.__new__(kind)
    for field in dataclasses.fields(kind):
        object.__setattr__(made, field.name, restored(struct[field.name], classes))
    return made


def _items_of(struct: dict[str, Any], classes: AllowedClasses) -> list[Any]:
    return [restored(item, classes) for item in struct["items"]]


def _pairs(struct: dict[str, Any], classes: AllowedClasses) -> dict[Any, Any]:
    pairs = map(_as_dict, struct["items"])
    return {restored(pair["key"], classes): restored(pair["value"], classes) for pair in pairs}


def _as_dict(item: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", item if isinstance(item, dict) else item.asDict(True))  # Spark's own row


def _moment(struct: dict[str, Any], _: AllowedClasses) -> datetime:
    at: datetime = struct["at"]  # without a zone it is local time, as Spark gives it
    return at.astimezone(timezone(struct["offset"]) if struct["offset"] else UTC)


def _array(struct: dict[str, Any], classes: AllowedClasses) -> Any:
    import numpy

    return numpy.array(restored(struct["items"], classes), dtype=struct["dtype"])


#: By the Python type in a struct.
_BUILDERS: Final[dict[str, Callable[[dict[str, Any], AllowedClasses], Any]]] = {
    "int": lambda struct, _: int(struct["text"]),
    "float": lambda struct, _: float(struct["text"]),
    "bool": lambda struct, _: struct["text"] == "True",
    "Decimal": lambda struct, _: Decimal(struct["text"]),
    "dict": _pairs,
    "frozenset": lambda struct, classes: frozenset(_items_of(struct, classes)),
    "set": lambda struct, classes: set(_items_of(struct, classes)),
    "datetime": _moment,
    "time": lambda struct, _: time.fromisoformat(struct["text"]),
    "UUID": lambda struct, _: UUID(struct["text"]),
    "Fraction": lambda struct, _: Fraction(struct["text"]),
    "complex": lambda struct, _: complex(struct["real"], struct["imag"]),
    "numpy.ndarray": _array,
}
