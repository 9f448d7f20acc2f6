"""The outputs of a reader: they build batches with timestamps, and combine the watermarks of its splits."""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, Any, Final

from penstock._api.connectors.reader import ReaderOutput, SourceOutput
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.columns import ColumnBatch, time_column
from penstock._engine.protocol.rows import MIN_WATERMARK, NO_TIMESTAMP
from penstock._engine.protocol.times import checked_time, checked_timestamps
from penstock.common.columns import RecordLayout, check_columns, records_of
from penstock.common.copies import copy_all_if_mutable, copy_if_mutable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._engine.operators.batch import Batch
    from penstock._engine.operators.head import InputHead
    from penstock._engine.operators.sources.watermarks import TimestampsAndWatermarks

#: The size of the batches into which single records are collected.
_BATCH_RECORDS: Final = 2048


class SplitOutput(SourceOutput[Any]):
    """The output of one split, or of a whole reader: assigns timestamps and one watermark."""

    def __init__(self, reader: EpochReaderOutput, marker: TimestampsAndWatermarks | None) -> None:
        self._reader = reader
        self.marker = marker
        self._records: list[Any] = []
        self._stamps: list[int] = []
        self.emitted = MIN_WATERMARK
        self.idle = False
        #: Whether its split waits because it is ahead of its watermark alignment group.
        self.paused = False
        #: Whether it has emitted anything yet, and whether it has emitted records in this epoch.
        self.used = False
        self.had_records = False

    @property
    def wanted(self) -> int:
        return self._reader.wanted

    @property
    def watermark(self) -> int:
        return self.emitted if self.marker is None else max(self.emitted, self.marker.watermark)

    def collect(self, record: Any, timestamp: int | None = None) -> None:
        self._records.append(copy_if_mutable(record) if self._reader.copies else record)
        self._stamps.append(NO_TIMESTAMP if timestamp is None else timestamp)
        if len(self._records) >= _BATCH_RECORDS:
            self.flush()

    def collect_all(self, records: list[Any], timestamps: Sequence[int] | None = None) -> None:
        self.flush()
        if self._reader.copies:
            records = copy_all_if_mutable(records)
        self._emit(records, None if timestamps is None else list(timestamps))

    def collect_batch(self, batch: Any, timestamps: Any = None) -> None:
        self.flush()
        check_columns(batch, self._reader.layout)
        stamps = None if timestamps is None else time_column(timestamps, batch.num_rows)
        columns = ColumnBatch(batch, self._reader.layout, stamps)
        if self.marker is None:
            self._reader.emit(columns, self)
            return
        for piece in columns.pieces() if self.marker.needs_rows else (columns,):
            self._reader.emit(self.marker.stamp_columns(piece, self._reader.head.iterate), self)

    def records_of(self, batch: Any) -> list[Any]:
        return records_of(batch, self._reader.layout)

    def flush(self) -> None:
        if self._records:
            records, self._records = self._records, []
            stamps, self._stamps = self._stamps, []
            self._emit(records, stamps if any(stamp != NO_TIMESTAMP for stamp in stamps) else None)

    def _emit(self, records: list[Any], stamps: list[int] | None) -> None:
        if stamps is not None:
            stamps = checked_timestamps(stamps, records)
        if self.marker is None:
            self._reader.emit(RowBatch(records, stamps, shape=self._reader.record_type), self)
        else:
            self._reader.emit(self.marker.stamp(records, self._reader.head.iterate, stamps), self)

    def emit_watermark(self, watermark: int) -> None:
        self.flush()
        watermark = checked_time("A watermark", watermark)
        if watermark > self.emitted:
            self.emitted = watermark
            self._reader.emit(RowBatch([], None, [(0, watermark)]), self)

    def mark_idle(self) -> None:
        self.flush()
        self.idle = True

    def mark_active(self) -> None:
        self.idle = False

    def pause(self) -> None:
        """Note that the split is not read for now; that time does not make it idle."""
        self.paused = True
        if self.marker is not None:
            self.marker.pause()

    def resume(self) -> None:
        """Undo `pause`."""
        self.paused = False
        if self.marker is not None:
            self.marker.resume()


