"""What a kind of keyed state is: a descriptor that asks for it, and the object that a function gets over its rows."""

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
    """Whose rows a state object reads and writes."""

    table: Table
    #: Says for which key.
    key: KeyContext
    #: The operator's name, for errors.
    operator: str
    #: Of which pane; any but () is good for the running epoch only.
    namespace: Namespace = ()
    #: Whether all keys of the state can be asked for.
    keep_keys: bool = False

    @property
    def expires(self) -> bool:
        """Whether rows have a time to live."""
        return self.table.life.time_to_live is not None


class StateKind(ABC, Generic[DescriptorT]):
    """A kind of keyed state; `registry` has them all."""

    #: What it is called in checkpoints.
    name: ClassVar[str]
    #: Asks for it.
    descriptor: type[DescriptorT]
    #: Whether a key has a row for each sub-key, as a map has.
    has_sub_keys: ClassVar[bool] = False
    #: Whether its state objects stamp the rows that they write and look at stamps, where rows are to expire.
    can_expire: ClassVar[bool] = False

    def declared(self, descriptor: StateDescriptor) -> str:
        """Return what a state is called in checkpoints, with the type that its descriptor declares."""
        return declared(self.name, descriptor.type_info)

    @abstractmethod
    def state(self, descriptor: DescriptorT, scope: StateScope) -> State:
        """Return the object that a function reads and writes, as its descriptor declares it."""

    def merge(self, state: State, others: list[State]) -> None:
        """Add what other states hold to one.

        Args:
            state: Of this kind.
            others: The same.

        Raises:
            UnsupportedOperationError: Two states of this kind cannot become one.
        """
        raise UnsupportedOperationError(f"Merging {self.name} state", "list, reducing and aggregating state can merge")


#: Any kind, whatever asks for it.
AnyKind = StateKind[Any]
