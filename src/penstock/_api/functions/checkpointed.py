"""Functions that take part in checkpoints: they keep operator state, or are notified of completed checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from penstock._shelf import show

if TYPE_CHECKING:
    from penstock._api.state.kinds import KeyedStateStore
    from penstock._api.state.operator import OperatorStateStore


class FunctionInitializationContext(ABC):
    """The state that a function starts from.

    Source: org.apache.flink.runtime.state.FunctionInitializationContext.
    """

    @abstractmethod
    def is_restored(self) -> bool:
        """Tell whether the function continues from a checkpoint; its state may still be empty, if it is new in the job.

        True also within a run, after an epoch has moved the subtask to another process.
        """

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Return the id of that checkpoint; None without one."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the operator state of the subtask."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Return the keyed state; there is no current key yet, and without ``key_by`` its methods raise."""


class FunctionSnapshotContext(ABC):
    """The checkpoint that is being taken.

    Source: org.apache.flink.runtime.state.FunctionSnapshotContext.
    """

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Return its id; ids rise, and skip checkpoints that did not complete."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Return the subtask's clock at this moment in milliseconds since the epoch."""


class CheckpointedFunction(ABC):
    """Lets any function keep operator state: a second base beside MapFunction, ProcessFunction and the like.

    PyFlink has no such class; the names are those of Flink's Java API. Between two checkpoints the function may keep
    data in attributes. A function object that does not have the state of the last checkpoint is dropped, and a new one
    is restored from it, as after a failure.

    Source: org.apache.flink.streaming.api.checkpoint.CheckpointedFunction, FLIP-147 for its end.

    Example:
        >>> from penstock.datastream import FlatMapFunction
        >>> from penstock.datastream.state import ListStateDescriptor
        >>> class Pairs(FlatMapFunction, CheckpointedFunction):
        ...     def initialize_state(self, context):
        ...         self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("waiting"))
        ...         self.waiting = list(self.state.get())
        ...
        ...     def snapshot_state(self, context):
        ...         self.state.update(self.waiting)
        ...
        ...     def flat_map(self, value):
        ...         self.waiting.append(value)
        ...         if len(self.waiting) >= 2:
        ...             yield tuple(self.waiting)
        ...             self.waiting.clear()
        >>> from penstock.testing import OperatorHarness
        >>> before, after = OperatorHarness.for_flat_map(Pairs()), OperatorHarness.for_flat_map(Pairs())
        >>> before.process_element(1)
        >>> after.restore(before.snapshot())
        >>> after.process_element(2)
        >>> after.values()
        [(1, 2)]
    """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Get the state and restore from it; runs before ``open``.

        Args:
            context: Valid during this call only; states may be kept.
        """

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Bring the state up to date; runs at each checkpoint, also at the last one after the end of all input.

        Never runs between the records of a batch or within a timer.

        Args:
            context: Valid during this call only.
        """


class CheckpointListener(ABC):
    """Notifies any function of completed checkpoints: a second base beside MapFunction, ProcessFunction and the like.

    PyFlink has no such class; the names are those of Flink's Java API. Use it for external effects that a checkpoint
    has to cover first, such as acknowledgements. Sinks publish through their committer instead.

    The object that runs the subtask's next epoch is notified. That may be another object, in another process, than the
    one that took part in the checkpoint, so the pending work belongs into operator state. An object is notified of each
    checkpoint at most once, in rising order. A notification may be lost or, in another object, repeated after a
    failure, so each one stands for all checkpoints up to its id. After a restart there is none for the checkpoint that
    the job continues from. There is no current key, timers cannot be set, and nothing can be emitted.

    Source: org.apache.flink.api.common.state.CheckpointListener.

    Example:
        >>> from penstock.datastream import MapFunction
        >>> class Acknowledging(MapFunction, CheckpointListener):
        ...     def __init__(self):
        ...         self.unacknowledged = 0
        ...
        ...     def map(self, value):
        ...         self.unacknowledged += 1
        ...         return value
        ...
        ...     def notify_checkpoint_complete(self, checkpoint_id):
        ...         print(f"{self.unacknowledged} records up to checkpoint {checkpoint_id}")
        ...         self.unacknowledged = 0
        >>> from penstock.testing import OperatorHarness
        >>> harness = OperatorHarness.for_map(Acknowledging())
        >>> harness.process_elements(["a", "b"])
        >>> _ = harness.snapshot()
        >>> harness.notify_checkpoint_complete()
        2 records up to checkpoint 1
    """

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Note that a checkpoint is durable; runs before the first record after it, or before ``close``.

        An error fails the job, which restarts from that checkpoint.

        Args:
            checkpoint_id: Its id; ids rise, and each covers the skipped ones before it.
        """

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027 - most have nothing to undo
        """Note that a checkpoint did not complete; its records are read again, for the same id.

        Args:
            checkpoint_id: Its id.
        """


show(
    "penstock.datastream.functions",
    CheckpointListener,
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
