"""The functions behind sum, min, max, min_by, max_by and project; tasks load this module."""

from __future__ import annotations

from typing import Any, cast

from penstock.common.types import Row, field_names, make_row
from penstock.datastream.functions import ReduceFunction


class _FieldAggregate(ReduceFunction):
    """Reduces by one field of a record: an index, a name, or 0 for a record that is no tuple, list or Row."""

    def __init__(self, position: int | str) -> None:
        self._position = position

    def field(self, value: Any) -> Any:
        """Return the field of a record.

        Raises:
            TypeError: The record has no such kind of field.
        """
        if isinstance(value, Row) or (isinstance(value, (tuple, list)) and isinstance(self._position, int)):
            return cast("Any", value)[self._position]
        if isinstance(value, (tuple, list)) or self._position != 0:
            msg = f"The field {self._position!r} was asked of {value!r}, which has no such field."
            raise TypeError(msg)
        return value

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

    def _index(self, names: list[str] | None) -> int:
        return self._position if isinstance(self._position, int) else (names or []).index(self._position)


def _same_kind(original: tuple[Any, ...], fields: list[Any]) -> tuple[Any, ...]:
    make = getattr(original, "_make", None)  # a named tuple stays one
    return tuple(fields) if make is None else make(fields)


class Sum(_FieldAggregate):
    """The first record with the sum of the field."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return self.with_field(value1, self.field(value1) + self.field(value2))


class Min(_FieldAggregate):
    """The first record with the smallest value of the field."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return self.with_field(value1, min(self.field(value1), self.field(value2)))


class Max(_FieldAggregate):
    """The first record with the greatest value of the field."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return self.with_field(value1, max(self.field(value1), self.field(value2)))


class MinBy(_FieldAggregate):
    """The record with the smallest value of the field, the first one of several."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value2 if self.field(value2) < self.field(value1) else value1


class MaxBy(_FieldAggregate):
    """The record with the greatest value of the field, the first one of several."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value2 if self.field(value2) > self.field(value1) else value1


class Projection:
    """Some fields of a tuple, in the given order."""

    def __init__(self, indexes: tuple[int, ...]) -> None:
        self._indexes = indexes

    def __call__(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([value[index] for index in self._indexes])
