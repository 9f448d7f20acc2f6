"""The head of a source's chain: a reader, its splits and events, and watermarks for each split."""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._api.connectors.reader import InputStatus, ReaderOutput, SourceOutput, SourceReader
from penstock._api.connectors.reader_base.sequential import SequentialSourceReader
from penstock._engine.operators.base import NOTHING, EpochContext, Operator, OperatorContext, Output
from penstock._engine.operators.batch import RowBatch, watermark_only
from penstock._engine.operators.watermarks import TimestampsAndWatermarks, periodic_watermarks
from penstock._engine.protocol.control import OperatorAck
from penstock._engine.protocol.events import (
    AddSplitsEvent,
    EndOfInputEvent,
    NoMoreSplitsEvent,
    ReaderState,
    SourceEventWrapper,
    decode_event,
)
from penstock._engine.protocol.rows import MIN_WATERMARK, NO_TIMESTAMP
from penstock._engine.protocol.times import checked_time, checked_timestamps
from penstock.common.configuration import Configuration
from penstock.common.copies import own, own_all
from penstock.common.watermark_strategy import WatermarkKind, WatermarkStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock._api.connectors.source import Source
    from penstock.metrics.metricbase import MetricGroup

#: Longest wait for a reader that has nothing ready, before its share of the epoch ends. Where idleness is still to be
#: found out, it waits on: that time is all that counts for it.
_PATIENCE_MS = 50
#: Records that are collected one by one are handed on in batches of this many.
_BATCH_RECORDS = 2048
#: A reader that has one of them of its own listens.
_NOTICES = ("notify_checkpoint_complete", "notify_checkpoint_aborted")


@dataclass(slots=True)
class ReadLimits:
    """How much one epoch may read: zero records or bytes stand for any number, and one poll always runs."""

    max_records: int
    max_bytes: int
    max_time_ms: int

    def reached(self, records: int, size: int, elapsed_ms: float) -> bool:
        """Tell whether reading has to end."""
        return elapsed_ms >= self.max_time_ms or (0 < self.max_records <= records) or (0 < self.max_bytes < size)


class ReaderContext:
    """What a reader can see and do: `penstock.datastream.connectors.base.SourceReaderContext`."""

    def __init__(self, context: OperatorContext) -> None:
        self.metric_group: MetricGroup = context.metrics
        self.configuration = Configuration.from_dict(context.configuration)
        self.index_of_subtask = context.subtask
        self.current_parallelism = context.parallelism
        self.split_requests = 0
        self.events: list[bytes] = []
        self.ends_input = False

    def send_split_request(self) -> None:
        self.split_requests += 1

    def send_source_event_to_coordinator(self, source_event: Any) -> None:
        self.events.append(pickle.dumps(source_event))

    def end_job_input(self) -> None:
        self.ends_input = True


class _SplitOutput(SourceOutput[Any]):
    """The output of one split, or of a whole reader: stamps records and follows one watermark."""

    def __init__(self, reader: _ReaderOutput, marker: TimestampsAndWatermarks | None) -> None:
        self._reader = reader
        self.marker = marker
        self._records: list[Any] = []
        self._stamps: list[int] = []
        self.emitted = MIN_WATERMARK
        self.idle = False
        #: Whether anything came out of it yet, and a record in this epoch.
        self.used = False
        self.had_records = False

    @property
    def wanted(self) -> int:
        return self._reader.wanted

    @property
    def watermark(self) -> int:
        return self.emitted if self.marker is None else max(self.emitted, self.marker.watermark)

    def collect(self, record: Any, timestamp: int | None = None) -> None:
        self._records.append(own(record) if self._reader.copies else record)
        self._stamps.append(NO_TIMESTAMP if timestamp is None else timestamp)
        if len(self._records) >= _BATCH_RECORDS:
            self.flush()

    def collect_all(self, records: list[Any], timestamps: Sequence[int] | None = None) -> None:
        self.flush()
        if self._reader.copies:
            records = own_all(records)
        self._emit(records, None if timestamps is None else list(timestamps))

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
            cursor = self._reader.operator.iterate(records)
            self._reader.emit(self.marker.stamp(records, cursor, stamps), self)

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


