"""The half of a sink that runs in tasks: the sink itself and its writer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from penstock._api.connectors.serializer import PickleSerializer
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow as pa

    from penstock._api.connectors.committer import Committer, CommitterInitContext
    from penstock._api.connectors.serializer import SimpleVersionedSerializer
    from penstock.common.typeinfo import TypeInformation
    from penstock.metrics.metricbase import MetricGroup

T = TypeVar("T")
CommittableT = TypeVar("CommittableT")
WriterStateT = TypeVar("WriterStateT")


class DeliveryGuarantee(Enum):
    """How often each record reaches the target when the job fails and restarts.

    Source: org.apache.flink.connector.base.DeliveryGuarantee.
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class WriterInitContext(Protocol):
    """What a writer can see; given to it by the engine.

    The engine may keep a writer for many epochs, and ``checkpoint_id`` and ``attempt_token`` change with each one: a
    writer reads them when it stages something and does not keep them.

    Source: org.apache.flink.api.connector.sink2.WriterInitContext.
    """

    @property
    def metric_group(self) -> MetricGroup:
        """Where the writer's metrics go."""
        ...

    @property
    def job_id(self) -> str:
        """The job, 32 hexadecimal digits."""
        ...

    @property
    def run_id(self) -> str:
        """This run of the job, 32 hexadecimal digits, unlike that of any other run of any job.

        Job ids may be equal where users set them, or where a checkpoint directory was copied. So names of what is
        staged contain the job and the run, and a committer knows by the run what is its own to remove
        (``CommitterInitContext.earlier_runs``).
        """
        ...

    @property
    def earlier_runs(self) -> tuple[str, ...]:
        """The runs that this one goes on from, oldest first; the same that the committer sees.

        A job may start from a checkpoint of another job, or of a run that it does not go on from. What the state names
        that such a run has staged is not this job's: the other one may publish and remove it at any time, and several
        jobs may start from there. A writer that is to go on with it takes a copy under a name of its own.
        """
        ...

    @property
    def operator_uid(self) -> str:
        """The sink's uid, the same that its committer sees."""
        ...

    @property
    def subtask_id(self) -> int:
        """The writer's subtask, from 0."""
        ...

    @property
    def number_of_parallel_subtasks(self) -> int:
        """The number of the sink's subtasks."""
        ...

    @property
    def attempt_number(self) -> int:
        """How often the job was restarted, from 0."""
        ...

    @property
    def restored_checkpoint_id(self) -> int | None:
        """The checkpoint that the writer starts from; None when the job started without one."""
        ...

    @property
    def checkpoint_id(self) -> int:
        """The checkpoint that the records being written belong to."""
        ...

    @property
    def for_savepoint(self) -> bool:
        """Whether a savepoint is made of that checkpoint.

        Jobs may start from a savepoint at any time, several from the same one, and while the job that made it keeps
        running. So a writer then leaves nothing staged that it would continue later: all of it becomes committables.
        """
        ...

    @property
    def attempt_token(self) -> str:
        """The name of this try at this epoch, unlike any other's; names of what is staged contain it.

        Made of letters, digits and hyphens, so that it can be a part of a file's or a table's name.

        Several attempts of one epoch may run, even at the same time. Only one is accepted; what the others staged is
        never committed, and the token in its name tells it from the rest.
        """
        ...


class SinkWriterContext(Protocol):
    """What a writer is told about one record.

    Source: org.apache.flink.api.connector.sink2.SinkWriter.Context.
    """

    def current_watermark(self) -> int:
        """Return the watermark in milliseconds since the epoch, -2**63 before the first."""
        ...

    def timestamp(self) -> int | None:
        """Return the record's time in milliseconds since the epoch, None without one."""
        ...


class BatchContext(Protocol):
    """What a writer is told about a batch of columns; ours."""

    @property
    def timestamps(self) -> pa.Array[Any] | None:
        """The times of the records, a column of milliseconds since the epoch; None when they have none."""
        ...

    @property
    def has_names(self) -> bool:
        """Whether fields of the records have the names of their columns; else they count by position, as in tuples."""
        ...

    def records(self) -> list[Any]:
        """Return the records. They are made of the columns once, and shared with other consumers."""
        ...


