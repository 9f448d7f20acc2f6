"""What reducing and aggregating state share: one value per key, to which a function adds."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from penstock._engine.state.kinds.kind import DescriptorT, StateKind
from penstock._engine.state.table import ABSENT
from penstock.common.conversion import conversion

if TYPE_CHECKING:
    from penstock._api.state.descriptors import StateDescriptor
    from penstock._engine.state.kinds.value import StoredValueState


class FoldingKind(StateKind[DescriptorT]):
    """A kind whose states fold all that is added into one value per key."""

    can_expire = True

    def merge(self, state: Any, others: list[Any]) -> None:
        for other in others:
            state.take(other)


class FoldedState:
    """One value per key, to which a function adds.

    Args:
        stored: The stored values.
        descriptor: Declares the type of values.
        operator: The operator's name, for errors.
    """

    __slots__ = ("_held", "_stored")

    def __init__(self, stored: StoredValueState, descriptor: StateDescriptor, operator: str) -> None:
        self._stored = stored
        self._held = conversion(descriptor.type_info, f"State {descriptor.get_name()!r} of {operator!r}")

    def take(self, other: FoldedState) -> None:
        """Merge the value of another state into this one."""
        more = other._stored.held()
        if more is not ABSENT:
            self._merge(more)

    @abstractmethod
    def _merge(self, more: Any) -> None:
        """Merge a value of another state into this one."""

    def clear(self) -> None:
        """Delete the value."""
        self._stored.clear()
