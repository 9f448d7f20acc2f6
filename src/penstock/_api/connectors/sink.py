"""The half of a sink that runs in tasks: the sink itself and its writer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from penstock._api.connectors.committer import HasCommittables
from penstock._api.connectors.serializer import PickleSerializer
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

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
    """The context of a writer, provided by the engine.

    The engine may keep a writer for many epochs, and ``checkpoint_id`` and ``attempt_token`` change with each one: a
    writer reads them when it stages data and does not keep them.

    Source: org.apache.flink.api.connector.sink2.WriterInitContext.
    """

    @property
    def metric_group(self) -> MetricGroup:
        """The group of the writer's metrics."""
        ...

    @property
    def job_id(self) -> str:
        """The job, 32 hexadecimal digits."""
        ...

    @property
    def run_id(self) -> str:
        """This run of the job: 32 hexadecimal digits, unique among all runs of all jobs.

        Two jobs have the same id if users set it, or if a checkpoint directory was copied. So the names of staged data
        contain the job and the run, and a committer removes only data of its own runs
        (``CommitterInitContext.earlier_runs``).
        """
        ...

    @property
    def earlier_runs(self) -> tuple[str, ...]:
        """The runs that this one continues, oldest first; the same as in the committer's context.

        A job may start from a checkpoint of another job, or of a run that it does not continue. Data that such a run
        has staged does not belong to this job: the other job may publish and remove it at any time, and several jobs
        may start from that checkpoint. A writer whose state names such data copies it under a name of its own.
        """
        ...

    @property
    def operator_uid(self) -> str:
        """The sink's uid, the same as in the committer's context."""
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
        """The checkpoint that the writer starts from; None if the job started without one."""
        ...

    @property
    def checkpoint_id(self) -> int:
        """The checkpoint that the records being written belong to."""
        ...

    @property
    def for_savepoint(self) -> bool:
        """Whether that checkpoint becomes a savepoint.

        Jobs may start from a savepoint at any time, several from the same one, and while the job that made it keeps
        running. So a writer leaves no unfinished data in it: all staged data becomes committables.
        """
        ...

    @property
    def attempt_token(self) -> str:
        """The unique name of this attempt at this epoch; the names of staged data contain it.

        It consists of letters, digits and hyphens, so that it can be a part of a file's or a table's name.

        Several attempts of one epoch may run, even at the same time. Only one is accepted; the data of the others is
        never committed, and is known by the token in its name.
        """
        ...

    def stage(self, data: bytes) -> str:
        """Write data into the checkpoint storage for the committer, durably, and return its name; not in Flink.

        For targets that cannot hold unfinished data themselves. The name, which contains the attempt's token, goes into
        a committable, and ``CommitterInitContext.read_staged`` returns the data. The engine deletes it when the
        committable is committed, or when the attempt has turned out void.

        Args:
            data: At best some MiB: each call makes one file or object.

        Raises:
            CheckpointStorageError: The storage does not take it.
        """
        ...


class SinkWriterContext(Protocol):
    """The context of one record in a writer.

    Source: org.apache.flink.api.connector.sink2.SinkWriter.Context.
    """

    def current_watermark(self) -> int:
        """Return the watermark in milliseconds since the epoch, -2**63 before the first."""
        ...

    def timestamp(self) -> int | None:
        """Return the record's time in milliseconds since the epoch, None without one."""
        ...