class EpochReaderOutput(ReaderOutput[Any]):
    """The output of a reader: the batches of an epoch, with the smallest watermark of its splits.

    Args:
        head: The operator that calls the reader.
        layout: The Python type of the records of column batches.
        new_marker: Returns the timestamps and watermarks of one output; None for a strategy without any.
    """

    def __init__(
        self, head: InputHead, layout: RecordLayout, new_marker: Callable[[], TimestampsAndWatermarks | None]
    ) -> None:
        self.head = head
        self.batches: list[Batch] = []
        self.layout = layout
        self._new_marker = new_marker
        #: Whether emitted records are copied, because the reader may keep them.
        self.copies = True
        self.record_type: type | None = None
        self.records = 0
        #: The number of records that the running epoch may read; 0 for no limit.
        self.limit = 0
        self.top = MIN_WATERMARK
        self.main = SplitOutput(self, new_marker())
        self.splits: dict[str, SplitOutput] = {}

    @property
    def wanted(self) -> int:
        return max(1, self.limit - self.records) if self.limit else sys.maxsize

    def collect(self, record: Any, timestamp: int | None = None) -> None:
        self.main.collect(record, timestamp)

    def collect_all(self, records: list[Any], timestamps: Sequence[int] | None = None) -> None:
        self.main.collect_all(records, timestamps)

    def collect_batch(self, batch: Any, timestamps: Any = None) -> None:
        self.main.collect_batch(batch, timestamps)

    def records_of(self, batch: Any) -> list[Any]:
        return self.main.records_of(batch)

    def emit_watermark(self, watermark: int) -> None:
        self.main.emit_watermark(watermark)

    def mark_idle(self) -> None:
        self.main.mark_idle()

    def mark_active(self) -> None:
        self.main.mark_active()

    def create_output_for_split(self, split_id: str) -> SplitOutput:
        output = self.splits.get(split_id)
        if output is None:
            output = self.splits[split_id] = SplitOutput(self, self._new_marker())
            output.takes_batches = self.takes_batches
        return output

    def release_output_for_split(self, split_id: str) -> None:
        output = self.splits.get(split_id)
        if output is not None:
            output.flush()  # while it counts: the last split's watermark is not that of the main output
            del self.splits[split_id]

    def emit(self, batch: Batch, origin: SplitOutput) -> None:
        """Add a batch of one split; its watermarks are limited by the other splits' watermarks."""
        count = len(batch)
        self.records += count
        origin.idle, origin.used = False, True
        if count:
            origin.had_records = True
            # The reader's own output is active too: it counts while there are no splits.
            for marker in (origin.marker, self.main.marker):
                if marker is not None:
                    marker.see()
        if batch.watermarks:
            others = [split.watermark for split in self._speaking() if split is not origin]
            bound = min(others, default=None)
            marks = [(place, mark if bound is None else min(mark, bound)) for place, mark in batch.watermarks]
            batch.watermarks = [mark for mark in marks if self._advances(mark[1])]
        if count or batch.watermarks:
            self.batches.append(batch)

    def _advances(self, watermark: int) -> bool:
        if watermark <= self.top:
            return False
        self.top = watermark
        return True

    def _speaking(self) -> list[SplitOutput]:
        """Return the outputs that count for the watermark: all except idle ones."""
        outputs = self._in_use()
        return [output for output in outputs if not (output.idle or (output.marker and output.marker.is_idle()))]

    def _in_use(self) -> list[SplitOutput]:
        if self.main.used:  # then a split without records may use the main output
            return [self.main, *(split for split in self.splits.values() if split.used)]
        return list(self.splits.values()) or [self.main]

    def periodic(self) -> int | None:
        """Let generators emit, and combine the watermarks again, as splits may have ended; None if it does not rise."""
        for output in self._all():
            if output.marker is not None:
                output.marker.periodic()
        combined = self.combined
        return combined if self._advances(combined) else None

    @property
    def combined(self) -> int:
        """The smallest watermark of all outputs that count; it may be behind the last one that was emitted."""
        return min((output.watermark for output in self._speaking()), default=MIN_WATERMARK)

    def is_idle(self) -> bool:
        """Return whether all splits are idle."""
        return not self._speaking()

    def begin_epoch(self, limit: int) -> None:
        """Begin to count the records of an epoch, which wants up to `limit`; 0 for no limit."""
        self.records, self.limit = 0, limit
        self.takes_batches = self.head.takes_batches
        for output in self._all():
            output.had_records, output.takes_batches = False, self.takes_batches

    @property
    def undecided_ms(self) -> float:
        """The time until the last split without records in this epoch becomes idle; 0 for none."""
        quiet = [output for output in self._in_use() if not (output.had_records or output.idle or output.paused)]
        return max((output.marker.left_ms for output in quiet if output.marker is not None), default=0.0)

    def _all(self) -> tuple[SplitOutput, ...]:
        return (self.main, *self.splits.values())

    def flush(self) -> None:
        """Make batches of single records."""
        for output in self._all():
            output.flush()

    def drain(self) -> list[Batch]:
        """Return the batches since the last call."""
        batches, self.batches = self.batches, []
        return batches

    def state(self) -> bytes:
        """Return the state from which a new output continues."""
        markers = {name: split.marker.state() for name, split in self.splits.items() if split.marker is not None}
        main = None if self.main.marker is None else self.main.marker.state()
        return pickle.dumps((self.top, main, markers))

    def restore(self, state: bytes, *, starts: bool) -> None:
        """Restore a state; `starts` is True in the first epoch after a start of the job."""
        self.top, main, markers = pickle.loads(state)
        if main is not None and self.main.marker is not None:
            self.main.marker.restore(main, starts=starts)
        for name, marker_state in markers.items():
            marker = self.create_output_for_split(name).marker
            if marker is not None:
                marker.restore(marker_state, starts=starts)
