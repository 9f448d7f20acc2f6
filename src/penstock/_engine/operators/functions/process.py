"""Process functions: records one by one with their timestamps, side outputs and, on keyed streams, state and timers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock._api.time_domain import TimeDomain
from penstock._engine.operators.context import (
    EngineRuntimeContext,
    EngineTimerService,
    KeyedRecordContext,
    KeyedTimerService,
    RecordContext,
)
from penstock._engine.operators.keyed import KeyedOperator
from penstock._engine.operators.loops import Loops
from penstock._engine.operators.side_outputs import SideOutputs
from penstock._engine.operators.timer_times import TimerTimes
from penstock._engine.operators.user_functions import UserFunctionOperator
from penstock._engine.protocol.rows import NO_TIMESTAMP
from penstock._engine.state.key_context import KeyContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock._engine.operators.base import EpochContext, OperatorContext, Output
    from penstock._engine.operators.batch import RowBatch
    from penstock._engine.state.timers import DueTimer, Timers


class ProcessOperator(UserFunctionOperator):
    """A ProcessFunction on a stream without a key."""

    parts_tagged = True
    #: The function's method for the records of each input.
    methods: ClassVar[tuple[str, ...]] = ("process_element",)

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.calls: list[Callable[..., Any]] = [getattr(function, method) for method in self.methods]
        self.loops = Loops()
        self.timers: EngineTimerService

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.timers = EngineTimerService(context)

    def begin_epoch(self, epoch: EpochContext) -> None:
        self.timers.watermark = epoch.watermark
        super().begin_epoch(epoch)

    def open_functions(self, epoch: EpochContext) -> None:
        self.open_function(self.function, EngineRuntimeContext(self.context), epoch, yields=True)

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        context, call = self.record_context(input_index), self.calls[input_index]
        with_timestamps = batch.timestamps is not None
        out = SideOutputs(with_timestamps=with_timestamps, object_reuse=self.object_reuse, function=self.function)
        records, stamps, results = self.iterate(batch.records), batch.stamps(), None
        for start, stop, watermark in batch.segments():
            # Stamps first: at their end no record is taken that belongs behind the watermark.
            turns = zip(stamps[start:stop], records, strict=False)
            results = self.loops.process(call, turns, context, out)
            if watermark is not None:
                self.timers.watermark = watermark
                out.watermark(watermark)
        self.note_like_one_record(self.function, results)
        return out.outputs()

    def record_context(self, input_index: int) -> Any:
        """Return the context for the records of an input; its `at` is set to each record's timestamp."""
        return RecordContext(self.timers)


class KeyedProcessOperator(KeyedOperator):
    """A KeyedProcessFunction: keyed state, event-time and processing-time timers."""

    #: The function's method for the records of each input.
    methods: ClassVar[tuple[str, ...]] = ("process_element",)

    def __init__(self, function: Any, key_selector: Any, *more_key_selectors: Any) -> None:
        super().__init__(key_selector, *more_key_selectors)
        self.function = function
        #: False for the process functions that run a map, a flat map or a filter with keyed state.
        self.parts_tagged = getattr(function, "parts_tagged", True)
        self.calls: list[Callable[..., Any]] = [getattr(function, method) for method in self.methods]
        self.loops = Loops()
        self.key = KeyContext()
        self.event_timers: Timers
        self.processing_timers: Timers
        self.timers: KeyedTimerService

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.event_timers = self.store.timers("event-time")
        self.processing_timers = self.store.timers("processing-time")
        times = TimerTimes(context.operator_name, self.current_record)
        self.timers = KeyedTimerService(context, self.key, self.event_timers, self.processing_timers, times)

    def begin_epoch(self, epoch: EpochContext) -> None:
        self.timers.watermark = epoch.watermark
        super().begin_epoch(epoch)

    def open_functions(self, epoch: EpochContext) -> None:
        yields = getattr(self.function, "yields", True)
        self.open_function(self.function, self.runtime_context(), epoch, yields=yields)

    def runtime_context(self) -> EngineRuntimeContext:
        """Return the runtime context of the function."""
        return EngineRuntimeContext(self.context, self.store, self.key)

    def process(self, batch: RowBatch, input_index: int) -> Iterator[Output]:
        out = self._collector(with_timestamps=batch.timestamps is not None)
        for start, stop, watermark in batch.segments():
            if start < stop:
                self.process_run(batch, start, stop, input_index, out)
            if watermark is not None:
                self.timers.watermark = watermark
                yield from self._fire(self.event_timers, watermark, TimeDomain.EVENT_TIME, out)
                out.watermark(watermark)
        yield from out.outputs()

    def _collector(self, *, with_timestamps: bool) -> SideOutputs:
        return SideOutputs(
            with_timestamps=with_timestamps,
            object_reuse=self.object_reuse,
            parts_tagged=self.parts_tagged,
            function=self.function,
        )

    def leave_keys(self) -> None:
        self.key.leave()

    def process_run(self, batch: RowBatch, start: int, stop: int, input_index: int, out: SideOutputs) -> None:
        """Process a run of records between two watermarks."""
        whole = start == 0 and stop == len(batch.records)
        records = batch.records if whole else batch.records[start:stop]
        stamps = self.timers.times.stamps = batch.stamps(start, stop)
        keys, normals = self.keys_of(records, input_index)
        turns = zip(stamps, self.iterate(records), keys, normals, strict=True)
        results = self.loops.process(self.calls[input_index], turns, self.record_context(), out, self.key)
        self.note_like_one_record(self.function, results)

    def record_context(self) -> Any:
        """Return the context for records and timers, with their key."""
        return KeyedRecordContext(self.timers, self.key)

    def _fire(self, timers: Timers, limit: int, domain: TimeDomain, out: SideOutputs) -> Iterator[Output]:
        """Call the function for due timers, and yield its results part by part; the last part stays."""
        due = timers.next()
        if due is None or due > limit:
            return iter(())
        return out.outputs_of_timers(timers.pop_due(limit), lambda some: self._call_timers(some, domain, out))

    def _call_timers(self, due: Iterator[DueTimer], domain: TimeDomain, out: SideOutputs) -> None:
        context = self.record_context()
        context.domain = domain
        self.iterate([])
        self.timers.times.stamps = ()
        out.stamps_main = True
        missing = len(out.main.records) - len(out.main.timestamps)
        out.main.timestamps.extend([NO_TIMESTAMP] * missing)
        for timestamp, self.key.normal, _namespace, self.key.key in due:
            self.store.free_memory_if_full()
            context.at = timestamp
            results = self.function.on_timer(timestamp, context)
            if results is not None:
                out.extend(results, timestamp if domain is TimeDomain.EVENT_TIME else NO_TIMESTAMP)

    def on_processing_time(self, now_ms: int) -> Iterable[Output]:
        due = self.processing_timers.next()
        if due is None or due > now_ms:
            return ()
        return self._of_processing_time(self.processing_timers.pop_due(now_ms))

    def fire_left_timers(self) -> Iterable[Output]:
        return self._of_processing_time(self.processing_timers.pop_left())

    def _of_processing_time(self, due: Iterator[DueTimer]) -> Iterator[Output]:
        out = self._collector(with_timestamps=True)
        yield from out.outputs_of_timers(due, lambda some: self._call_timers(some, TimeDomain.PROCESSING_TIME, out))
        yield from out.outputs()

    def next_timer_ms(self) -> int | None:
        return self.processing_timers.next()