class _BlockContext:
    """The context of the records of a block, moved from one to the next; knows no watermark."""

    __slots__ = ("_timestamp",)

    def __init__(self) -> None:
        self._timestamp: int | None = None

    def at(self, timestamp: int | None) -> Self:
        self._timestamp = timestamp
        return self

    def current_watermark(self) -> int:
        return -(2**63)

    def timestamp(self) -> int | None:
        return self._timestamp


class SinkWriter(ABC, Generic[T]):
    """Writes the records of one subtask.

    Runs in a task, on one thread. For each checkpoint the engine calls ``flush(False)``, then ``prepare_commit`` and
    ``snapshot_state`` where the writer has them, with no write between. The writer goes on with the next epoch in the
    same process, or another one is made from its state anywhere, so anything worth keeping is flushed, staged or in the
    state by then. Connections may last; nothing that is staged lasts from one epoch to the next but through the state,
    and a name that only one may hold, such as a transactional id, is the committer's. An epoch that fails is written
    again by a new writer; what this one wrote must then be invisible (two-phase commit) or harmless (at least once).

    Source: org.apache.flink.api.connector.sink2.SinkWriter.

    Example:
        >>> class ListWriter(SinkWriter[int]):
        ...     def __init__(self):
        ...         self.elements = []
        ...
        ...     def write(self, element, context):
        ...         self.elements.append(element)
        ...
        ...     def flush(self, end_of_input):
        ...         pass
        >>> writer = ListWriter()
        >>> writer.write_all([1, 2, 3])
        >>> writer.elements
        [1, 2, 3]

    Attributes:
        takes_batches: True where ``write_batch`` is better than records; then whole batches of columns come to it, from
            sources and operators that have them. Records come to ``write_all`` in any case. Ours.
    """

    takes_batches: bool = False

    @abstractmethod
    def write(self, element: T, context: SinkWriterContext) -> None:
        """Write one record."""

    def write_all(self, elements: list[T], timestamps: Sequence[int | None] | None = None) -> None:
        """Write a block of records; what the engine calls. Overridden by writers that are faster this way.

        Args:
            elements: The records in order. They are shared with other consumers: read them, change nothing.
            timestamps: One for each record; None when they have none.
        """
        context = _BlockContext()
        if timestamps is None:
            for element in elements:
                self.write(element, context)
        else:
            for element, timestamp in zip(elements, timestamps, strict=True):
                self.write(element, context.at(timestamp))

    def write_batch(self, batch: pa.RecordBatch, context: BatchContext) -> None:
        """Write a batch of columns, each row of which is a record; ours. By default the records are written.

        Called where ``takes_batches`` says so.

        Args:
            batch: The columns.
            context: The times of the records, and the records themselves.

        Example:
            >>> class Counter(SinkWriter[object]):
            ...     takes_batches = True
            ...     rows = 0
            ...
            ...     def write(self, element, context):
            ...         self.rows += 1
            ...
            ...     def write_batch(self, batch, context):
            ...         self.rows += batch.num_rows
            ...
            ...     def flush(self, end_of_input):
            ...         pass
        """
        stamps = context.timestamps
        self.write_all(context.records(), None if stamps is None else stamps.to_pylist())

    @abstractmethod
    def flush(self, end_of_input: bool) -> None:
        """Send what is held back to the target or its staging area, and wait for it.

        Args:
            end_of_input: Nothing will be written any more: nothing may stay open. Comes once, at a normal end only.
        """

    def write_watermark(self, watermark: int) -> None:
        """Take a watermark, in milliseconds since the epoch; they only grow."""

    def close(self) -> None:
        """Let go of everything; may be called twice, and is not called when the process is killed.

        It may come late, when another writer has begun with the next epoch: it leaves alone what that one has staged.
        """


class CommittingSinkWriter(SinkWriter[T], Generic[T, CommittableT]):
    """A writer that stages, so that a committer publishes.

    Source: org.apache.flink.api.connector.sink2.CommittingSinkWriter.
    """

    @abstractmethod
    def prepare_commit(self) -> Collection[CommittableT]:
        """Return what the committer needs to publish all that is finished, in the order to publish it.

        Runs once for each checkpoint, after ``flush``. What the committables name must be durable by now.
        """


