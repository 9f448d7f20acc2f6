"""Converts records to a declared type, or refuses them.

If a program declares a type, every value is converted to it. A value of the type passes. A value that PyFlink's coders
would turn into the type is converted (an int to a float, a dict or an unnamed Row to a Row with names). Any other value
is an error that names the operator and the value. A type that changes no value has no conversion, and costs nothing;
other conversions are compiled once, and work on blocks of records.
"""

from __future__ import annotations

import operator
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

from penstock.common._conversion.checked import TypeMismatchError, shown
from penstock.common._conversion.exact import (
    RANGE_FUNCTIONS,
    quick_arguments,
    quick_check,
    quick_one,
    quick_result,
    ranges_check,
    row_names,
    shape_and_ranges,
)
from penstock.common._conversion.values import Converter, converter
from penstock.common._typeinfo.base import identity
from penstock.common.copies import all_immutable
from penstock.common.typeinfo import PickledBytesTypeInfo, RowTypeInfo, TupleTypeInfo
from penstock.common.user_values import short_repr
from penstock.errors import DeclaredTypeError

__all__ = ["Conversion", "conversion", "range_functions", "taking"]

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from penstock.common.typeinfo import TypeInformation


def range_functions() -> dict[str, Any]:
    """Return the functions that the conditions of `Conversion.ranges` call, by name."""
    return dict(RANGE_FUNCTIONS)


class Conversion:
    """Converts values to a type.

    Args:
        type_info: The type.
        convert: Converts one value.
        declared_by: The place of the declaration, such as ``The output of 'Map'``.
    """

    def __init__(self, type_info: TypeInformation, convert: Converter, declared_by: str) -> None:
        self._type_info = type_info
        self._convert = convert
        self._declared_by = declared_by
        #: Returns a value converted to the type, or raises DeclaredTypeError.
        self.value: Callable[[Any], Any] = quick_one(type_info, self._converted)
        self._quick = quick_check(type_info)
        #: The shape of records of the type, see `shape_and_ranges`, and the further conditions on their parts.
        self.shape: Any
        self.ranges: tuple[str, ...]
        self.shape, self.ranges = shape_and_ranges(type_info)
        self._in_ranges = (
            ranges_check(self.ranges)
            if isinstance(type_info, TupleTypeInfo) and self.shape and any(self.ranges)
            else None
        )
        self._slow = row_names(type_info, convert) if isinstance(type_info, RowTypeInfo) else self._one_by_one

    def _converted(self, value: Any) -> Any:
        try:
            return self._convert(value)
        except TypeMismatchError as error:
            self._refuse(value, error)

    def result_of(self, call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """Return a function of two arguments that returns the result of another one as `value` does."""
        return self._result_of(call)

    @cached_property
    def _result_of(self) -> Callable[[Any], Any]:
        return quick_result(self._type_info, self._converted)

    @cached_property
    def is_fixed(self) -> bool:
        """Whether no value of the type can change: all are immutable, or tuples of such."""
        kinds: Any = self.shape if isinstance(self._type_info, TupleTypeInfo) else (self.shape,)
        return self.shape is not None and all_immutable(kinds)

    @property
    def quick_part(self) -> tuple[TypeInformation, Converter]:
        """What `taking` is made of."""
        return self._type_info, self._converted

    def quick(self, records: list[Any], shape: Any = None) -> list[Any] | None:
        """Return records converted to the type, None where one by one has to be looked at.

        Args:
            records: The records.
            shape: The shape of all of them, where it is known: the common type, or the types of the fields of tuples.
        """
        if shape is None or shape != self.shape or (self._in_ranges is None and any(self.ranges)):
            return self._quick(records)  # in C for single values
        return records if self._in_ranges is None or self._in_ranges(records) else None

    def block(
        self, records: list[Any], iterate: Callable[[list[Any]], Iterator[Any]] = iter, shape: Any = None
    ) -> list[Any]:
        """Return records converted to the type; the same list if they have it already.

        Args:
            records: The records.
            iterate: Returns an iterator over them whose position can be read later.
            shape: As for `quick`.

        Raises:
            DeclaredTypeError: One of them does not fit the type.
        """
        converted = self.quick(records, shape)
        if converted is not None:
            return converted
        cursor: Any = iterate(records)
        try:
            return self._slow(cursor)
        except TypeMismatchError as error:
            self._refuse(records[len(records) - cursor.__length_hint__() - 1], error)

    def distinct(self, keys: list[Any], normal: Callable[[Any], Hashable]) -> list[Any]:
        """Return keys converted to the type, no two of which are one after that.

        Args:
            keys: The keys of a map, no two of which are one before.
            normal: Returns what is equal for equal keys.

        Raises:
            DeclaredTypeError: One of them does not fit the type, or two become one.
        """
        converted = self.block(keys)
        if not all(map(operator.is_, keys, converted)) and len(set(map(normal, converted))) < len(keys):
            self._refuse(keys, TypeMismatchError(f"{shown(keys)} has two keys that are one in the type"))
        return converted

    def check_key(self, key: Any) -> None:
        """Check that the type holds a key that has its place already.

        Raises:
            DeclaredTypeError: It does not fit the type, or another key would become of it.
        """
        converted = self.value(key)
        if converted is not key and converted != key:
            self._refuse(key, TypeMismatchError(f"{shown(key)} would become another key, {shown(converted)}"))

    def _one_by_one(self, records: Iterable[Any]) -> list[Any]:
        convert = self._convert
        return [convert(record) for record in records]

    def _refuse(self, value: Any, error: TypeMismatchError) -> NoReturn:
        shown = short_repr(value)
        raise DeclaredTypeError(self._declared_by, repr(self._type_info), shown, error.path, error.reason) from None


def taking(call: Callable[..., Any], *held: Conversion | None) -> Callable[..., Any]:
    """Return a function that converts its arguments, and passes them on.

    Args:
        call: The function that gets them.
        held: The conversion of each argument; None for one that is passed on as it is.
    """
    return _taking(held)(call) if any(held) else call


@lru_cache(1000)
def _taking(held: tuple[Conversion | None, ...]) -> Callable[[Any], Any]:
    return quick_arguments([None if one is None else one.quick_part for one in held])


def conversion(type_info: TypeInformation | None, declared_by: str) -> Conversion | None:
    """Return the conversion to a type; None if the type is missing or changes no value.

    Args:
        type_info: The declared type, or None where none was declared.
        declared_by: The place of the declaration, for errors.

    Example:
        >>> from penstock.common.typeinfo import Types
        >>> scores = Types.ROW_NAMED(["id", "score"], [Types.INT(), Types.DOUBLE()])
        >>> rows = conversion(scores, "The output of 'Map'")
        >>> rows.block([{"id": 1, "score": 2}])
        [Row(id=1, score=2.0)]
        >>> conversion(Types.PICKLED_BYTE_ARRAY(), "The output of 'Map'") is None
        True
    """
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return None
    key = identity(type_info), declared_by
    if key not in _made:
        if len(_made) >= _MOST_KEPT:
            _made.clear()
        convert = converter(type_info)
        _made[key] = None if convert is None else Conversion(type_info, convert, declared_by)
    return _made[key]


#: Conversions by type and place of declaration, because functions may get their state with each call.
_made: dict[tuple[Hashable, str], Conversion | None] = {}
_MOST_KEPT: Final = 1000
