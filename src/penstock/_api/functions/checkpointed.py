"""Functions that take part in checkpoints: those that keep operator state, and those that hear what became of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from penstock._shelf import show

if TYPE_CHECKING:
    from penstock._api.functions.basic import KeyedStateStore
    from penstock._api.state.operator import OperatorStateStore


class FunctionInitializationContext(ABC):
    """What a function starts from.

    Source: org.apache.flink.runtime.state.FunctionInitializationContext.
    """

    @abstractmethod
    def is_restored(self) -> bool:
        """Tell whether the function continues from a checkpoint; its state may still be empty, if it is new in the job.

        True also within a run, where an epoch brings the subtask to another process.
        """

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Return the id of that checkpoint, None without one."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Return where the operator state of the subtask is."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Return where keyed state is; there is no current key yet, and without ``key_by`` its methods raise."""


class FunctionSnapshotContext(ABC):
    """The checkpoint that is being taken.

    Source: org.apache.flink.runtime.state.FunctionSnapshotContext.
    """

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Return its id; ids rise, by more than 1 where a checkpoint came to nothing."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Return the subtask's clock at this moment in milliseconds since the epoch."""


class CheckpointedFunction(ABC):
    """Makes any function keep operator state: a second base beside MapFunction, ProcessFunction and the like.

    PyFlink has none; the names are those of Flink's Java API.

    Between two checkpoints the function may gather what it needs in attributes. A function object that an epoch finds
    behind its last checkpoint is dropped, and a new one starts from that, as after a failure.

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
        """Ask for the state and take up what is in it; runs before ``open``.

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
    """Lets any function hear of completed checkpoints: a second base beside MapFunction, ProcessFunction and the like.

    PyFlink has none; the names are those of Flink's Java API. Something outside that is to happen only once a
    checkpoint covers it, such as an acknowledgement, has its place here. What a sink publishes has not: its committer
    does that.

    Whatever object runs the subtask's next epoch hears, which may be another one than took part in the checkpoint, in
    another process: what is to be done then belongs into operator state. One object hears of each checkpoint once, in
    rising order; a call may be missing or, in another object, come again after a failure. So take one for all
    checkpoints up to its id. After a restart nobody hears of the checkpoint that the job went on from. Neither keys nor
    timers are at hand here, and nothing can be emitted.

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

        An error fails the job, which resumes from that very checkpoint.

        Args:
            checkpoint_id: Its id; ids rise, and one that is left out is covered by the next.
        """

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027 - most have nothing to undo
        """Note that a checkpoint came to nothing; what it covered is read again, for the same id.

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
