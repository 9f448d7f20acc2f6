"""What a sort of partitions orders records by: a field, or the result of a key selector.

None and NaN come behind all other values, NaN before None; with `nulls_first` they come before them, None before NaN.
That does not depend on the direction. It also holds for the parts of a tuple.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter, lt
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from penstock.common.order import Order
from penstock.common.record_fields import named_position
from penstock.common.types import Row, field_names
from penstock.common.user_values import short_repr
from penstock.errors import FieldError, SortOrderError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The places of values, NaN and None, if None is last.
VALUES, NANS, NONES = 0, 1, 2
#: Types of keys that are neither None nor NaN.
_PLAIN: Final = ({int}, {str}, {bytes}, {bool})


class SortKeys:
    """Extracts from records what they are sorted by.

    Args:
        field: The position or the name of a field, or a key selector.
        order: The direction.
        nulls_first: Whether None and NaN come first.
    """

    def __init__(self, field: Any, order: Order, *, nulls_first: bool) -> None:
        self.field = field
        self.is_descending = order is Order.DESCENDING
        self._sign = -1 if nulls_first else 1
        self._select: Callable[[Any], Any] | None = None
        if not isinstance(field, (int, str)):
            self._select = getattr(field, "get_key", field)
        #: Tells whether a record is of the first one's kind; and the getter of the field.
        self._kind: tuple[str, Callable[[Any], Any]] | None = None

    def group(self, place: int) -> int:
        """Return where values, NaN or None stand."""
        return self._sign * place

    def of(self, records: list[Any], iterate: Callable[[list[Any]], Any], operator: str) -> list[Any]:
        """Return the key of each record.

        Args:
            records: The records.
            iterate: Returns an iterator over records that knows which one is at work.
            operator: The name of the operator.

        Raises:
            FieldError: A record does not have the field, or is of another kind than those before it.
        """
        if self._select is not None:
            select = self._select
            return [select(record) for record in iterate(records)]
        if self._kind is None:
            kind = self._kind_of(records[0])
            if not kind:
                raise self._misfit(operator, records[0], "it is neither a tuple, a list nor a Row")
            self._kind = kind, self._getter(records[0])
        kind, get = self._kind
        for known in set(map(type, records)):
            other = next(record for record in records if type(record) is known)
            if self._kind_of(other) != kind:
                raise self._misfit(operator, other, f"it is not one of {kind}, as the records before are")
        try:
            return [get(record) for record in iterate(records)]
        except (IndexError, KeyError, AttributeError, TypeError, ValueError) as error:
            wrong = next(record for record in records if not _has(get, record))
            raise self._misfit(operator, wrong, "it has no such field") from error

    def split(self, keys: list[Any]) -> list[tuple[int, list[int] | None]]:
        """Return the groups of keys: where each one stands, and the positions of its keys; None for all of them."""
        kinds = set(map(type, keys))
        if kinds in _PLAIN:
            return [(VALUES, None)]
        if type(None) not in kinds and (tuple in kinds or not any(key != key for key in keys)):  # noqa: PLR0124
            return [(VALUES, None)]
        groups: dict[int, list[int]] = {}
        for place, key in enumerate(keys):
            groups.setdefault(place_of(key), []).append(place)
        return [(self.group(found), places) for found, places in groups.items()]

    def ranks(self, keys: Sequence[Any]) -> Sequence[Any]:
        """Return what orders keys that are values."""
        sign = -self._sign if self.is_descending else self._sign
        return [_rank(key, sign) if _is_tuple(key) else key for key in keys]

    def _kind_of(self, record: Any) -> str:
        """Return the name of a record's kind, an empty one if it has no such fields."""
        if isinstance(record, Row):
            return "the Rows" if isinstance(self.field, int) or field_names(record) else "the Rows without names"
        if isinstance(record, dict) and isinstance(self.field, str):
            return "the dicts"
        if isinstance(self._field_of(record), str):
            return "the objects with attributes"
        return "the tuples" if isinstance(record, tuple) else "the lists" if isinstance(record, list) else ""

    def _getter(self, record: Any) -> Callable[[Any], Any]:
        field = self._field_of(record)
        return itemgetter(field) if isinstance(field, int) or isinstance(record, (Row, dict)) else attrgetter(field)

    def _field_of(self, record: Any) -> int | str:
        """Return the field in a record: the name fN is the position N where records have no names, as in Flink."""
        if not isinstance(self.field, str) or isinstance(record, dict) or hasattr(record, self.field):
            return self.field
        nameless = not field_names(record) if isinstance(record, Row) else isinstance(record, (tuple, list))
        position = named_position(self.field) if nameless else None
        return self.field if position is None else position

    def _misfit(self, operator: str, record: Any, reason: str) -> FieldError:
        known = field_names(record) if isinstance(record, Row) else None
        told = f"{reason}; it has {', '.join(map(str, known))}" if known else reason
        return FieldError(repr(operator), repr(self.field), short_repr(record), told)


def place_of(key: Any) -> int:
    """Return whether a key is a value, NaN or None."""
    if key is None:
        return NONES
    return NANS if not isinstance(key, tuple) and key != key else VALUES  # noqa: PLR0124 - only NaN differs from itself


def _rank(key: tuple[Any, ...], sign: int) -> tuple[Any, ...]:
    """Return a tuple as one in which None and NaN can be compared."""
    return tuple(
        (0, _rank(part, sign) if _is_tuple(part) else part) if not (place := place_of(part)) else (sign * place, 0)
        for part in key
    )


def _is_tuple(key: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(key, tuple)


def refuse_incomparable(operator: str, ranks: Sequence[Any], error: TypeError) -> None:
    """Raise for the first two ranks that cannot be compared; return if all can.

    Raises:
        SortOrderError: Two ranks cannot be compared.
    """
    for rank in ranks:
        try:
            lt(rank, ranks[0])
        except TypeError:
            raise SortOrderError(operator, (short_repr(ranks[0]), short_repr(rank)), str(error)) from error


def _has(get: Callable[[Any], Any], record: Any) -> bool:
    try:
        get(record)
    except Exception:  # noqa: BLE001 - whatever it is, it has no such field
        return False
    return True
