"""Aggregating state over a value: the accumulator of all added values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.functions.wrong_results import refuse_none
from penstock._api.state.kinds import AggregatingState, AggregatingStateDescriptor
from penstock._engine.state.kinds.folding import FoldedState, FoldingKind
from penstock._engine.state.kinds.value import StoredValueState, value_in
from penstock._engine.state.table import ABSENT
from penstock.common.copies import copy_if_mutable, may_change

if TYPE_CHECKING:
    from penstock._engine.state.kinds.kind import StateScope


class AggregatingKind(FoldingKind[AggregatingStateDescriptor]):
    """One accumulator per key."""

    name = "aggregating"
    descriptor = AggregatingStateDescriptor

    def state(self, descriptor: AggregatingStateDescriptor, scope: StateScope) -> AggregatingState[Any, Any]:
        return StoredAggregatingState(value_in(scope), descriptor, scope.operator)


class StoredAggregatingState(FoldedState, AggregatingState[Any, Any]):
    """One accumulator per key; the accumulator may be None.

    Args:
        stored: The stored accumulators.
        descriptor: Declares the function and the type of accumulators.
        operator: The operator's name, for errors.
    """

    __slots__ = ("_function",)

    def __init__(self, stored: StoredValueState, descriptor: AggregatingStateDescriptor, operator: str) -> None:
        super().__init__(stored, descriptor, operator)
        self._function: Any = descriptor.get_agg_function()

    def get(self) -> Any:
        accumulator = self._stored.row()
        return None if accumulator is ABSENT else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        before = self._stored.held()
        if before is ABSENT:
            before = copy_if_mutable(self._function.create_accumulator())
        after = self._function.add(value, before)
        if after is None and may_change(before):
            refuse_none(self._function.add, before, value)
        after = after if after is before else copy_if_mutable(after)
        self._stored.keep(after if self._held is None else self._held.value(after))

    def _merge(self, more: Any) -> None:
        held = self._stored.held()
        self._stored.keep(more if held is ABSENT else copy_if_mutable(self._function.merge(held, more)))