class _ReaderOutput(ReaderOutput[Any]):
    """The output of a reader: the batches of an epoch, with the smallest watermark of its splits."""

    def __init__(self, operator: SourceOperator) -> None:
        self.operator = operator
        self.batches: list[RowBatch] = []
        #: Whether the reader may go on having what it emits.
        self.copies = True
        self.record_type: type | None = None
        self.records = 0
        #: Records that the running epoch may read; 0 for any number.
        self.limit = 0
        self.top = MIN_WATERMARK
        self.main = _SplitOutput(self, operator.new_marker())
        self.splits: dict[str, _SplitOutput] = {}

    @property
    def wanted(self) -> int:
        return max(1, self.limit - self.records) if self.limit else sys.maxsize

    def collect(self, record: Any, timestamp: int | None = None) -> None:
        self.main.collect(record, timestamp)

    def collect_all(self, records: list[Any], timestamps: Sequence[int] | None = None) -> None:
        self.main.collect_all(records, timestamps)

    def emit_watermark(self, watermark: int) -> None:
        self.main.emit_watermark(watermark)

    def mark_idle(self) -> None:
        self.main.mark_idle()

    def mark_active(self) -> None:
        self.main.mark_active()

    def create_output_for_split(self, split_id: str) -> _SplitOutput:
        output = self.splits.get(split_id)
        if output is None:
            output = self.splits[split_id] = _SplitOutput(self, self.operator.new_marker())
        return output

    def release_output_for_split(self, split_id: str) -> None:
        output = self.splits.pop(split_id, None)
        if output is not None:
            output.flush()

    def emit(self, batch: RowBatch, origin: _SplitOutput) -> None:
        """Take a batch of one split; its watermarks count as far as no other split holds them back."""
        self.records += len(batch.records)
        origin.idle, origin.used = False, True
        if batch.records:
            origin.had_records = True
            # The reader as a whole is active, too: it counts as long as it has no split.
            for marker in (origin.marker, self.main.marker):
                if marker is not None:
                    marker.see()
        if batch.watermarks:
            others = [split.watermark for split in self._speaking() if split is not origin]
            bound = min(others, default=None)
            marks = [(place, mark if bound is None else min(mark, bound)) for place, mark in batch.watermarks]
            batch.watermarks = [mark for mark in marks if self._advances(mark[1])]
        if batch.records or batch.watermarks:
            self.batches.append(batch)

    def _advances(self, watermark: int) -> bool:
        if watermark <= self.top:
            return False
        self.top = watermark
        return True

    def _speaking(self) -> list[_SplitOutput]:
        """Return the outputs that count for the watermark: those that are not idle."""
        outputs = self._in_use()
        return [output for output in outputs if not (output.idle or (output.marker and output.marker.is_idle()))]

    def _in_use(self) -> list[_SplitOutput]:
        if self.main.used:  # then a split that is still silent may have no output of its own at all
            return [self.main, *(split for split in self.splits.values() if split.used)]
        return list(self.splits.values()) or [self.main]

    def periodic(self) -> int | None:
        """Let generators emit without a record, and look anew at splits that ended or fell idle; None for no rise."""
        for output in self._all():
            if output.marker is not None:
                output.marker.periodic()
        combined = min((output.watermark for output in self._speaking()), default=MIN_WATERMARK)
        return combined if self._advances(combined) else None

    def is_idle(self) -> bool:
        """Return whether all splits are idle."""
        return not self._speaking()

    def begin_epoch(self, limit: int) -> None:
        """Begin to count what an epoch reads, of which so many records are wanted; 0 for any number."""
        self.records, self.limit = 0, limit
        for output in self._all():
            output.had_records = False

    @property
    def undecided_ms(self) -> float:
        """How much longer a split without a record in this epoch has to be quiet until it is idle; 0 for none."""
        quiet = [output for output in self._in_use() if not (output.had_records or output.idle)]
        return max((output.marker.left_ms for output in quiet if output.marker is not None), default=0.0)

    def _all(self) -> tuple[_SplitOutput, ...]:
        return (self.main, *self.splits.values())

    def drain(self) -> list[RowBatch]:
        """Return the batches since the last call."""
        for output in self._all():
            output.flush()
        batches, self.batches = self.batches, []
        return batches

    def state(self) -> bytes:
        """Return the state from which a new output continues its watermarks."""
        markers = {name: split.marker.state() for name, split in self.splits.items() if split.marker is not None}
        main = None if self.main.marker is None else self.main.marker.state()
        return pickle.dumps((self.top, main, markers))

    def restore(self, state: bytes, *, starts: bool) -> None:
        """Restore a state; `starts` when the job has just started from it."""
        self.top, main, markers = pickle.loads(state)
        if main is not None and self.main.marker is not None:
            self.main.marker.restore(main, starts=starts)
        for name, marker_state in markers.items():
            marker = self.create_output_for_split(name).marker
            if marker is not None:
                marker.restore(marker_state, starts=starts)


