"""List state over a value state: the list of a key is one value, written anew by an epoch that has changed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.state.kinds import ListState
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._engine.state.value_state import StoredValueState


class StoredListState(ListState[Any]):
    """One list per key.

    Args:
        stored: Has the list of the current key.
    """

    __slots__ = ("_stored",)

    def __init__(self, stored: StoredValueState) -> None:
        self._stored = stored

    def get(self) -> list[Any]:
        # A copy: what is done to it is not done to the state.
        return list(self._stored.value() or ())

    def add(self, value: Any) -> None:
        self.add_all([value])

    def add_all(self, values: list[Any]) -> None:
        _check(values)
        if values:
            present: list[Any] | None = self._stored.value()
            if present is None:
                self._stored.update(list(values))
            else:
                present += values
                self._stored.update(present)

    def update(self, values: list[Any]) -> None:
        _check(values)
        self._stored.update(list(values) or None)

    def clear(self) -> None:
        self._stored.clear()


def _check(values: list[Any]) -> None:
    if any(value is None for value in values):
        raise UnsupportedOperationError("None in a ListState", "as in Flink, a list holds no None; leave it out")
