"""Reducing state over a value: the result of a reduce function over all added values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.functions.wrong_results import refuse_none
from penstock._api.state.kinds import ReducingState, ReducingStateDescriptor
from penstock._engine.state.kinds.folding import FoldedState, FoldingKind
from penstock._engine.state.kinds.value import value_in
from penstock._engine.state.table import ABSENT
from penstock.common.copies import copy_if_mutable, may_change

if TYPE_CHECKING:
    from penstock._engine.state.kinds.kind import StateScope
    from penstock._engine.state.kinds.value import StoredValueState


class ReducingKind(FoldingKind[ReducingStateDescriptor]):
    """One value per key, to which a function adds."""

    name = "reducing"
    descriptor = ReducingStateDescriptor

    def state(self, descriptor: ReducingStateDescriptor, scope: StateScope) -> ReducingState[Any]:
        return StoredReducingState(value_in(scope), descriptor, scope.operator)


class StoredReducingState(FoldedState, ReducingState[Any]):
    """One value per key, to which a function adds.

    Args:
        stored: The stored values.
        descriptor: Declares the function and the type of values.
        operator: The operator's name, for errors.
    """

    __slots__ = ("_reduce",)

    def __init__(self, stored: StoredValueState, descriptor: ReducingStateDescriptor, operator: str) -> None:
        super().__init__(stored, descriptor, operator)
        self._reduce = descriptor.get_reduce_function().reduce

    def get(self) -> Any:
        return self._stored.value()

    def add(self, value: Any) -> None:
        before = self._stored.held()
        # A function may change and return its first argument, and may return one object for all keys.
        if before is ABSENT:
            after = value
        elif (after := self._reduce(before, value)) is None and may_change(before):
            refuse_none(self._reduce, before, value)
        after = after if after is before else copy_if_mutable(after)
        self._stored.update(after if self._held is None else self._held.value(after))

    def _merge(self, more: Any) -> None:
        self.add(more)
