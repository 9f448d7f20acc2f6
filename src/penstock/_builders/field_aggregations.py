"""Aggregations of a keyed stream by one field of its records."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from penstock._builders.aggregations import Max, MaxBy, Min, MinBy, Sum
from penstock._builders.declared_fields import check_field

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._api.functions.basic import ReduceFunction
    from penstock._builders.stream import DataStream

T = TypeVar("T")


class FieldAggregations(Generic[T]):
    """Rolling aggregations of one field of a keyed stream: sums, minima and maxima."""

    @abstractmethod
    def _reduce(self, name: str, func: object) -> DataStream[T]:
        """Fold the records of each key with a function."""

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T]:
        """Add up a field of the records of each key; the other fields stay those of the key's first record.

        Args:
            position_to_sum: The field's index, or its name in a Row. For records that are plain numbers, 0.
        """
        return self._aggregate("Sum", Sum, position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream[T]:
        """Find the smallest value of a field for each key; the other fields stay those of the key's first record.

        NaN counts as greater than all other values, in whatever order the records come.

        Args:
            position_to_min: The field's index, or its name in a Row. For records without fields, 0.
        """
        return self._aggregate("Min", Min, position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream[T]:
        """Find the greatest value of a field for each key; the other fields stay those of the key's first record.

        NaN counts as greater than all other values, in whatever order the records come.

        Args:
            position_to_max: The field's index, or its name in a Row. For records without fields, 0.
        """
        return self._aggregate("Max", Max, position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T]:
        """Find the record with the smallest value of a field for each key; of equal ones the first.

        NaN counts as greater than all other values, in whatever order the records come.

        Args:
            position_to_min_by: The field's index, or its name in a Row. For records without fields, 0.
        """
        return self._aggregate("MinBy", MinBy, position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T]:
        """Find the record with the greatest value of a field for each key; of equal ones the first.

        NaN counts as greater than all other values, in whatever order the records come.

        Args:
            position_to_max_by: The field's index, or its name in a Row. For records without fields, 0.
        """
        return self._aggregate("MaxBy", MaxBy, position_to_max_by)

    def _aggregate(
        self, name: str, function: Callable[[int | str], ReduceFunction[Any]], position: int | str
    ) -> DataStream[T]:
        check_field(name, position, cast("DataStream[T]", self)._declared_type())
        return self._reduce(name, function(position))
