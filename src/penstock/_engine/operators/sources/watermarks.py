"""Timestamps and watermarks from a WatermarkStrategy, for a stream or for one split of a source."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock._engine.operators.base import EpochContext, Operator, OperatorContext, Output
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.columns import greatest, time_column
from penstock._engine.protocol import cloudpickled
from penstock._engine.protocol.control import OperatorAck
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP
from penstock._engine.protocol.times import checked_time, checked_timestamps
from penstock.common.columns import int64_column
from penstock.common.configuration import Configuration
from penstock.common.option_table import AUTO_WATERMARK_INTERVAL
from penstock.common.watermark_strategy import FieldTimestamp, WatermarkKind, WatermarkOutput, WatermarkStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._engine.operators.batch import Batch
    from penstock._engine.operators.clocks import InputClock
    from penstock._engine.operators.columns import ColumnBatch


@dataclass(frozen=True, slots=True)
class GeneratorContext:
    """The context of the supplier of a watermark generator."""

    subtask_index: int


class _CollectedWatermarks(WatermarkOutput):
    """Collects a generator's watermarks, each with its position among the records."""

    def __init__(self) -> None:
        self.position = 0
        self.top = MIN_WATERMARK
        self.marks: list[tuple[int, int]] = []
        self.idle = False

    def emit_watermark(self, watermark: int) -> None:
        self.idle = False
        watermark = checked_time("A watermark", watermark)
        if watermark > self.top:
            self.top = watermark
            self.marks.append((self.position, watermark))

    def mark_idle(self) -> None:
        self.idle = True

    def mark_active(self) -> None:
        self.idle = False


class TimestampsAndWatermarks:
    """Stamps the records of one input and follows its watermark.

    Args:
        strategy: Assigns timestamps and watermarks.
        subtask: The subtask, for the generator's supplier.
        input_clock: The time in which the input could have been read.
        periodic: Watermarks are also emitted between records.
    """

    def __init__(self, strategy: WatermarkStrategy, subtask: int, input_clock: InputClock, *, periodic: bool) -> None:
        self._strategy = strategy
        self._extract = None if strategy.timestamp_assigner is None else strategy.timestamp_assigner.extract_timestamp
        assigner = strategy.timestamp_assigner
        #: The column that has the timestamps.
        self._column = assigner.field if isinstance(assigner, FieldTimestamp) else None
        self._periodic = periodic
        self._output = _CollectedWatermarks()
        self._greatest = MIN_WATERMARK
        #: The time of the last record, by the clock of the input.
        self._active_ms = input_clock.now_ms()
        #: The time when the input was paused, by the same clock; None while it can be read.
        self._paused_ms: float | None = None
        self._input_clock = input_clock
        self._generator: Any = None
        if strategy.kind is WatermarkKind.GENERATOR and strategy.generator_supplier is not None:
            self._generator = strategy.generator_supplier(GeneratorContext(subtask))

    @property
    def watermark(self) -> int:
        """The greatest watermark so far."""
        return self._output.top

    def stamp(self, records: list[Any], iterate: Callable[[list[Any]], Any], timestamps: list[int] | None) -> RowBatch:
        """Return the records with their timestamps and watermarks.

        Args:
            records: The records.
            iterate: Returns the iterator over them, if functions are called with them; see `CurrentRecord`.
            timestamps: Those that they have.
        """
        extract = self._extract
        if extract is not None:
            extracted = [
                extract(record, before)
                for record, before in zip(iterate(records), timestamps or [NO_TIMESTAMP] * len(records), strict=True)
            ]
            stamps: list[int] | None = checked_timestamps(extracted, iterate(records))
        else:
            stamps = timestamps
        self._output.marks, self._output.position = [], 0
        if self._strategy.kind is WatermarkKind.BOUNDED and stamps:
            newest = max(stamps)  # by itself: among arguments, all stamps would become a tuple
            self._follow(newest, len(records))
        elif self._generator is not None:
            self._generate(iterate(records), stamps or [NO_TIMESTAMP] * len(records))
        return RowBatch(records, stamps, self._output.marks)

    @property
    def needs_rows(self) -> bool:
        """Whether it calls user functions with each record."""
        return (self._extract is not None and self._column is None) or self._generator is not None

    def stamp_columns(self, batch: ColumnBatch, iterate: Callable[[list[Any]], Any]) -> ColumnBatch:
        """Return a batch of columns with its timestamps and watermarks.

        Args:
            batch: The batch.
            iterate: Returns the iterator over its records, if functions are called with them; see `CurrentRecord`.
        """
        column = self._column
        if not self.needs_rows and (column is None or batch.has(column)):
            stamps: Any = batch.timestamps if column is None else time_column(batch.columns.column(column), len(batch))
            self._output.marks, self._output.position = [], 0
            if self._strategy.kind is WatermarkKind.BOUNDED and stamps is not None and len(batch):
                self._follow(greatest(stamps), len(batch))
            return batch.stamped(stamps, self._output.marks)
        rows = batch.rows()
        stamped = self.stamp(rows.records, iterate, rows.timestamps)
        stamps = None if stamped.timestamps is None else int64_column(stamped.timestamps)
        return batch.stamped(stamps, stamped.watermarks)

    def _follow(self, newest: int, count: int) -> None:
        """Advance the watermark by the newest timestamp of a batch, after its records."""
        self._greatest = max(self._greatest, newest)
        if self._periodic:
            self._output.position = count
            self._output.emit_watermark(max(self._greatest - self._strategy.bound_ms - 1, MIN_WATERMARK))

    def _generate(self, records: Any, stamps: list[int]) -> None:
        output, on_event = self._output, self._generator.on_event
        for position, (record, stamp) in enumerate(zip(records, stamps, strict=True), start=1):
            output.position = position
            on_event(record, stamp, output)
        if self._periodic:
            self._generator.on_periodic_emit(output)

    def periodic(self) -> list[tuple[int, int]]:
        """Call the generator's periodic emit; return the new watermarks, at position 0."""
        if self._generator is None or not self._periodic:
            return []
        self._output.marks, self._output.position = [], 0
        self._generator.on_periodic_emit(self._output)
        return self._output.marks

    def see(self) -> None:
        """Note that records have arrived now."""
        self._active_ms = self._input_clock.now_ms()

    @property
    def left_ms(self) -> float:
        """The time without records until the input becomes idle; 0 when it is idle, or never will be."""
        timeout = self._strategy.idleness_ms
        if timeout is None or self._output.idle:
            return 0.0
        return max(0.0, timeout - self._quiet_ms)

    @property
    def _quiet_ms(self) -> float:
        return (self._input_clock.now_ms() if self._paused_ms is None else self._paused_ms) - self._active_ms

    def pause(self) -> None:
        """Note that the input cannot be read for now."""
        self._paused_ms = self._input_clock.now_ms()

    def resume(self) -> None:
        """Undo `pause`: the time since then made nothing idle."""
        self._active_ms, self._paused_ms = self._input_clock.now_ms() - self._quiet_ms, None

    def is_idle(self) -> bool:
        """Return whether the input had no record for the strategy's idle timeout, or its generator marked it idle."""
        timeout = self._strategy.idleness_ms
        return self._output.idle or (timeout is not None and self._quiet_ms >= timeout)

    def state(self) -> bytes:
        """Return the state from which a new object continues; times are durations, which are valid in any process."""
        try:
            generator = cloudpickled.dumps(self._generator)
        except Exception:  # noqa: BLE001 - a generator that does not pickle starts again: watermarks never go back
            generator = b""
        return pickle.dumps((self._greatest, self._output.top, (self._quiet_ms, self._output.idle), generator))

    def restore(self, state: bytes, *, starts: bool) -> None:
        """Continue from a state.

        Args:
            state: The state.
            starts: Whether the job has just started from the state. Then the idle timeout begins again: records that
                arrived while the job was down are read first.
        """
        self._greatest, self._output.top, quiet, generator = pickle.loads(state)
        if not starts:
            quiet_ms, self._output.idle = quiet
            self._active_ms = self._input_clock.now_ms() - quiet_ms
        if generator and self._generator is not None:
            self._generator = pickle.loads(generator)