class BatchContext(Protocol):
    """The context of a batch of columns for a writer; ours."""

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
    """The context of the records of a block, moved from one to the next; it has no watermark."""

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
    ``snapshot_state`` where the writer has them, with no write between. The writer continues with the next epoch in the
    same process, or another one is made from its state anywhere, so all data has to be flushed, staged or in the state
    by then. Connections may outlive an epoch. Staged data outlives it only through the state, and exclusive names such
    as transactional ids belong to the committer. A new writer repeats a failed epoch; the output of the failed one must
    then be invisible (two-phase commit) or harmless (at least once).

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
        """Write a block of records; the engine calls this method. Faster writers override it.

        Args:
            elements: The records in order. They are shared with other consumers and must not be changed.
            timestamps: One for each record; None without any.
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
        """Send buffered records to the target or its staging area, and wait until they are there.

        Args:
            end_of_input: Whether no more records follow, so that nothing may stay open. True once, at a normal end
                only.
        """

    def write_watermark(self, watermark: int) -> None:
        """Take a watermark, in milliseconds since the epoch; watermarks only grow."""

    def close(self) -> None:
        """Release all resources; may be called twice, and is not called when the process is killed.

        It may be called late, when another writer has begun the next epoch, and must not touch that writer's staged
        data.
        """


class CommittingSinkWriter(SinkWriter[T], Generic[T, CommittableT]):
    """A writer that stages data for a committer to publish.

    Source: org.apache.flink.api.connector.sink2.CommittingSinkWriter.
    """

    @abstractmethod
    def prepare_commit(self) -> Collection[CommittableT]:
        """Return the committables of all finished data, in the order of publication.

        Runs once for each checkpoint, after ``flush``. The staged data of the committables must be durable by now.
        """


class StatefulSinkWriter(SinkWriter[T], Generic[T, WriterStateT]):
    """A writer with a state that lasts from epoch to epoch.

    Source: org.apache.flink.api.connector.sink2.StatefulSinkWriter.
    """

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> list[WriterStateT]:
        """Return the state; at another parallelism its items are redistributed among the writers.

        Runs once for each checkpoint, after ``prepare_commit``. The state after the last ``flush`` is kept as long as
        other writers of the sink continue, which get it if the job starts at another parallelism. Data that has to be
        visible in any case must be committed by then.
        """


class Sink(ABC, Generic[T]):
    """The target of records: makes the writers in the tasks.

    A sink that publishes by checkpoint also implements :class:`SupportsCommitter`, and a sink with unfinished data
    between checkpoints :class:`SupportsWriterState`. The sink is pickled with the job and holds its description only.
    In PyFlink this class wraps a Java object; here it is the interface itself, and sinks are written in Python.

    Source: org.apache.flink.api.connector.sink2.Sink, FLIP-143 and FLIP-191.
    """

    @abstractmethod
    def create_writer(self, context: WriterInitContext) -> SinkWriter[T]:
        """Make a writer without state; runs in a task, at any epoch and in any process."""

    def for_type(self, type_info: TypeInformation | None) -> Sink[T]:
        """Return the sink for a stream of a type; ``sink_to`` calls it once. By default a sink takes any type.

        Args:
            type_info: The type of the stream; None for a stream without one.
        """
        del type_info
        return self

    def storage_paths(self) -> Sequence[str]:
        """Return the folders that writers and committers share, local or in object stores; none by default. Ours.

        On a cluster a job begins only when what a host writes there is there for the driver, too.
        """
        return ()

    @staticmethod
    def from_function(function: Callable[[T], object], *, flush: Callable[[], object] | None = None) -> Sink[T]:
        """Return a sink that calls a function with each record, at least once; ours.

        The function runs in the tasks. After a failure it is called again with the records since the last checkpoint.

        Args:
            function: The function.
            flush: Called at the end of each checkpoint; then all records have to be in the target.

        Example:
            >>> sink = Sink.from_function(print)
        """
        return _FunctionSink(function, flush)


class _FunctionSink(Sink[T], Generic[T]):
    def __init__(self, function: Callable[[T], object], flush: Callable[[], object] | None) -> None:
        self._function, self._flush = function, flush

    def create_writer(self, context: WriterInitContext) -> SinkWriter[T]:
        del context
        return _FunctionWriter(self._function, self._flush)


class _FunctionWriter(SinkWriter[T], Generic[T]):
    def __init__(self, function: Callable[[T], object], flush: Callable[[], object] | None) -> None:
        self._function, self._flush = function, flush

    def write(self, element: T, context: SinkWriterContext) -> None:
        del context
        self._function(element)

    def flush(self, end_of_input: bool) -> None:
        del end_of_input
        if self._flush is not None:
            self._flush()


class SupportsCommitter(HasCommittables[CommittableT], Generic[CommittableT]):
    """A sink with a committer.

    Source: org.apache.flink.api.connector.sink2.SupportsCommitter.
    """

    @abstractmethod
    def create_committer(self, context: CommitterInitContext) -> Committer[CommittableT]:
        """Make the committer; runs on the driver, once for each start of the job."""


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
            context: The writer's context.
            recovered_state: The state that one writer returned at its last accepted snapshot; after a change of the
                parallelism parts of several writers' states, or nothing.
        """

    def get_writer_state_serializer(self) -> SimpleVersionedSerializer[WriterStateT]:
        """Return the serializer of state items; pickle, unless a sink overrides this."""
        return PickleSerializer()


show(
    "penstock.datastream.connectors.base",
    BatchContext,
    CommittingSinkWriter,
    DeliveryGuarantee,
    Sink,
    SinkWriter,
    SinkWriterContext,
    StatefulSinkWriter,
    SupportsCommitter,
    SupportsWriterState,
    WriterInitContext,
)