class SourceOperator(Operator):
    """Runs a source's reader for the share of an epoch that the driver allots."""

    #: No function of the user's could mean a side output here.
    parts_tagged = True

    def __init__(self, source: Source[Any, Any, Any], watermark_strategy: WatermarkStrategy) -> None:
        super().__init__()
        self.source = source
        self.strategy = watermark_strategy
        #: The longest time after which anything behind the source counts as idle, 0 without any: so long is a source
        #: that has nothing waited for, as far as its share of the epoch goes.
        self.idleness_behind_ms = 0
        self._quiet_since_ms = 0.0
        self._starts = False
        self.reader: SourceReader[Any, Any] | None = None
        self.ended = False
        self.more_available = False
        self._no_more_splits = False
        self._wants_notification = False
        self._reader_context: ReaderContext
        self._output: _ReaderOutput

    def new_marker(self) -> TimestampsAndWatermarks | None:
        """Return what stamps one input, None for a strategy that does nothing."""
        if self.strategy.kind is WatermarkKind.NONE and self.strategy.timestamp_assigner is None:
            return None
        return TimestampsAndWatermarks(
            self.strategy, self.context.subtask, self.context.input_clock, periodic=self._periodic
        )

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._periodic = periodic_watermarks(context)

    def begin_epoch(self, epoch: EpochContext) -> None:
        self.more_available, self._starts = False, epoch.starts
        if self.reader is None or not epoch.current:
            self._make_reader(epoch)
        assert self.reader is not None
        serializer = self.source.get_split_serializer()
        for event in map(decode_event, epoch.restore.events):
            match event:
                case AddSplitsEvent(splits=splits, version=version):
                    self._add_splits([serializer.deserialize(version, split) for split in splits])
                case NoMoreSplitsEvent():
                    self._no_more_splits = True
                    self.reader.notify_no_more_splits()
                case SourceEventWrapper(payload=payload):
                    self.reader.handle_source_events(pickle.loads(payload))
                case EndOfInputEvent():
                    self.ended = True

    @property
    def wants_notification(self) -> bool:
        return self._wants_notification

    def notify(self, epoch: EpochContext) -> None:
        assert self.reader is not None
        if epoch.notify_complete:
            self.reader.notify_checkpoint_complete(epoch.notify_complete)
        if epoch.notify_aborted:
            self.reader.notify_checkpoint_aborted(epoch.notify_aborted)

    def _make_reader(self, epoch: EpochContext) -> None:
        """Make the reader anew from the last accepted snapshot."""
        if self.reader is not None:
            self.reader.close()
        self._reader_context = ReaderContext(self.context)
        self._output = _ReaderOutput(self)
        self._no_more_splits = self.ended = False
        self.reader = self.source.create_reader(self._reader_context)
        self._output.record_type = self.reader.record_type
        self._output.copies = not (self.object_reuse or self.reader.emits_new_records)
        self._wants_notification = any(
            getattr(type(self.reader), name) is not getattr(SourceReader, name) for name in _NOTICES
        )
        if epoch.restore.state is not None:
            state = msgspec.msgpack.decode(epoch.restore.state, type=ReaderState)
            if state.extra:
                self._output.restore(state.extra, starts=epoch.starts)
            serializer = self.source.get_split_serializer()
            splits = [serializer.deserialize(state.version, split) for split in state.splits]
            if splits:
                self._add_splits(splits)
            self._no_more_splits = state.no_more_splits
            if state.no_more_splits:
                self.reader.notify_no_more_splits()
        # A reader asks anew for the splits that it lacks: after a restart of the job nobody remembers its requests.
        self.reader.start()

    def _add_splits(self, splits: list[Any]) -> None:
        assert self.reader is not None
        if not isinstance(self.reader, SequentialSourceReader):
            # A split has a say in the watermark from its assignment on (FLINK-26018), unless others come before it.
            for split in splits:
                self._output.create_output_for_split(split.split_id())
        self.reader.add_splits(splits)

    def read(self, limits: ReadLimits, size: Callable[[], int]) -> Iterator[Output]:
        """Poll the reader and yield its batches until the epoch's share is used up or nothing more is there.

        Args:
            limits: The share.
            size: Returns the bytes that have become of what was yielded so far.
        """
        assert self.reader is not None
        output, input_clock, passed_ms = self._output, self.context.input_clock, self.context.task_clock.passed_ms
        start = passed_ms()
        output.begin_epoch(limits.max_records)
        while not (self.ended or self._reader_context.ends_input):
            polled_at, before = passed_ms(), output.records
            status = self.reader.poll_next(output)
            batches = output.drain()
            if output.records > before:  # what the reader spent on these records it could not wait for others
                self._quiet_since_ms = input_clock.now_ms()
            else:
                input_clock.advance(passed_ms() - polled_at)
            for batch in batches:
                yield None, batch
            self.more_available = False
            if status is InputStatus.END_OF_INPUT:
                self.ended = True
                return
            elapsed_ms = passed_ms() - start
            if status is InputStatus.NOTHING_AVAILABLE:
                left = min(self._patience_ms, limits.max_time_ms - elapsed_ms)
                if left <= 0 or not self._wait(left):
                    return
            self.more_available = True
            if limits.reached(output.records, size(), elapsed_ms):
                return

    @property
    def _patience_ms(self) -> float:
        """How long to wait for a reader that has nothing: until all that may become idle has become idle."""
        if self._starts:  # a reader that has just begun may be about to get its first splits
            return _PATIENCE_MS
        behind = 0.0
        if not self._output.records:
            behind = self.idleness_behind_ms - (self.context.input_clock.now_ms() - self._quiet_since_ms)
        return max(_PATIENCE_MS, self._output.undecided_ms, behind)

    def _wait(self, most_ms: float) -> bool:
        """Wait for the reader; one that has no split says at once that nothing will come in this epoch."""
        assert self.reader is not None
        clock = self.context.task_clock
        start = clock.passed_ms()
        with self.context.input_clock.waiting():
            if self.reader.is_available(int(most_ms)):
                return True
            left = most_ms - (clock.passed_ms() - start)
            if most_ms > _PATIENCE_MS and left > 0:
                clock.sleep_ms(left)
        return False

    def process(self, batch: RowBatch, input_index: int) -> Iterator[Output]:
        """Pass on what the runtime puts in: the last watermark."""
        yield None, batch

    def on_processing_time(self, now_ms: int) -> Iterable[Output]:
        watermark = self._output.periodic() if self._periodic else None
        return NOTHING if watermark is None else ((None, watermark_only(watermark)),)

    def output_watermark(self, input_watermark: int) -> int:
        return self._output.top

    def is_idle(self, *, upstream_idle: bool) -> bool:
        return self._output.is_idle()

    def snapshot(self, epoch: EpochContext, *, finished: bool) -> OperatorAck:
        assert self.reader is not None
        serializer = self.source.get_split_serializer()
        splits = tuple(serializer.serialize(split) for split in self.reader.snapshot_state(epoch.checkpoint_id))
        state = ReaderState(splits, serializer.get_version(), self._no_more_splits, self._output.state())
        context = self._reader_context
        requests, context.split_requests = context.split_requests, 0
        events, context.events = tuple(context.events), []
        return OperatorAck(
            ends_input=context.ends_input,
            state=msgspec.msgpack.encode(state),
            events=events,
            split_requests=requests,
            more_available=self.more_available,
        )

    def close(self) -> None:
        reader, self.reader = self.reader, None
        if reader is not None:
            reader.close()