class TimestampsAndWatermarksOperator(Operator):
    """`assign_timestamps_and_watermarks`: replaces the stream's watermarks, except the last one."""

    def __init__(self, watermark_strategy: WatermarkStrategy) -> None:
        super().__init__()
        self.strategy = watermark_strategy
        self.marker: TimestampsAndWatermarks

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.marker = TimestampsAndWatermarks(
            self.strategy, context.subtask, context.input_clock, periodic=periodic_watermarks(context)
        )
        self.takes_columns = not self.marker.needs_rows

    def begin_epoch(self, epoch: EpochContext) -> None:
        if not epoch.current and epoch.restore.state is not None:
            self.marker.restore(epoch.restore.state, starts=epoch.starts)

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        stamped = self.marker.stamp(batch.records, self.iterate, batch.timestamps)
        stamped.shape = batch.shape
        return ((None, self._ended(batch, stamped)),)

    def process_columns(self, batch: ColumnBatch, input_index: int) -> Iterable[Output]:
        return ((None, self._ended(batch, self.marker.stamp_columns(batch, self.iterate))),)

    def _ended(self, batch: Batch, stamped: Batch) -> Batch:
        """Return a stamped batch with the last watermark of the stream, if the batch had it."""
        if len(batch):
            self.marker.see()
        if batch.watermarks and batch.watermarks[-1][1] == MAX_WATERMARK:
            stamped.watermarks = [*stamped.watermarks, (len(batch), MAX_WATERMARK)]
        return stamped

    def on_processing_time(self, now_ms: int) -> Iterable[Output]:
        marks = self.marker.periodic()
        return ((None, RowBatch([], None, marks)),) if marks else ()

    def output_watermark(self, input_watermark: int) -> int:
        return self.marker.watermark

    def is_idle(self, *, upstream_idle: bool) -> bool:
        return self.marker.is_idle()

    def snapshot(self, epoch: EpochContext, *, finished: bool) -> OperatorAck:
        return OperatorAck(state=self.marker.state())


def periodic_watermarks(context: OperatorContext) -> bool:
    """Return whether strategies emit between records too: `pipeline.auto-watermark-interval` 0 turns it off."""
    return Configuration.from_dict(context.configuration).get(AUTO_WATERMARK_INTERVAL).nanos > 0
