"""The base of all operators: their life from open to close, and their contexts.

The runtime calls them, one subtask at a time and on one thread. An operator takes and yields batches; it may keep
objects between epochs, but the next epoch may also run in another process from the last snapshot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._engine.operators.batch import Batch, RowBatch
from penstock._engine.operators.current_record import CurrentRecord
from penstock._engine.operators.opened import OpenedFunctions
from penstock._engine.protocol.control import OperatorAck
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock._engine.operators.accumulators import AccumulatorRegistry
    from penstock._engine.operators.clocks import InputClock, TaskClock
    from penstock._engine.operators.columns import ColumnBatch
    from penstock._engine.protocol.control import OperatorRestore
    from penstock._engine.protocol.state_handle import StateHandle, StatePart
    from penstock._engine.state.keyed_state import KeyedState
    from penstock.metrics.metricbase import MetricGroup

#: A batch for the main output (None) or for the side output of that id.
Output = tuple[str | None, Batch]

NOTHING: tuple[Output, ...] = ()


@dataclass(slots=True)
class EpochContext:
    """The part of an operator's context that changes with each epoch."""

    checkpoint_id: int
    #: The token of the attempt, which is in the names of staged data.
    token: int
    #: The state of an operator that was not kept in this process.
    restore: OperatorRestore
    #: Whether this operator object ran the last accepted epoch, so that its memory is current.
    current: bool
    #: The checkpoint that the subtask's state stems from; 0 at a fresh start.
    completed_checkpoint: int
    #: The current watermark of the operator's input, in whichever process earlier epochs ran.
    watermark: int = MIN_WATERMARK
    #: Write a snapshot of keyed state in place of a delta.
    full_snapshot: bool = False
    #: Operator state is written although it has not changed.
    write_all: bool = False
    #: Whether this is the first epoch after a start or restart of the job, so that time has passed since the snapshot.
    starts: bool = False
    #: For checkpoint listeners: the completed checkpoint, and in the next field the aborted one; 0 for none.
    notify_complete: int = 0
    notify_aborted: int = 0
    #: A savepoint is made of this checkpoint.
    for_savepoint: bool = False
    #: Sources: the smallest watermark of the others in their alignment group.
    group_watermark: int = MAX_WATERMARK
    #: The most bytes of state that may be in the ack; what is larger goes to a file.
    inline_bytes: int = 0


@dataclass(slots=True)
class OperatorContext:
    """The part of an operator's context that never changes."""

    job_id: str
    run_id: str
    earlier_runs: tuple[str, ...]
    job_name: str
    operator_name: str
    uid: str
    #: For an operator of a sink's topologies, the sink's uid; else its own.
    sink_uid: str
    subtask: int
    parallelism: int
    max_parallelism: int
    job_attempt: int
    configuration: dict[str, str]
    #: Milliseconds since the epoch, the clock of processing time.
    clock: Callable[[], int]
    #: The clock of idleness: milliseconds in which the subtask could have read.
    input_clock: InputClock
    #: The clocks of the machine, which measure durations.
    task_clock: TaskClock
    metrics: MetricGroup
    accumulators: AccumulatorRegistry
    #: Makes the operator's keyed state; only keyed operators call it.
    keyed_state: Callable[[], KeyedState]
    #: Writes keyed state into the checkpoint: (store, epoch) -> handles for the ack.
    save_keyed_state: Callable[[KeyedState, EpochContext], tuple[StateHandle, ...]]
    #: Writes a file of operator state into the checkpoint: (bytes, its parts, epoch) -> handle for the ack.
    save_operator_state: Callable[[bytes, tuple[StatePart, ...], EpochContext], StateHandle]
    #: Reads the file of a handle.
    read_state: Callable[[StateHandle], bytes]
    #: Writes a file of a sink's writer for its committer: (bytes, epoch, number) -> full path.
    stage: Callable[[bytes, EpochContext, int], str]
    #: See `Operator`.
    object_reuse: bool = False
    #: Makes the directory of the run on the local disk, and returns it.
    local_directory: Callable[[], Path] = Path
    #: Whether an edge takes its output: edges have a quicker encoding for records of a known shape.
    feeds_edges: bool = False


