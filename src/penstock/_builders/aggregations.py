"""The functions behind sum, min, max, min_by, max_by and project; tasks load this module."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar, cast

from penstock._api.functions.basic import ReduceFunction
from penstock.common.record_fields import missing_field
from penstock.common.types import Row, field_names, make_row
from penstock.common.user_values import short_repr
from penstock.errors import AggregationError, FieldError


class _FieldAggregate(ReduceFunction[Any]):
    """Reduces by one field of a record: an index, a name, or 0 for a record that is no tuple, list or Row."""

    #: Its name in the program.
    call: ClassVar[str]

    def __init__(self, position: int | str) -> None:
        self._position = position

    def field(self, value: Any) -> Any:
        """Return the field of a record.

        Raises:
            FieldError: The record does not have it.
        """
        record: Any = value
        if isinstance(value, Row) or (isinstance(value, (tuple, list)) and isinstance(self._position, int)):
            try:
                return record[self._position]
            except (LookupError, AttributeError, ValueError):
                raise self._missing(record) from None
        if isinstance(value, (tuple, list)) or self._position != 0:
            raise self._missing(record)
        return record

    def with_field(self, value: Any, field: Any) -> Any:
        """Return a record like this one with another value in the field."""
        if isinstance(value, Row):
            names = field_names(value)
            fields: list[Any] = list(value)
            fields[self._index(names)] = field
            return make_row(names, tuple(fields), value.get_row_kind())
        if isinstance(value, (tuple, list)):
            changed = list(cast("list[Any]", value))
            changed[cast("int", self._position)] = field
            return changed if isinstance(value, list) else _same_kind(cast("tuple[Any, ...]", value), changed)
        return field

    def refusal(self, one: Any, other: Any) -> AggregationError:
        """Return the error for two values that this aggregation cannot combine."""
        return AggregationError(self.call, repr(self._position), (short_repr(one), short_repr(other)))

    def _missing(self, value: object) -> FieldError:
        return missing_field(f"{self.call}({self._position!r})", self._position, value)

    def _index(self, names: list[str] | None) -> int:
        return self._position if isinstance(self._position, int) else (names or []).index(self._position)


def _same_kind(original: tuple[Any, ...], fields: list[Any]) -> tuple[Any, ...]:
    make = getattr(original, "_make", None)  # a named tuple stays one
    return tuple(fields) if make is None else make(fields)


class Sum(_FieldAggregate):
    """The first record with the sum of the field."""

    call = "sum"

    def reduce(self, value1: Any, value2: Any) -> Any:
        total, field = self.field(value1), self.field(value2)
        try:
            total = total + field
        except (TypeError, ArithmeticError):
            raise self.refusal(total, field) from None
        return self.with_field(value1, total)


class _Extreme(_FieldAggregate):
    """Orders values as Python does; NaN, which Python does not order, is the greatest value, as in Java."""

    def comes_before(self, one: Any, other: Any) -> bool:
        """Tell whether a value is less than another one."""
        try:
            if one < other:
                return True
            return bool(other != other and one == one)  # noqa: PLR0124 - only NaN differs from itself
        except ArithmeticError:  # a comparison of decimals with NaN raises
            return _is_nan(other) and not _is_nan(one)
        except (TypeError, ValueError):
            raise self.refusal(one, other) from None


def _is_nan(value: Any) -> bool:
    return value.is_nan() if isinstance(value, Decimal) else bool(value != value)  # noqa: PLR0124


class Min(_Extreme):
    """The first record with the smallest value of the field."""

    call = "min"

    def reduce(self, value1: Any, value2: Any) -> Any:
        least, field = self.field(value1), self.field(value2)
        return self.with_field(value1, field if self.comes_before(field, least) else least)


class Max(_Extreme):
    """The first record with the greatest value of the field."""

    call = "max"

    def reduce(self, value1: Any, value2: Any) -> Any:
        greatest, field = self.field(value1), self.field(value2)
        return self.with_field(value1, field if self.comes_before(greatest, field) else greatest)


class MinBy(_Extreme):
    """The record with the smallest value of the field, the first one of several."""

    call = "min_by"
    combinable = False

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value2 if self.comes_before(self.field(value2), self.field(value1)) else value1


class MaxBy(_Extreme):
    """The record with the greatest value of the field, the first one of several."""

    call = "max_by"
    combinable = False

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value2 if self.comes_before(self.field(value1), self.field(value2)) else value1


class Projection:
    """Some fields of a tuple, in the given order."""

    def __init__(self, indexes: tuple[int, ...]) -> None:
        self._indexes = indexes

    def __call__(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([value[index] for index in self._indexes])
