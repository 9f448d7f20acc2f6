"""The half of a source that runs in tasks: the reader and its outputs."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from penstock._api.connectors.split import SourceSplit
from penstock._shelf import show
from penstock.common.columns import records_of
from penstock.common.watermark_strategy import WatermarkOutput
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock._api.connectors.split import SourceEvent
    from penstock.common.configuration import Configuration
    from penstock.metrics.metricbase import MetricGroup

T = TypeVar("T")
SplitT = TypeVar("SplitT", bound=SourceSplit)


class InputStatus(Enum):
    """The answer of a reader to a poll.

    Source: org.apache.flink.core.io.InputStatus.
    """

    MORE_AVAILABLE = "more_available"
    """Poll again: there is more, or there may be."""
    NOTHING_AVAILABLE = "nothing_available"
    """Nothing now; ``SourceReader.is_available`` says when to poll again."""
    END_OF_INPUT = "end_of_input"
    """Nothing any more: never poll again."""


class SourceOutput(WatermarkOutput, Generic[T]):
    """The output for the records of one split, or of a reader that does not distinguish its splits.

    Attributes:
        takes_batches: Whether ``collect_batch`` is better than records here: the next operators work on columns, or
            send them on as they are. It may change from poll to poll. Batches and records may come in any case, and in
            any order. Ours.

    Source: org.apache.flink.api.connector.source.SourceOutput.
    """

    takes_batches: bool = False

    @property
    def wanted(self) -> int:
        """The number of records that the running epoch still has room for, at least 1; more of them only prolong it."""
        return sys.maxsize

    @abstractmethod
    def collect(self, record: T, timestamp: int | None = None) -> None:
        """Emit one record.

        Args:
            record: The record.
            timestamp: Its timestamp in milliseconds since the epoch; None without one.
        """

    def collect_all(self, records: list[T], timestamps: Sequence[int] | None = None) -> None:
        """Emit a block of records, which is much faster than one ``collect`` for each.

        Args:
            records: The records in order. The list belongs to the output from now on.
            timestamps: One for each record; None without any.
        """
        if timestamps is None:
            for record in records:
                self.collect(record)
        else:
            for record, timestamp in zip(records, timestamps, strict=True):
                self.collect(record, timestamp)

    def collect_batch(self, batch: pa.RecordBatch, timestamps: pa.Array[Any] | Sequence[int] | None = None) -> None:
        """Emit columns, each row of which is a record; ours. By default the records are emitted.

        The type of the source (``Source.get_produced_type``) determines the records: without a type they are dicts;
        with a row type Rows; with a tuple type tuples; with any other type the values of the only column. Operators on
        records get such records, and other operators get the columns.

        Args:
            batch: The columns; at most some 10,000 rows, as for ``poll_next``.
            timestamps: One for each row, in milliseconds since the epoch, or a column of points in time; None when the
                source knows none.

        Raises:
            BatchColumnsError: The columns cannot be records of the source's type.
            TimestampError: A timestamp is missing or invalid.

        Example:
            >>> import pyarrow as pa
            >>> from penstock.testing.connector_contexts import RecordingOutput
            >>> output = RecordingOutput()
            >>> output.collect_batch(pa.RecordBatch.from_pydict({"id": [1, 2]}), [10, 20])
            >>> output.records, output.timestamps
            ([{'id': 1}, {'id': 2}], [10, 20])
        """
        self.collect_all(self.records_of(batch), None if timestamps is None else _as_list(timestamps))

    def records_of(self, batch: pa.RecordBatch) -> list[T]:
        """Return the records of a batch; ours. Here they are dicts."""
        return records_of(batch)


def _as_list(timestamps: pa.Array[Any] | Sequence[int]) -> list[int]:
    """Return timestamps as whole milliseconds."""
    column: Any = timestamps
    if not hasattr(column, "to_pylist"):
        return list(timestamps)
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    return column.cast(pa.int64()).to_pylist()


class ReaderOutput(SourceOutput[T]):
    """The output for the records of one reader.

    A reader with several splits should emit through one output for each: only then is its watermark the smallest of its
    splits'.

    Source: org.apache.flink.api.connector.source.ReaderOutput.
    """

    @abstractmethod
    def create_output_for_split(self, split_id: str) -> SourceOutput[T]:
        """Return the output of one split; the same one until it is released."""

    @abstractmethod
    def release_output_for_split(self, split_id: str) -> None:
        """Release the output of a split that ended, so that it no longer holds the watermark back."""


class SourceReaderContext(Protocol):
    """The context of a reader, provided by the engine.

    Source: org.apache.flink.api.connector.source.SourceReaderContext.
    """

    @property
    def metric_group(self) -> MetricGroup:
        """The group of the reader's metrics."""
        ...

    @property
    def configuration(self) -> Configuration:
        """The job's configuration."""
        ...

    @property
    def index_of_subtask(self) -> int:
        """The reader's subtask, from 0."""
        ...

    @property
    def current_parallelism(self) -> int:
        """The number of the source's subtasks."""
        ...

    def send_split_request(self) -> None:
        """Request a split from the enumerator; it arrives with a later epoch."""
        ...

    def send_source_event_to_coordinator(self, source_event: SourceEvent) -> None:
        """Send an event to the enumerator; it arrives once this epoch's checkpoint is durable."""
        ...

    def end_job_input(self) -> None:
        """End the input of the whole job, for example after a message that asks for it; not in Flink.

        This reader is not polled again. Once the epoch's checkpoint is durable all other readers of the job end, too,
        in the next epoch: windows and timers fire, everything is committed, and the job is FINISHED.
        """
        ...


