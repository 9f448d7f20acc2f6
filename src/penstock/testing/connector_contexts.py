"""The contexts of sources and sinks for tests without an engine: plain objects that record calls."""

from __future__ import annotations

import sys
import uuid
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from penstock._api.connectors.reader import ReaderOutput, SourceOutput
from penstock._api.connectors.source import ReaderInfo, SplitsAssignment
from penstock.common.columns import RecordLayout, int64_column, layout_of, records_of
from penstock.common.configuration import Configuration
from penstock.metrics.in_memory import InMemoryMetricGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._api.connectors.sink import SinkWriter
    from penstock._api.connectors.split import SourceEvent
    from penstock.common.typeinfo import TypeInformation

__all__ = [
    "AsyncCall",
    "RecordingOutput",
    "TestBatchContext",
    "TestCommitRequest",
    "TestCommitterContext",
    "TestEnumeratorContext",
    "TestReaderContext",
    "TestWriterContext",
]

#: The job of contexts and runs that are given no other. Each process has one of its own: tests that run beside each
#: other share servers, and a committer that has another one's name fences it.
JOB_ID: Final = uuid.uuid4().hex


class RecordingOutput(ReaderOutput[Any]):
    """Keeps what a reader emits.

    Args:
        wanted: The number of records that each poll has room for.
        takes_batches: Whether the reader is told to emit batches; their records are kept in either case.
        type_info: The type of the source, which determines the records of a batch.

    Example:
        >>> output = RecordingOutput()
        >>> output.create_output_for_split("a").collect_all([1, 2], [10, 20])
        >>> output.records, output.timestamps, output.open_splits
        ([1, 2], [10, 20], {'a'})
    """

    def __init__(
        self, wanted: int = sys.maxsize, *, takes_batches: bool = False, type_info: TypeInformation | None = None
    ) -> None:
        self._wanted = wanted
        self.takes_batches: bool = takes_batches
        self._layout = layout_of(type_info)
        self.batches: int = 0
        self.records: list[Any] = []
        self.timestamps: list[int | None] = []
        self.watermarks: list[int] = []
        self.open_splits: set[str] = set()
        self.idle: bool = False

    def __repr__(self) -> str:
        return f"<RecordingOutput: {len(self.records)} records, {len(self.watermarks)} watermarks>"

    @property
    def wanted(self) -> int:
        """The number of records that the output has room for."""
        return self._wanted

    def collect_batch(self, batch: Any, timestamps: Any = None) -> None:
        """Count a batch, and keep its records."""
        self.batches += 1
        super().collect_batch(batch, timestamps)

    def records_of(self, batch: Any) -> list[Any]:
        """Return the records of a batch, as the engine makes them."""
        return records_of(batch, self._layout)

    def collect(self, record: Any, timestamp: int | None = None) -> None:
        """Keep a record."""
        self.records.append(record)
        self.timestamps.append(timestamp)

    def emit_watermark(self, watermark: int) -> None:
        """Keep a watermark."""
        self.watermarks.append(watermark)

    def mark_idle(self) -> None:
        """Note it."""
        self.idle = True

    def mark_active(self) -> None:
        """Note it."""
        self.idle: bool = False

    def create_output_for_split(self, split_id: str) -> SourceOutput[Any]:
        """Note the split; its records come to the same list."""
        self.open_splits.add(split_id)
        return self

    def release_output_for_split(self, split_id: str) -> None:
        """Note that the split ended."""
        self.open_splits.discard(split_id)


@dataclass
class TestReaderContext:
    """Counts a reader's split requests, and keeps its other calls."""

    __test__ = False  # not a test class, despite its name

    index_of_subtask: int = 0
    current_parallelism: int = 1
    configuration: Configuration = field(default_factory=Configuration)
    metric_group: InMemoryMetricGroup = field(default_factory=InMemoryMetricGroup)
    split_requests: int = 0
    events: list[SourceEvent] = field(default_factory=list["SourceEvent"])
    ends_input: bool = False

    def send_split_request(self) -> None:
        """Count a request."""
        self.split_requests += 1

    def end_job_input(self) -> None:
        """Note that the reader ended the job's input."""
        self.ends_input = True

    def send_source_event_to_coordinator(self, source_event: SourceEvent) -> None:
        """Keep an event."""
        self.events.append(source_event)


