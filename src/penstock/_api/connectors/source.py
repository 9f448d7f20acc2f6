"""The half of a source that runs on the driver: the source itself and its enumerator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from penstock._api.connectors.serializer import PickleSerializer
from penstock._api.connectors.split import SourceSplit
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._api.connectors.reader import SourceReader, SourceReaderContext
    from penstock._api.connectors.serializer import SimpleVersionedSerializer
    from penstock._api.connectors.split import SourceEvent
    from penstock.metrics.metricbase import MetricGroup


class Boundedness(Enum):
    """Whether a source ends by itself.

    Source: org.apache.flink.api.connector.source.Boundedness.
    """

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "continuous_unbounded"


SplitT = TypeVar("SplitT", bound=SourceSplit)
CheckpointT = TypeVar("CheckpointT")
T = TypeVar("T")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class ReaderInfo:
    """A registered reader.

    Source: org.apache.flink.api.connector.source.ReaderInfo.

    Args:
        subtask_id: The subtask that the reader belongs to, from 0.
        location: The host that it ran on when it last asked for splits or sent an event; empty before that. On a
            cluster a reader may run on another host in its next epoch.
    """

    subtask_id: int
    location: str = ""


@dataclass(frozen=True)  # no slots: with them Python 3.11 cannot make a subscripted generic class
class SplitsAssignment(Generic[SplitT]):
    """An assignment of splits to readers.

    Source: org.apache.flink.api.connector.source.SplitsAssignment.

    Args:
        assignment: The new splits by subtask.
    """

    assignment: Mapping[int, Sequence[SplitT]]


class SplitEnumeratorContext(Protocol[SplitT]):
    """The context of an enumerator, provided by the engine; to be used on the enumerator's thread only.

    Source: org.apache.flink.api.connector.source.SplitEnumeratorContext.
    """

    @property
    def metric_group(self) -> MetricGroup:
        """The group of the enumerator's metrics."""
        ...

    @property
    def current_parallelism(self) -> int:
        """The number of the source's subtasks."""
        ...

    @property
    def is_batch(self) -> bool:
        """Whether the job runs in batch mode, where no order of records is promised; ours."""
        ...

    @property
    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        """The readers that splits can be assigned to, by subtask; empty right after a restore."""
        ...

    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        """Send an event to a reader; it arrives with the next epoch, in order with splits and other events.

        An event to a reader that has ended is dropped.
        """
        ...

    def assign_splits(self, new_split_assignments: SplitsAssignment[SplitT]) -> None:
        """Assign splits to readers.

        Raises:
            Exception: A reader is not registered; then nothing is assigned.
        """
        ...

    def assign_split(self, split: SplitT, subtask: int) -> None:
        """Assign one split to one reader.

        Raises:
            Exception: The reader is not registered.
        """
        ...

    def signal_no_more_splits(self, subtask: int) -> None:
        """Tell one reader that no split follows those that are assigned to it."""
        ...

    def call_async(
        self,
        callable: Callable[[], ResultT],  # noqa: A002 - Flink's name
        handler: Callable[[ResultT | None, Exception | None], None],
        initial_delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> None:
        """Run a slow function on another thread, and a handler of its result on the enumerator's own.

        An exception of the handler fails the job. Nothing runs after the enumerator's ``close()``.

        Args:
            callable: The slow function; it must not touch the enumerator.
            handler: Gets the result and None, or None and the exception.
            initial_delay_ms: The delay before the first run.
            period_ms: The pause between two runs; None runs it once.
        """
        ...

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        """Say whether the source reads a backlog, so that throughput matters more than latency."""
        ...


class SplitEnumerator(ABC, Generic[SplitT, CheckpointT]):
    """Finds the splits of a source and assigns them to its readers.

    Each source has one, on the driver. Its methods run one after the other on one thread. Requests and events of
    readers arrive after the checkpoint of their epoch. An exception of any method fails the job, which restarts from
    its last checkpoint.

    Source: org.apache.flink.api.connector.source.SplitEnumerator.
    """

    @abstractmethod
    def start(self) -> None:
        """Begin to look for splits; runs once, before any other method, also after a restore."""

    @abstractmethod
    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        """Answer a reader's request by assigning a split or by ``signal_no_more_splits``, now or later.

        Args:
            subtask_id: The reader.
            requester_hostname: The host that it ran on when it asked; None if unknown.
        """

    @abstractmethod
    def add_splits_back(self, splits: list[SplitT], subtask_id: int) -> None:
        """Take back splits that a failed reader got after its last checkpoint.

        Args:
            splits: The splits, as they were assigned.
            subtask_id: The reader that lost them; it registers again.
        """

    @abstractmethod
    def add_reader(self, subtask_id: int) -> None:
        """Note a newly registered reader; runs once for each start of a reader, not when it moves."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> CheckpointT:
        """Return the state for ``restore_enumerator``: above all the unassigned splits.

        Runs once for each checkpoint. Splits that were assigned before belong to the readers, also while they are on
        the way. A batch job with recovery has no checkpoints, and asks for the state with the id -1 (Flink's
        ``OperatorCoordinator.NO_CHECKPOINT``). An error raised then is logged and does not fail the job: a driver
        that takes the job over starts this source fresh. Any other error fails the job.

        Source: FLIP-27, and FLIP-383 for -1.
        """

    def find_new_splits(self) -> None:
        """Look once for new splits; not in Flink.

        Runs right after ``start``, and only if the job was started with ``penstock.restart-finished-sources`` from a
        checkpoint in which this source had finished. Enumerators that look by themselves keep the default, which does
        nothing.
        """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Note that a checkpoint is durable; may be called late, for the newest of several only, or never."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Note that a checkpoint will not complete."""

    def handle_source_event(self, subtask_id: int, source_event: SourceEvent) -> None:
        """Take an event from a reader; events of one reader arrive in order."""

    def close(self) -> None:
        """Release all resources; runs once at the job's end or failure, but not when the driver is killed."""


class Source(ABC, Generic[T, SplitT, CheckpointT]):
    """The origin of records: makes the enumerator on the driver and the readers in the tasks.

    The source is pickled with the job and holds its description only, no connection. In PyFlink this class wraps a Java
    object; here it is the interface itself, and sources are written in Python.

    Source: org.apache.flink.api.connector.source.Source, FLIP-27.

    Example:
        >>> from penstock.datastream.connectors.number_seq import NumberSequenceSource
        >>> NumberSequenceSource(1, 100).get_boundedness()
        <Boundedness.BOUNDED: 'bounded'>
    """

    @abstractmethod
    def get_boundedness(self) -> Boundedness:
        """Return whether the source ends by itself."""

    @abstractmethod
    def create_enumerator(self, enum_context: SplitEnumeratorContext[SplitT]) -> SplitEnumerator[SplitT, CheckpointT]:
        """Make the enumerator of a job that starts without a checkpoint; runs on the driver."""

    @abstractmethod
    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[SplitT], checkpoint: CheckpointT
    ) -> SplitEnumerator[SplitT, CheckpointT]:
        """Make the enumerator of a job that resumes from a checkpoint; the parallelism may have changed."""

    @abstractmethod
    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[T, SplitT]:
        """Make the reader of a subtask; runs in a task, at any epoch and in any process."""

    def get_split_serializer(self) -> SimpleVersionedSerializer[SplitT]:
        """Return the serializer of splits; pickle, unless a source overrides this."""
        return PickleSerializer()

    def get_enumerator_checkpoint_serializer(self) -> SimpleVersionedSerializer[CheckpointT]:
        """Return the serializer of the enumerator's snapshots; pickle, unless a source overrides this."""
        return PickleSerializer()

    def get_produced_type(self) -> Any:
        """Return the TypeInformation of the records; None if the source does not know it."""
        return None

    @property
    def holds_produced_type(self) -> bool:
        """Whether all records already have the representation of that type, so that none has to be converted."""
        return False

    def storage_paths(self) -> Sequence[str]:
        """Return the files and folders that readers open, local or in object stores; none by default. Ours.

        On a cluster a job begins only when each host finds there what the driver finds.
        """
        return ()


show(
    "penstock.datastream.connectors.base",
    Boundedness,
    ReaderInfo,
    Source,
    SplitEnumerator,
    SplitEnumeratorContext,
    SplitsAssignment,
)
