"""Aggregating state over a value: the accumulator of all added values."""

from __future__ import annotations

from typing import Any

from penstock._api.state.descriptors import AggregatingStateDescriptor
from penstock._api.state.kinds import AggregatingState
from penstock._engine.state.kinds.kind import StateKind, StateScope
from penstock._engine.state.kinds.value import StoredValueState, value_in
from penstock._engine.state.table import ABSENT
from penstock.common.conversion import conversion
from penstock.common.copies import own


class AggregatingKind(StateKind[AggregatingStateDescriptor]):
    """One accumulator per key."""

    name = "aggregating"
    can_expire = True
    descriptor = AggregatingStateDescriptor

    def state(self, descriptor: AggregatingStateDescriptor, scope: StateScope) -> AggregatingState[Any, Any]:
        return StoredAggregatingState(value_in(scope), descriptor, scope.operator)

    def merge(self, state: Any, others: list[Any]) -> None:
        for other in others:
            state.take(other)


class StoredAggregatingState(AggregatingState[Any, Any]):
    """One accumulator per key; the accumulator may be None.

    Args:
        stored: The stored accumulators.
        descriptor: Declares the function and the type of accumulators.
        operator: The operator's name, for errors.
    """

    __slots__ = ("_function", "_held", "_stored")

    def __init__(self, stored: StoredValueState, descriptor: AggregatingStateDescriptor, operator: str) -> None:
        self._stored = stored
        self._function: Any = descriptor.get_agg_function()
        self._held = conversion(descriptor.type_info, f"State {descriptor.get_name()!r} of {operator!r}")

    def get(self) -> Any:
        accumulator = self._stored.row()
        return None if accumulator is ABSENT else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        before = self._stored.held()
        if before is ABSENT:
            before = own(self._function.create_accumulator())
        after = self._function.add(value, before)
        after = after if after is before else own(after)
        self._stored.keep(after if self._held is None else self._held.value(after))

    def take(self, other: StoredAggregatingState) -> None:
        """Merge the accumulator of another state into this one."""
        held, more = self._stored.held(), other._stored.held()
        if more is not ABSENT:
            self._stored.keep(more if held is ABSENT else own(self._function.merge(held, more)))

    def clear(self) -> None:
        self._stored.clear()
