"""Access to operator state, which belongs to a subtask and not to a key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock._shelf import show

if TYPE_CHECKING:
    from penstock._api.state.kinds import BroadcastState, ListState, ListStateDescriptor, MapStateDescriptor


class OperatorStateStore(ABC):
    """The operator state of one subtask; PyFlink has only broadcast state.

    The kinds differ in how they are redistributed when the parallelism changes.

    Source: org.apache.flink.api.common.state.OperatorStateStore.
    """

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list of this subtask; after rescaling its items are dealt round-robin to the new subtasks.

        A finished subtask leaves no items, as in Flink.

        Args:
            state_descriptor: The name of the list, unique within the function.

        Raises:
            StateDescriptorError: The state was written as another kind.
        """

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list that starts with the items of all subtasks, in the same order for all of them.

        Each subtask saves the items that it has added, or with which it has replaced all items. Items of finished
        subtasks stay. All subtasks have to start from one checkpoint, so a function with such a list is recreated for
        each epoch.

        Args:
            state_descriptor: The name of the list, unique within the function.

        Raises:
            StateDescriptorError: The state was written as another kind.
        """

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return a map that must be the same on all subtasks; a new subtask gets a copy of another's.

        Args:
            state_descriptor: The name of the map, unique within the function.

        Raises:
            StateDescriptorError: The state was written as another kind.
        """


show("penstock.datastream.state", OperatorStateStore)
