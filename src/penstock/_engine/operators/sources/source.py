"""The head of a source's chain: a reader, its splits and events, and watermarks for each split."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET

from penstock._api.connectors.reader import InputStatus, SourceReader
from penstock._api.connectors.reader_base.sequential import SequentialSourceReader
from penstock._engine.operators.base import NOTHING, EpochContext, OperatorContext, Output
from penstock._engine.operators.batch import RowBatch, watermark_only
from penstock._engine.operators.head import InputHead
from penstock._engine.operators.sources.alignment import SourceAlignment
from penstock._engine.operators.sources.source_output import EpochReaderOutput
from penstock._engine.operators.sources.watermarks import TimestampsAndWatermarks, periodic_watermarks
from penstock._engine.protocol.control import OperatorAck
from penstock._engine.protocol.decoders import msgpack_decoder
from penstock._engine.protocol.events import (
    AddSplitsEvent,
    EndOfInputEvent,
    NoMoreSplitsEvent,
    ReaderState,
    SourceEventWrapper,
    decode_event,
)
from penstock.common.columns import layout_of
from penstock.common.configuration import Configuration
from penstock.common.option_table import ALLOW_UNALIGNED_SOURCE_SPLITS
from penstock.common.watermark_strategy import WatermarkKind, WatermarkStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock._api.connectors.source import Source
    from penstock._engine.operators.batch import Batch
    from penstock._engine.operators.head import ReadLimits
    from penstock.metrics.metricbase import MetricGroup

#: The longest wait for a reader without records before its part of the epoch ends. The source waits longer to determine
#: idleness, for which only waiting time counts.
_PATIENCE_MS = 50
#: The same where an epoch flows: records of other splits of the task, and due timers, wait for so long.
_FLOW_WAIT_MS = 2
#: The longest pause there between two polls of a reader that cannot tell whether it has records.
_FLOW_PAUSE_MS = 200


class ReaderContext:
    """The context of a reader: `penstock.datastream.connectors.base.SourceReaderContext`."""

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

    @property
    def wants(self) -> bool:
        """Whether the reader has asked its enumerator for something in this epoch."""
        return bool(self.split_requests or self.events)


class SourceOperator(InputHead):
    """Runs a source's reader for the share of an epoch that the driver allots."""

    #: No user function could emit to a side output here.
    parts_tagged = True

    def __init__(self, source: Source[Any, Any, Any], watermark_strategy: WatermarkStrategy) -> None:
        super().__init__()
        self.source = source
        self.strategy = watermark_strategy
        #: The longest idleness downstream of the source, 0 without any. An epoch waits that long for a source without
        #: records, within its read limits.
        self.idleness_behind_ms = 0
        self._quiet_since_ms = 0.0
        self._starts = False
        self.reader: SourceReader[Any, Any] | None = None
        self._no_more_splits = False
        self._wants_notification = False
        self._alignment: SourceAlignment | None = None
        self._reader_context: ReaderContext
        self._output: EpochReaderOutput

    def _new_marker(self) -> TimestampsAndWatermarks | None:
        """Return the timestamps and watermarks of one input; None for a strategy without any."""
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
        if self._alignment is not None:
            self._alignment.others = epoch.group_watermark
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
        """Create the reader from the last accepted snapshot."""
        if self.reader is not None:
            self.reader.close()
        self._reader_context = ReaderContext(self.context)
        self._output = EpochReaderOutput(self, layout_of(self.source.get_produced_type()), self._new_marker)
        self._no_more_splits = self.ended = False
        self.reader = self.source.create_reader(self._reader_context)
        self._output.record_type = self.reader.record_type
        self._output.copies = not (self.object_reuse or self.reader.emits_new_records)
        kind, silent = type(self.reader), cast("type[SourceReader[Any, Any]]", SourceReader)
        self._wants_notification = (
            kind.notify_checkpoint_complete is not silent.notify_checkpoint_complete
            or kind.notify_checkpoint_aborted is not silent.notify_checkpoint_aborted
        )
        self._alignment = self._new_alignment()
        if epoch.restore.state is not None:
            state = msgpack_decoder(ReaderState).decode(epoch.restore.state)
            if state.extra:
                self._output.restore(state.extra, starts=epoch.starts)
            serializer = self.source.get_split_serializer()
            splits = [serializer.deserialize(state.version, split) for split in state.splits]
            if splits:
                self._add_splits(splits)
            self._no_more_splits = state.no_more_splits
            if state.no_more_splits:
                self.reader.notify_no_more_splits()
        # A reader requests its missing splits again, because its requests are lost in a restart of the job.
        self.reader.start()

    def _new_alignment(self) -> SourceAlignment | None:
        """Return the alignment of the reader with its group; None without a group."""
        assert self.reader is not None
        if self.strategy.alignment is None:
            return None
        configuration = Configuration.from_dict(self.context.configuration)
        lets_splits_go = configuration.get(ALLOW_UNALIGNED_SOURCE_SPLITS)
        return SourceAlignment(self.strategy.alignment, self.reader, self._output, lets_splits_go=lets_splits_go)

    def _add_splits(self, splits: list[Any]) -> None:
        assert self.reader is not None
        if not isinstance(self.reader, SequentialSourceReader):
            # A split counts for the watermark from its assignment on (FLINK-26018), unless earlier ones are still to be
            # read.
            for split in splits:
                self._output.create_output_for_split(split.split_id())
        self.reader.add_splits(splits)

    def read(self, limits: ReadLimits, size: Callable[[], int]) -> Iterator[Output]:
        """Poll the reader and yield its batches."""
        if limits.flows:
            yield from self._flow(limits, size)
            return
        output, passed_ms = self._output, self.context.task_clock.passed_ms
        start, self.waited_s = passed_ms(), 0.0
        output.begin_epoch(limits.max_records)
        while not (self.ended or self._reader_context.ends_input or self._is_held()):
            status = self._poll()
            for batch in output.drain():
                yield None, batch
            self.more_available = False
            if status is InputStatus.END_OF_INPUT:
                self.ended = True
                return
            elapsed_ms = passed_ms() - start
            if status is InputStatus.NOTHING_AVAILABLE:
                left = limits.max_time_ms - elapsed_ms
                if self._is_held() or left <= 0 or not self._wait(left, limits):
                    return
            self.more_available = not self._is_held()
            if limits.reached(output.records, size(), elapsed_ms) or limits.ends(wants=self._reader_context.wants):
                return

    def _flow(self, limits: ReadLimits, size: Callable[[], int]) -> Iterator[Output]:
        """Poll the reader for all of the time, and yield an empty batch behind all that a poll has brought.

        A reader that has nothing, and does not say when it has more, is polled ever more rarely. What it has brought
        leaves the task before the next poll, which may wait for something itself.
        """
        output, clock = self._output, self.context.task_clock
        start, self.waited_s = clock.passed_ms(), 0.0
        next_poll_ms = pause_ms = 0.0
        output.begin_epoch(limits.max_records)
        while not (self.ended or self._reader_context.ends_input):
            is_held, before = self._is_held(), output.records
            rests = is_held or clock.passed_ms() < next_poll_ms
            status = InputStatus.NOTHING_AVAILABLE if rests else self._poll()
            self.more_available = status is InputStatus.MORE_AVAILABLE
            for batch in (*output.drain(), RowBatch([])):
                yield None, batch
            if status is InputStatus.END_OF_INPUT:
                self.ended = True
                return
            elapsed_ms = clock.passed_ms() - start
            if limits.reached(output.records, size(), elapsed_ms) or limits.ends(
                wants=is_held or self._reader_context.wants  # others of its group go on with the next epoch
            ):
                return
            if output.records > before:
                pause_ms = 0.0
            if status is InputStatus.NOTHING_AVAILABLE:
                has_more = self._wait_for(min(limits.max_time_ms - elapsed_ms, _FLOW_WAIT_MS), is_held=is_held)
                if has_more:
                    next_poll_ms = 0.0
                elif not rests:
                    pause_ms = min(2 * pause_ms or _FLOW_WAIT_MS, _FLOW_PAUSE_MS)
                    next_poll_ms = clock.passed_ms() + pause_ms

    def _wait_for(self, most_ms: float, *, is_held: bool) -> bool:
        """Wait in a flow until the reader has records; for one that may not read, and where it has none, all of it."""
        if not is_held:
            with self.context.input_clock.waiting():
                return self._has_more(most_ms, most_ms)
        clock = self.context.task_clock
        start = clock.passed_ms()
        clock.sleep_ms(most_ms)  # what cannot be read makes nothing idle
        self.waited_s += (clock.passed_ms() - start) / 1000
        return False

    def _has_more(self, most_ms: float, sleep_ms: float) -> bool:
        """Wait until the reader has records; one without splits answers at once, and that wait is slept."""
        assert self.reader is not None
        clock = self.context.task_clock
        start = clock.passed_ms()
        has_more = self.reader.is_available(int(most_ms))
        if not has_more and (left := sleep_ms - (clock.passed_ms() - start)) > 0:
            clock.sleep_ms(left)
        self.waited_s += (clock.passed_ms() - start) / 1000
        return has_more

    def _is_held(self) -> bool:
        """Pause and resume splits by their watermarks; tell whether the reader waits for others in its group."""
        return self._alignment is not None and self._alignment.holds_reader()

    def _poll(self) -> InputStatus:
        """Poll the reader; only a poll without records was time spent waiting."""
        assert self.reader is not None
        output, input_clock, passed_ms = self._output, self.context.input_clock, self.context.task_clock.passed_ms
        polled_at, before = passed_ms(), output.records
        status = self.reader.poll_next(output)
        output.flush()
        if output.records > before:
            self._quiet_since_ms = input_clock.now_ms()
        else:
            waited_ms = passed_ms() - polled_at
            input_clock.advance(waited_ms)
            self.waited_s += waited_ms / 1000
        return status

    @property
    def _undecided_ms(self) -> float:
        """The waiting time until the reader's own and downstream idle timeouts have passed; 0 without any."""
        if self._starts:  # a new reader may get its first splits soon
            return 0.0
        behind = 0.0
        if not self._output.records:
            behind = self.idleness_behind_ms - (self.context.input_clock.now_ms() - self._quiet_since_ms)
        return max(0.0, self._output.undecided_ms, behind)

    def _wait(self, most_ms: float, limits: ReadLimits) -> bool:
        """Wait until the reader has records, or until it is known to be idle, or the epoch ends."""
        passed_ms, undecided_ms = self.context.task_clock.passed_ms, self._undecided_ms
        with self.context.input_clock.waiting():
            start = passed_ms()
            if self._has_more(min(most_ms, _PATIENCE_MS), min(most_ms, _PATIENCE_MS, undecided_ms)):
                return True
            before, wait_ms = start, min(most_ms, undecided_ms)
            # A clock by hand may stand still.
            while before < (now := passed_ms()) < start + wait_ms and not limits.ends(wants=self._reader_context.wants):
                before, step = now, min(start + wait_ms - now, _PATIENCE_MS)
                if self._has_more(step, step):
                    return True
        return False

    def process(self, batch: Batch, input_index: int) -> Iterator[Output]:
        """Pass on the last watermark, which the runtime puts in."""
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
        alignment = UNSET if self._alignment is None else self._alignment.report(ended=self.ended or finished)
        state = ReaderState(splits, serializer.get_version(), self._no_more_splits, self._output.state(), alignment)
        context = self._reader_context
        requests, context.split_requests = context.split_requests, 0
        events, context.events = tuple(context.events), []
        return OperatorAck(
            alignment=alignment,
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
