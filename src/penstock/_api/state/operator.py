"""Where functions get operator state: state of a subtask, whatever the keys of its records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock._shelf import show

if TYPE_CHECKING:
    from penstock._api.state.descriptors import ListStateDescriptor, MapStateDescriptor
    from penstock._api.state.kinds import BroadcastState, ListState


class OperatorStateStore(ABC):
    """The operator state of one subtask; PyFlink has the broadcast state alone.

    The kinds differ in what happens to them when the job resumes with another number of subtasks.

    Source: org.apache.flink.api.common.state.OperatorStateStore.
    """

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list of this subtask; its items are dealt out in turn to another number of subtasks.

        A subtask that has finished leaves no items, as in Flink.

        Args:
            state_descriptor: The name of the list, unique within the function.

        Raises:
            StateDescriptorError: The state was written as another kind.
        """

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list that starts with the items of all subtasks, in one order for all of them.

        Each subtask saves what it has added, or put in the place of all. Items of finished subtasks stay. All subtasks
        have to start from one checkpoint for that, so a function with such a list is recreated for each epoch.

        Args:
            state_descriptor: The name of the list, unique within the function.

        Raises:
            StateDescriptorError: The state was written as another kind.
        """

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return a map that is to be the same on all subtasks; a new subtask gets the one of another.

        Args:
            state_descriptor: The name of the map, unique within the function.

        Raises:
            StateDescriptorError: The state was written as another kind.
        """


show("penstock.datastream.state", OperatorStateStore)
