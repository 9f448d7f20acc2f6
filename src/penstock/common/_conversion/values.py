"""Converts a value to a declared type: to itself, to an equal value of the type's class, or to an error.

Single values follow the rules that formats have, see `checked`; this module has those of values made of others. Nothing
here is called for records that are of their type already; see `exact`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias, cast

from penstock.common._conversion.checked import CHECKS, TypeMismatchError, refuse, shown
from penstock.common._conversion.row_values import elements_of, is_array, values_of
from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.common.types import Row, RowKind, field_names, make_row

Converter: TypeAlias = Callable[[Any], Any]
"""Takes a value, perhaps None, and returns it as its type has it; raises TypeMismatchError."""


def converter(type_info: TypeInformation | None) -> Converter | None:
    """Return the converter of values to a type; None if every value has the type."""
    match type_info:
        case TypeInformation() if type_info in CHECKS:  # of the arrays, those of bytes
            convert = CHECKS[type_info]
        case RowTypeInfo():
            convert = _row(type_info)
        case TupleTypeInfo():
            convert = _tuple(type_info)
        case PrimitiveArrayTypeInfo():
            convert = _list(_not_none(converter(type_info.elem_type)))
        case ListTypeInfo() | BasicArrayTypeInfo() | ObjectArrayTypeInfo():
            convert = _list(converter(type_info.elem_type))
        case MapTypeInfo():
            convert = _map(_not_none(converter(type_info.key_type)), converter(type_info.value_type))
        case _:
            return None
    return lambda value: None if value is None else convert(value)


def _not_none(convert: Converter | None) -> Converter | None:
    """Return a converter that refuses None, as for Java's primitive types and for keys."""
    if convert is None:
        return None

    def present(value: Any) -> Any:
        if value is None:
            refuse(value, "has no place here")
        return convert(value)

    return present


def _parts(converters: Iterable[Converter | None], values: Iterable[Any], step: Callable[[int], str]) -> list[Any]:
    """Return the values of some fields, each in its type; `step` returns the path of one."""
    parts: list[Any] = []
    try:
        for convert, value in zip(converters, values, strict=True):
            parts.append(value if convert is None else convert(value))
    except TypeMismatchError as error:
        raise error.within(step(len(parts))) from None
    return parts


def _same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return all(map(operator.is_, left, right))


def _list(convert: Converter | None) -> Converter:
    def shape(values: Any) -> list[Any]:
        items = list(_fitting(elements_of, values))
        parts = items if convert is None else _parts([convert] * len(items), items, "[{}]".format)
        return values if values.__class__ is list and _same(items, parts) else parts

    return shape


def _map(convert_key: Converter | None, convert_value: Converter | None) -> Converter:
    def shape(entries: Any) -> dict[Any, Any]:
        if not isinstance(entries, Mapping):
            refuse(entries, "is no dict")
        found = cast("Mapping[Any, Any]", entries)
        keys, values = list(found), [found[key] for key in found]
        new_keys = _parts([convert_key] * len(keys), keys, lambda place: f" key {shown(keys[place])}")
        new_values = _parts([convert_value] * len(keys), values, lambda place: f"[{shown(keys[place])}]")
        if found.__class__ is dict and _same(keys, new_keys) and _same(values, new_values):
            return cast("dict[Any, Any]", found)
        try:
            converted = dict(zip(new_keys, new_values, strict=True))
        except TypeError:
            refuse(entries, "has keys that become lists or dicts, and no dict has such keys")
        if len(converted) < len(keys):
            refuse(entries, "has two keys that are one in the type")
        return converted

    return shape


def _tuple(type_info: TupleTypeInfo) -> Converter:
    converters = [converter(field_type) for field_type in type_info.get_field_types()]

    def shape(value: Any) -> tuple[Any, ...]:
        values = tuple(cast("Iterable[Any]", value) if isinstance(value, Row) else _fitting(elements_of, value))
        if len(values) != len(converters):
            refuse(value, f"has {len(values)} fields in place of {len(converters)}")
        parts = _parts(converters, values, "[{}]".format)
        return values if value.__class__ is tuple and _same(values, parts) else tuple(parts)

    return shape


def _row(type_info: RowTypeInfo) -> Converter:
    names = type_info.get_field_names()
    converters = [converter(field_type) for field_type in type_info.get_field_types()]
    steps = [f".{name}" for name in names]

    def shape(value: Any) -> Row:
        is_row = isinstance(value, Row)
        values = _fitting(lambda given: values_of(given, names), value if is_row else _named(value, names))
        parts = _parts(converters, values, steps.__getitem__)
        if is_row and field_names(value) == names and _same(values, parts):
            return value
        return make_row(names, parts, value.get_row_kind() if is_row else RowKind.INSERT)

    return shape


def _named(value: Any, names: list[str]) -> Any:
    """Return a dataclass, a mapping or an object with attributes as a dict; anything else unchanged."""
    if value.__class__ in (dict, tuple, list):  # the most common ones
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, (dict, type)) or callable(value):
        return cast("Any", value)
    if callable(getattr(value.__class__, "keys", None)):  # such as a Series of pandas, and rows of databases
        return dict(value)
    hidden = getattr(value, "__dict__", None)
    if not hidden or is_array(value):
        return value
    own = {name for name in hidden if not name.startswith("_")}
    found = _attributes(value, own, names)
    # What shows no attribute of its own, such as an enum, is a row only if it has all properties that are asked for.
    return found if own or len(found) == len(names) > 0 else value


def _attributes(value: Any, own: set[str], names: list[str]) -> dict[str, Any]:
    """Return an object's own attributes, and those with the names of a type: properties, and values of its class."""
    found = {name: getattr(value, name) for name in (*own, *names) if hasattr(value, name)}
    return {name: attribute for name, attribute in found.items() if name in own or not callable(attribute)}


def _fitting(parts_of: Callable[[Any], Iterable[Any]], value: Any) -> Any:
    try:
        return parts_of(value)
    except ValueError as error:
        raise TypeMismatchError(str(error)) from None
