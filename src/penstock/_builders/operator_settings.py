"""The settings of one operator, which streams and sinks share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from penstock._api.slot_sharing_group import SLOTS_ARE_TASKS
from penstock._engine.graph.stream_graph import Chaining, StreamNode
from penstock.common.arguments import text
from penstock.common.config_check import say_if_without_effect, say_without_effect
from penstock.common.names import checked_name
from penstock.common.option_table import BUFFER_TIMEOUT, MAX_PARALLELISM, PARALLELISM
from penstock.common.redaction import shown_name
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._api.slot_sharing_group import SlotSharingGroup


#: What a call is named in the errors of streams that it does not apply to, as in Flink.
CALLS: Final = {
    "name": "Set name",
    "get_name": "Get name",
    "uid": "Set uid",
    "set_parallelism": "Set parallelism",
    "set_max_parallelism": "Set max parallelism",
    "force_non_parallel": "Set force non-parallel",
    "set_buffer_timeout": "Set buffer timeout",
    "start_new_chain": "Start new chain",
    "disable_chaining": "Disable chaining",
    "slot_sharing_group": "Setting slot sharing group",
    "set_description": "Set description",
    "get_side_output": "Get side output",
    "cache": "Cache",
}


class OperatorSettings:
    """Sets the name, the uid and the parallelism of the operator of a stream or sink."""

    def _operator_for(self, method: str) -> StreamNode:
        """Return the operator that a setting applies to; raise if there is none."""
        raise AssertionError(method)

    def name(self, name: str) -> Self:
        """Set the operator's name, as logs, metrics, plans and errors show it: on one line, 500 characters at most."""
        self._operator_for("name").name = shown_name(text("name", name))
        return self

    def uid(self, uid: str) -> Self:
        """Set the id by which checkpoints know the operator's state.

        Without one, the id follows from the place of the operator in the job; a changed job may then not find its
        state again. Two operators of one id are an error when the job is executed.

        Raises:
            UnsupportedOperationError: It has line breaks or other characters that cannot be shown, or more than 500.
        """
        self._operator_for("uid").uid = checked_name(uid, "uid", "a uid")
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Refuse: operators are not identified by hashes of older versions.

        Raises:
            UnsupportedOperationError: Always.
        """
        operation = f"set_uid_hash({uid_hash!r})"
        raise UnsupportedOperationError(operation, "operators are found by their uid; set the same text with uid(...)")

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of the operator's subtasks.

        Raises:
            ConfigurationError: It is not a positive number.
            UnsupportedOperationError: The operator always has one subtask, and this is another number; or it is
                one of a full window partition, which has as many subtasks as the operator before it.
        """
        operator = self._operator_for("set_parallelism")
        parallelism = PARALLELISM.parse(str(parallelism))
        _refuse_other_parallelism(operator, f"set_parallelism({parallelism})")
        if operator.non_parallel and parallelism != 1:
            operation = f"set_parallelism({parallelism}) on {operator}"
            raise UnsupportedOperationError(operation, "this operator always has one subtask")
        operator.parallelism = parallelism
        return self

    def set_description(self, description: str) -> Self:
        """Set a longer text than the name, which plans show."""
        self._operator_for("set_description").description = description
        return self

    def disable_chaining(self) -> Self:
        """Do not chain the operator with those before and after it."""
        self._operator_for("disable_chaining").chaining = Chaining.NEVER
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Accept a group of operators that may share a slot; without effect, Spark's tasks are the slots."""
        self._operator_for("slot_sharing_group")
        say_without_effect("slot_sharing_group", SLOTS_ARE_TASKS)
        del slot_sharing_group
        return self


class StreamSettings(OperatorSettings):
    """Adds the settings of operators with an output."""

    def get_name(self) -> str:
        """Return the operator's name."""
        return self._operator_for("get_name").name

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups, which is the largest parallelism that the operator can ever get.

        Raises:
            ConfigurationError: It is not between 1 and 32768.
        """
        operator = self._operator_for("set_max_parallelism")
        operator.max_parallelism = MAX_PARALLELISM.parse(str(max_parallelism))
        return self

    def force_non_parallel(self) -> Self:
        """Fix the operator's parallelism at 1.

        Raises:
            UnsupportedOperationError: The operator is one of a full window partition.
        """
        operator = self._operator_for("force_non_parallel")
        _refuse_other_parallelism(operator, "force_non_parallel()")
        operator.non_parallel = True
        operator.parallelism = operator.max_parallelism = 1
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Accept a time that network buffers may wait; without effect, there are none."""
        self._operator_for("set_buffer_timeout")
        say_if_without_effect(BUFFER_TIMEOUT, timeout_millis, f"{timeout_millis} ms")
        return self

    def start_new_chain(self) -> Self:
        """Do not chain the operator with the one before it."""
        self._operator_for("start_new_chain").chaining = Chaining.HEAD
        return self


def _refuse_other_parallelism(operator: StreamNode, call: str) -> None:
    """Raise for an operator whose parallelism is that of the operator before it."""
    if operator.full_window:
        way_out = "it has the parallelism of the operator before it; set it there"
        raise UnsupportedOperationError(f"{call} on {operator} of a full window partition", way_out)
