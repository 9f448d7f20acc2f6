"""Reducing state over a value: what a reduce function has made of all that was added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.state.descriptors import ReducingStateDescriptor
from penstock._api.state.kinds import ReducingState
from penstock._engine.state.kinds.held import typed_value
from penstock._engine.state.kinds.kind import StateKind, StateScope
from penstock._engine.state.kinds.value import value_in
from penstock.common.copies import own

if TYPE_CHECKING:
    from penstock._api.state.kinds import ValueState


class ReducingKind(StateKind[ReducingStateDescriptor]):
    """One value per key, that a function adds to."""

    name = "reducing"
    descriptor = ReducingStateDescriptor

    def state(self, descriptor: ReducingStateDescriptor, scope: StateScope) -> ReducingState[Any]:
        return StoredReducingState(typed_value(value_in(scope), descriptor, scope.operator), descriptor)

    def merge(self, state: Any, others: list[Any]) -> None:
        for other in others:
            value = other.get()
            if value is not None:
                state.add(value)


class StoredReducingState(ReducingState[Any]):
    """One value per key, that a function adds to.

    Args:
        stored: Has the value of the current key.
        descriptor: Has the function.
    """

    __slots__ = ("_reduce", "_stored")

    def __init__(self, stored: ValueState[Any], descriptor: ReducingStateDescriptor) -> None:
        self._stored = stored
        self._reduce = descriptor.get_reduce_function().reduce

    def get(self) -> Any:
        return self._stored.value()

    def add(self, value: Any) -> None:
        before = self._stored.value()
        # A function may fold into its first argument, and return one object for all keys.
        after = value if before is None else self._reduce(before, value)
        self._stored.update(after if after is before else own(after))

    def clear(self) -> None:
        self._stored.clear()