class StatefulSinkWriter(SinkWriter[T], Generic[T, WriterStateT]):
    """A writer with a state that lasts from epoch to epoch.

    Source: org.apache.flink.api.connector.sink2.StatefulSinkWriter.
    """

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> list[WriterStateT]:
        """Return the state; at another parallelism its items are shared out among the writers.

        Runs once for each checkpoint, after ``prepare_commit``. What a writer returns after its last ``flush`` is kept
        as long as other writers of the sink go on: they get it where the job starts at another parallelism. What is to
        be seen in any case has to be committed by then.
        """


class Sink(ABC, Generic[T]):
    """Where records go: makes the writers in the tasks.

    A sink that publishes by checkpoint also implements :class:`SupportsCommitter`, one that keeps something open
    between checkpoints :class:`SupportsWriterState`. The sink is pickled with the job and holds its description only.
    In PyFlink this class wraps a Java object; here it is the interface itself, and sinks are written in Python.

    Source: org.apache.flink.api.connector.sink2.Sink, FLIP-143 and FLIP-191.
    """

    @abstractmethod
    def create_writer(self, context: WriterInitContext) -> SinkWriter[T]:
        """Make a writer without state; runs in a task, at any epoch and in any process."""

    def for_type(self, type_info: TypeInformation | None) -> Sink[T]:
        """Return the sink for a stream of a type; ``sink_to`` asks once, this one takes any type.

        Args:
            type_info: The type of the stream, None for a stream without one.
        """
        del type_info
        return self


class SupportsCommitter(ABC, Generic[CommittableT]):
    """A sink whose writers are CommittingSinkWriters.

    Source: org.apache.flink.api.connector.sink2.SupportsCommitter.
    """

    @abstractmethod
    def create_committer(self, context: CommitterInitContext) -> Committer[CommittableT]:
        """Make the committer; runs on the driver, once for each start of the job."""

    def get_committable_serializer(self) -> SimpleVersionedSerializer[CommittableT]:
        """Return what turns committables into bytes; pickle, unless a sink overrides this."""
        return PickleSerializer()


class SupportsWriterState(ABC, Generic[T, WriterStateT]):
    """A sink whose writers are StatefulSinkWriters.

    Source: org.apache.flink.api.connector.sink2.SupportsWriterState.
    """

    @abstractmethod
    def restore_writer(
        self, context: WriterInitContext, recovered_state: Collection[WriterStateT]
    ) -> StatefulSinkWriter[T, WriterStateT]:
        """Make a writer that continues from a state; runs in a task, at any epoch and in any process.

        Args:
            context: The writer's surroundings.
            recovered_state: What one writer returned from its last accepted snapshot; parts of several writers', or
                nothing, when the parallelism changed.
        """

    def get_writer_state_serializer(self) -> SimpleVersionedSerializer[WriterStateT]:
        """Return what turns an item of state into bytes; pickle, unless a sink overrides this."""
        return PickleSerializer()


class StreamTransformer(ABC):
    """Rebuilds the stream in front of a sink's writers.

    Source: ``pyflink.datastream.connectors.base.StreamTransformer``.
    """

    @abstractmethod
    def apply(self, ds: Any) -> Any:
        """Return the DataStream that the writers shall read in place of ``ds``."""


class SupportsPreprocessing(ABC):
    """A sink that wants its input rebuilt first.

    Source: ``pyflink.datastream.connectors.base.SupportsPreprocessing``.
    """

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """Return what rebuilds the input; None leaves it as it is."""


show(
    "penstock.datastream.connectors.base",
    BatchContext,
    CommittingSinkWriter,
    DeliveryGuarantee,
    Sink,
    SinkWriter,
    SinkWriterContext,
    StatefulSinkWriter,
    StreamTransformer,
    SupportsCommitter,
    SupportsPreprocessing,
    SupportsWriterState,
    WriterInitContext,
)
