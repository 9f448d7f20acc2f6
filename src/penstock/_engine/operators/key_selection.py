"""The keys of records: selected by the program's function, and converted to their declared type in blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock._api.functions.held import HeldKey
from penstock._engine.protocol.keys import encode_key
from penstock.common.copies import any_may_change, copy_if_mutable
from penstock.common.user_values import short_repr
from penstock.errors import UnstableKeyError

if TYPE_CHECKING:
    from collections.abc import Callable

_QUICK: Final = frozenset({str, int})


class KeySelection:
    """Selects keys; where they have a declared type, each is one of it.

    Args:
        selector: The key selector, a function or an object; it is opened before the first record.
    """

    __slots__ = ("_typed", "one", "select")

    def __init__(self, selector: Any) -> None:
        #: Returns the key of a record.
        self.one: Callable[[Any], Any] = getattr(selector, "get_key", selector)
        self._typed = selector if isinstance(selector, HeldKey) else None
        #: Returns the key of a record as the program's function gives it, before it is converted.
        self.select: Callable[[Any], Any] = self.one if self._typed is None else self._typed.select

    def of(self, records: list[Any], iterate: Callable[[list[Any]], Any] = iter) -> list[Any]:
        """Return the keys of records; these may be one mutable object for all of them, see `owned`.

        Args:
            records: The records.
            iterate: Returns the iterator over the records, see `CurrentRecord`.
        """
        select = self.select
        keys = [select(record) for record in iterate(records)]  # not map(): it takes a StopIteration for the end
        if self._typed is None:
            return keys
        converted = self._typed.held.quick(keys)
        if converted is not None and (self._typed.held.is_fixed or not any_may_change(converted)):
            return converted
        one = self.one
        return [one(record) for record in iterate(records)]

    def owned(self, records: list[Any], iterate: Callable[[list[Any]], Any] = iter) -> list[Any]:
        """Return keys of which each is an object of its own: one may be a part of its record, or the next one."""
        one = self.one
        return [copy_if_mutable(one(record)) for record in iterate(records)]

    def refuse_unstable(self, record: Any, operator: str) -> None:
        """Ask for the key of a record twice.

        Args:
            record: The record, the first one of a batch: to ask twice for each would take too long.
            operator: The name of the operator that gets the records.

        Raises:
            UnstableKeyError: The keys are not equal.
        """
        first = copy_if_mutable(self.one(record))
        again = self.one(record)
        if type(first) is type(again) in _QUICK and first == again:
            return
        if encode_key(first) != encode_key(again):
            raise UnstableKeyError(operator, short_repr(record), (short_repr(first), short_repr(again)))