@dataclass(frozen=True, slots=True)
class AsyncCall:
    """One ``call_async`` of an enumerator."""

    callable: Callable[[], Any]
    handler: Callable[[Any, Exception | None], None]
    initial_delay_ms: int
    period_ms: int | None


@dataclass
class TestEnumeratorContext:
    """Records the assignments and events of an enumerator; ``run_async_calls`` runs its asynchronous calls."""

    __test__ = False

    current_parallelism: int = 1
    metric_group: InMemoryMetricGroup = field(default_factory=InMemoryMetricGroup)
    registered_readers: dict[int, ReaderInfo] = field(default_factory=dict[int, ReaderInfo])
    assigned: dict[int, list[Any]] = field(default_factory=dict[int, list[Any]])
    no_more_splits: set[int] = field(default_factory=set[int])
    events: list[tuple[int, SourceEvent]] = field(default_factory=list["tuple[int, SourceEvent]"])
    async_calls: list[AsyncCall] = field(default_factory=list[AsyncCall])
    processing_backlog: bool = False
    is_batch: bool = False

    def register(self, subtask_id: int) -> None:
        """Register a reader; the caller has to call the enumerator's ``add_reader``."""
        self.registered_readers[subtask_id] = ReaderInfo(subtask_id)

    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        """Keep an event."""
        self.events.append((subtask_id, event))

    def assign_splits(self, new_split_assignments: SplitsAssignment[Any]) -> None:
        """Keep an assignment.

        Raises:
            AssertionError: A reader is not registered, or has the signal of no more splits.
        """
        for subtask_id in new_split_assignments.assignment:
            assert subtask_id in self.registered_readers, f"splits assigned to subtask {subtask_id}, not registered"
            assert subtask_id not in self.no_more_splits, f"splits assigned to subtask {subtask_id} after its last"
        for subtask_id, splits in new_split_assignments.assignment.items():
            self.assigned.setdefault(subtask_id, []).extend(splits)

    def assign_split(self, split: Any, subtask: int) -> None:
        """Keep an assignment of one split."""
        self.assign_splits(SplitsAssignment({subtask: [split]}))

    def signal_no_more_splits(self, subtask: int) -> None:
        """Note it.

        Raises:
            AssertionError: The reader is not registered.
        """
        assert subtask in self.registered_readers, f"subtask {subtask} is told of no more splits, but not registered"
        self.no_more_splits.add(subtask)

    def call_async(
        self,
        callable: Callable[[], Any],  # noqa: A002 - Flink's name
        handler: Callable[[Any, Exception | None], None],
        initial_delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> None:
        """Keep a call."""
        self.async_calls.append(AsyncCall(callable, handler, initial_delay_ms, period_ms))

    def run_async_calls(self) -> None:
        """Run each call once, as if it were due; calls without a period are then removed."""
        calls = list(self.async_calls)
        self.async_calls = [call for call in calls if call.period_ms is not None]
        for call in calls:
            try:
                result, error = call.callable(), None
            except Exception as raised:  # noqa: BLE001 - the handler takes it
                result, error = None, raised
            call.handler(result, error)

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        """Note it."""
        self.processing_backlog = is_processing_backlog


@dataclass
class TestWriterContext:
    """A writer's context, which a test may change from epoch to epoch."""

    __test__ = False

    subtask_id: int = 0
    number_of_parallel_subtasks: int = 1
    attempt_number: int = 0
    restored_checkpoint_id: int | None = None
    checkpoint_id: int = 1
    for_savepoint: bool = False
    attempt_token: str = "token"  # noqa: S105 - no secret
    job_id: str = JOB_ID
    run_id: str = "1" * 32
    earlier_runs: tuple[str, ...] = ()
    operator_uid: str = "sink"
    metric_group: InMemoryMetricGroup = field(default_factory=InMemoryMetricGroup)
    #: What was staged, by name; the committer's context is given the same.
    staged: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def stage(self, data: bytes) -> str:
        """Keep staged data."""
        name = f"{self.run_id}-{self.checkpoint_id}-{self.attempt_token}-{len(self.staged)}"
        self.staged[name] = data
        return name


class TestBatchContext:
    """The context of a batch of columns for a writer.

    Args:
        batch: The batch.
        timestamps: The times of its records, in milliseconds.
        type_info: The type of the stream, which determines its records.

    Example:
        >>> import pyarrow as pa
        >>> TestBatchContext(pa.RecordBatch.from_pydict({"id": [1]})).records()
        [{'id': 1}]
    """

    __test__ = False

    def __init__(
        self, batch: Any, timestamps: Sequence[int] | None = None, type_info: TypeInformation | None = None
    ) -> None:
        self._batch, self._layout = batch, layout_of(type_info)
        self.timestamps: Any = None if timestamps is None else int64_column(timestamps)
        self.has_names: bool = self._layout in {RecordLayout.DICTS, RecordLayout.ROWS}

    def __repr__(self) -> str:
        return f"<TestBatchContext: {len(self.records())} records>"

    def records(self) -> list[Any]:
        """Return the records."""
        return records_of(self._batch, self._layout)


@dataclass
class TestCommitterContext:
    """A committer's context."""

    __test__ = False

    job_id: str = JOB_ID
    operator_uid: str = "sink"
    restored_checkpoint_id: int | None = None
    run_id: str = "1" * 32
    earlier_runs: tuple[str, ...] = ()
    metric_group: InMemoryMetricGroup = field(default_factory=InMemoryMetricGroup)
    #: What was staged, by name.
    staged: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def read_staged(self, name: str) -> bytes | None:
        """Return staged data."""
        return self.staged.get(name)


@dataclass
class TestCommitRequest:
    """A committable with the committer's answer."""

    __test__ = False

    committable: Any
    checkpoint_id: int = 1
    retries: int = 0
    already_committed: bool = False
    retry: bool = False
    known_failure: BaseException | None = None
    unknown_failure: BaseException | None = None
    may_be_committed: bool = False
    subtask_id: int = 0

    def get_committable(self) -> Any:
        """Return the committable."""
        return self.committable

    def get_number_of_retries(self) -> int:
        """Return how often it was put off."""
        return self.retries

    def signal_failed_with_known_reason(self, error: BaseException) -> None:
        """Note it."""
        self.known_failure = error

    def signal_failed_with_unknown_reason(self, error: BaseException) -> None:
        """Note it."""
        self.unknown_failure = error

    def retry_later(self) -> None:
        """Note it."""
        self.retry = True

    def update_and_retry_later(self, committable: Any) -> None:
        """Note it."""
        self.committable, self.retry = committable, True

    def signal_already_committed(self) -> None:
        """Note it."""
        self.already_committed = True


def requests_for(
    committables: Sequence[Any], checkpoint_id: int = 1, *, may_be_committed: bool = False
) -> list[TestCommitRequest]:
    """Return requests of one checkpoint."""
    return [
        TestCommitRequest(committable, checkpoint_id, may_be_committed=may_be_committed) for committable in committables
    ]


def columns_of(records: Sequence[dict[str, Any]]) -> Any:
    """Return dicts as a batch of columns."""
    return cast("Any", pa.RecordBatch).from_pylist(list(records))


def write_items(writer: SinkWriter[Any], items: Sequence[Any]) -> None:
    """Write records in blocks, and batches of columns, in their order."""
    for is_batch, group in groupby(items, lambda item: isinstance(item, pa.RecordBatch)):
        if not is_batch:
            writer.write_all(list(group))
            continue
        for batch in group:
            writer.write_batch(batch, TestBatchContext(batch))