class Operator(CurrentRecord, ABC):
    """One node of a chain.

    The runtime calls `open` once, `begin_epoch` at each epoch's start and after it, if there are checkpoint listeners,
    `notify`, then `process` for each batch, at the end of the input `end_input` and `finish`, and `snapshot` at each
    epoch's end. One more `notify` may follow the last snapshot. `close` runs in every case.
    """

    context: OperatorContext
    #: Whether it separates the records of side outputs from those of the main output.
    parts_tagged: bool = False
    #: Whether results of functions are passed on without a copy.
    object_reuse: bool = False
    #: Whether `process_columns` works on columns: then it gets column batches of any size.
    takes_columns: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.functions: OpenedFunctions = OpenedFunctions()

    def open(self, context: OperatorContext) -> None:
        """Get ready; the user's functions are opened here."""
        self.context = context
        self.object_reuse = context.object_reuse

    def can_go_on(self, *, current: bool) -> bool:
        """Return whether this object can run another epoch; if not, it is closed and a new one replaces it.

        Args:
            current: Whether the last epoch that it ran is the last accepted one.
        """
        return True

    def begin_epoch(self, epoch: EpochContext) -> None:
        """Restore the state from which the epoch starts."""

    @property
    def wants_notification(self) -> bool:
        """Whether it has checkpoint listeners, which are notified of every checkpoint, including the last one."""
        return False

    def notify(self, epoch: EpochContext) -> None:
        """Notify the checkpoint listeners of the checkpoints before the epoch."""

    def free_memory(self) -> None:
        """Free memory; called before each call that processes batches, timers or the end of input."""

    @abstractmethod
    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        """Process one batch of rows and yield the results, with watermarks in their places."""

    def process_columns(self, batch: ColumnBatch, input_index: int) -> Iterable[Output]:
        """Process one batch of columns; the default converts it to rows."""
        return self.process(batch.rows(), input_index)

    def on_processing_time(self, now_ms: int) -> Iterable[Output]:
        """Fire due processing-time timers; called at an epoch's start and end and between batches."""
        return NOTHING

    def fire_left_timers(self) -> Iterable[Output]:
        """Fire the remaining processing-time timers when a job drains and is configured to; new timers do not fire."""
        return NOTHING

    def prepare_snapshot(self) -> Iterable[Output]:
        """Emit results that belong before the snapshot; called in each epoch after which the operator continues."""
        return NOTHING

    def end_input(self, input_index: int) -> Iterable[Output]:
        """End one input; its MAX_WATERMARK was processed before."""
        return NOTHING

    def finish(self) -> Iterable[Output]:
        """End all inputs: emit the remaining results."""
        return NOTHING

    def snapshot(self, epoch: EpochContext, *, finished: bool) -> OperatorAck:
        """Return this operator's part of the checkpoint."""
        return OperatorAck()

    def next_timer_ms(self) -> int | None:
        """Return the earliest pending processing-time timer, None without one."""
        return None

    def output_watermark(self, input_watermark: int) -> int:
        """Return the watermark of the output at an epoch's start, given the input's."""
        return input_watermark

    @property
    def sends_at_the_end(self) -> bool:
        """Whether it may have records that it sends at the end of an epoch: until then it does not fall idle."""
        return type(self).prepare_snapshot is not Operator.prepare_snapshot

    def is_idle(self, *, upstream_idle: bool) -> bool:
        """Return whether the output of this operator is idle, given its input."""
        return upstream_idle

    def close(self) -> None:
        """Release the resources of `open`, also after it failed; the user's functions are closed here."""
        self.functions.close()


class ReadingOperator(Operator):
    """An operator of batch jobs that is the head of its vertex and reads the input of the subtask itself."""

    @abstractmethod
    def read_all(self, batches: Iterator[Batch]) -> Iterable[Output]:
        """Process the whole input, of which some may be left unread; `end_input` and `finish` follow."""