class SourceReader(ABC, Generic[T, SplitT]):
    """Reads the splits that are assigned to its subtask.

    Runs in a task, on one thread. The engine makes a reader, gives it its splits with ``add_splits``, calls ``start``
    and then polls. It may keep the reader from epoch to epoch or make a new one in another process at any epoch from
    the last snapshot, so **only the snapshot is lasting memory**. Records that a reader emitted after its last
    checkpoint are undone if the job fails, and read again.

    Attributes:
        emits_new_records: True if the reader makes each record anew, and neither keeps nor changes it afterwards. Its
            records are then passed on without a copy; records of other readers are copied when they are emitted.
        record_type: The type of all records, if that is an immutable built-in type such as int.

    Source: org.apache.flink.api.connector.source.SourceReader.
    """

    emits_new_records: bool = False
    record_type: type | None = None

    def start(self) -> None:
        """Begin; runs once, after the restored splits were added and before the first poll."""

    @abstractmethod
    def poll_next(self, output: ReaderOutput[T]) -> InputStatus:
        """Emit the next records, at most some thousand, without waiting.

        Args:
            output: Takes the records.

        Returns:
            END_OF_INPUT only when ``notify_no_more_splits`` was called and all splits are read to their end.

        Raises:
            Exception: Any error fails the job.
        """

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> list[SplitT]:
        """Return the splits still to be read, each with the position after the last emitted record.

        Runs at the end of each epoch. The reader continues afterwards, so later reads must not change the returned
        splits.
        """

    def is_available(self, timeout_ms: int = 0) -> bool:
        """Wait until a poll may return records, at most for a time.

        Called after NOTHING_AVAILABLE; False ends the subtask's part of the epoch. It replaces Flink's future of that
        name; a reader that only a new split can wake returns False.

        Args:
            timeout_ms: The longest wait in milliseconds.

        Returns:
            Whether to poll again.
        """
        del timeout_ms
        return False

    @abstractmethod
    def add_splits(self, splits: list[SplitT]) -> None:
        """Take more splits to read, new or restored."""

    @abstractmethod
    def notify_no_more_splits(self) -> None:
        """Note that no split will be added any more; called again for a recreated reader, before ``start``."""

    def handle_source_events(self, source_event: SourceEvent) -> None:
        """Take an event from the enumerator."""

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        """Pause some splits, whose watermark is too far ahead, and resume others.

        Args:
            splits_to_pause: Ids of splits.
            splits_to_resume: Ids of splits that were paused.

        Raises:
            UnsupportedOperationError: This reader cannot distinguish its splits.
        """
        del splits_to_pause, splits_to_resume
        raise UnsupportedOperationError(
            f"pausing single splits of {type(self).__name__}",
            "it reads its splits as one; let each subtask read one split, leave out the watermark alignment, or set "
            "pipeline.watermark-alignment.allow-unaligned-source-splits",
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Note that a checkpoint is durable, for example to acknowledge messages.

        Runs with the next epoch, perhaps in a recreated reader, and perhaps only for the newest of several.
        """

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Note that a checkpoint will not complete."""

    def close(self) -> None:
        """Release all resources; may be called twice, and is not called when the process is killed."""


show("penstock.datastream.connectors.base", InputStatus, ReaderOutput, SourceOutput, SourceReader, SourceReaderContext)
