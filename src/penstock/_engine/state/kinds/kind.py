"""Kinds of keyed state: each has a descriptor, and a state object over the rows of a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from penstock._api.state.descriptors import StateDescriptor
from penstock._engine.state.declared import declared
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._api.state.kinds import State
    from penstock._engine.state.key_context import KeyContext
    from penstock._engine.state.rows import Namespace
    from penstock._engine.state.table import Table

DescriptorT = TypeVar("DescriptorT", bound=StateDescriptor)


@dataclass(frozen=True, slots=True)
class StateScope:
    """The rows that a state object reads and writes."""

    table: Table
    #: Holds the current key.
    key: KeyContext
    #: The operator's name, for errors.
    operator: str
    #: The namespace of the pane; one other than () is valid for the running epoch only.
    namespace: Namespace = ()

    @property
    def expires(self) -> bool:
        """Whether rows have a time to live."""
        return self.table.life.time_to_live is not None


class StateKind(ABC, Generic[DescriptorT]):
    """A kind of keyed state; `registry` lists all kinds."""

    #: The name of the kind in checkpoints.
    name: ClassVar[str]
    #: The class of its descriptors.
    descriptor: type[DescriptorT]
    #: Whether a key has a row for each sub-key, as a map has.
    has_sub_keys: ClassVar[bool] = False
    #: Whether its state objects support a time to live.
    can_expire: ClassVar[bool] = False

    def declared(self, descriptor: StateDescriptor) -> str:
        """Return the kind and the declared type of a state, as checkpoints store them."""
        return declared(self.name, descriptor.type_info)

    @abstractmethod
    def state(self, descriptor: DescriptorT, scope: StateScope) -> State:
        """Return the state object that a function reads and writes."""

    def merge(self, state: State, others: list[State]) -> None:
        """Merge other states into one, for windows that merge.

        Args:
            state: The state that receives the content.
            others: The states whose content is added; of the same kind.

        Raises:
            UnsupportedOperationError: States of this kind cannot be merged.
        """
        reason = "only a MergingState can merge: a state to which values are added"
        raise UnsupportedOperationError(f"Merging {self.name} state", reason)


#: A kind with any descriptor.
AnyKind = StateKind[Any]
