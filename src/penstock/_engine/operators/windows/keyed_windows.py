"""Windows of single keys, with any assigner, trigger, evictor and merging.

A row for each key and window holds the contents; further rows hold the state of the trigger and of the window function.
Timers of key and window call the trigger, and clear a window at its end. Aligned windows have an operator of their own
(`window`), which keeps no timers and drops a whole window at once.

Source of the rules: Flink's WindowOperator.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from penstock._api.time_domain import TimeDomain
from penstock._api.windows.session_windows import SessionWindows
from penstock._api.windows.time_windows import AlignedWindows
from penstock._api.windows.triggers import TriggerResult
from penstock._api.windows.window import MergingWindowAssigner, TimeWindow, Window
from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.operators.timer_times import EARLIEST, TimerTimes
from penstock._engine.operators.windows.assigner_context import AssignerContext
from penstock._engine.operators.windows.merging_windows import MergingWindows
from penstock._engine.operators.windows.trigger_context import TriggerState
from penstock._engine.operators.windows.window_strategy import CONTENTS
from penstock._engine.operators.windows.windowed import WindowedOperator
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP
from penstock._engine.state.table import ABSENT, MISSING
from penstock.common.copies import copy_if_mutable
from penstock.common.user_values import short_repr
from penstock.errors import FunctionResultError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._api.windows.triggers import Trigger
    from penstock._api.windows.window import WindowAssigner
    from penstock._engine.operators.base import EpochContext, OperatorContext, Output
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.operators.windows.window_contents import WindowContents
    from penstock._engine.operators.windows.window_function import WindowResults
    from penstock._engine.operators.windows.window_namespaces import WindowNamespaces
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.rows import Namespace
    from penstock._engine.state.table import Pane
    from penstock._engine.state.timers import DueTimer, Timers

#: The table of the merging windows of each key.
MERGING = "merging-windows"
#: How many numbers the namespace of a TimeWindow has.
_BOUNDS = 2


class KeyedWindowOperator(WindowedOperator):
    """Adds records to the windows of their keys, and emits results when the trigger fires.

    Args:
        key_selector: The key selector of the stream.
        assigner: Assigns windows to a record.
        trigger: Decides when a window fires.
        allowed_lateness_ms: How long after its end a window of event time still takes records.
        late_tag: The id of the side output for late records; None drops them.
        contents: The contents of a window of a key.
        results: Emits the results of a firing window.
        namespaces: The namespaces of the assigner's windows.
    """

    def __init__(
        self,
        key_selector: Any,
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any],
        *,
        allowed_lateness_ms: int,
        late_tag: str | None,
        contents: WindowContents,
        results: WindowResults,
        namespaces: WindowNamespaces,
    ) -> None:
        super().__init__(key_selector, results, late_tag)
        self.assigner = assigner
        self.trigger = trigger
        self.lateness_ms = allowed_lateness_ms
        self.contents = contents
        self.namespaces = namespaces
        self.merges = isinstance(assigner, MergingWindowAssigner)
        self.watermark = MIN_WATERMARK
        self.is_event_time = assigner.is_event_time()
        self._needs_stamps = self.is_event_time and isinstance(assigner, AlignedWindows | SessionWindows)
        self.event_timers: Timers
        self.processing_timers: Timers
        self._own_timers: Timers
        self.state: TriggerState
        self._merging: Pane

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.event_timers = self.store.timers("event-time")
        self.processing_timers = self.store.timers("processing-time")
        #: The timers of the windows' own time.
        self._own_timers = self.event_timers if self.is_event_time else self.processing_timers
        times = TimerTimes(context.operator_name, self.current_record)
        timers = self.event_timers, self.processing_timers
        self.state = TriggerState(context, self.store, timers, self.namespaces, times)
        self.contents.open(self.store.table(CONTENTS, kind=self.contents.kind, keep_keys=True).pane(), self.state)
        self._merging = self.store.table(MERGING, kind=MERGING).pane()
        self._assigner_context = AssignerContext(context, self.store, self.state)

    def begin_epoch(self, epoch: EpochContext) -> None:
        super().begin_epoch(epoch)
        self.watermark = self.state.watermark = epoch.watermark

    def open_functions(self, epoch: EpochContext) -> None:
        if self.contents.function is not None:
            self.open_function(self.contents.function, EngineRuntimeContext(self.context), epoch)
        super().open_functions(epoch)

    # -------------------------------------------------------------------------------------------------------- records

    def add(self, records: list[Any], stamps: list[int], out: SideOutputs) -> None:
        keys, normals = self.keys_of(records)
        self.state.times.stamps = stamps
        self._add_all(records, stamps, keys, normals, out)

    def _add_all(
        self, records: list[Any], stamps: list[int], keys: list[Any], normals: list[NormalKey], out: SideOutputs
    ) -> None:
        self._check_stamps(records, stamps)
        for value, stamp, key, normal in zip(self.iterate(records), stamps, keys, normals, strict=True):
            self._add(value, stamp, key, normal, out)

    def _check_stamps(self, records: list[Any], stamps: list[int]) -> None:
        """Make sure that records have timestamps where their windows depend on them."""
        if self._needs_stamps and min(stamps) == NO_TIMESTAMP:
            raise self.missing_timestamp(records, stamps)

    def _add(self, value: Any, stamp: int, key: Any, normal: NormalKey, out: SideOutputs) -> None:
        """Add a record to its windows, and follow the trigger's decision."""
        state, contents, namespace_of = self.state, self.contents, self.namespaces.of
        state.key, state.normal = key, normal
        merging = self._windows_of(normal) if self.merges else None
        was_taken = False
        windows = self._assigned(value, stamp)
        is_shared = len(windows) > 1 and contents.folds
        for window in windows:
            is_odd = self.is_event_time and not EARLIEST <= window.max_timestamp() <= MAX_WATERMARK
            if is_odd and self._never_fires(window, value, stamp):
                continue
            actual = window if merging is None else merging.add(window, self._merge)
            clears = self._cleanup_time(actual)
            if self.is_event_time and clears <= self.watermark:
                if merging is not None:
                    merging.mapping.pop(actual, None)
                continue
            was_taken = True
            namespace = namespace_of(actual)
            stands = actual if merging is None else merging.mapping[actual]
            address = normal, namespace if stands is actual else namespace_of(stands), None
            # A function may change the record that it folds, which the next window gets, too.
            contents.add(address, key, copy_if_mutable(value) if is_shared else value, stamp)
            result = self.trigger.on_element(value, stamp, actual, state.under(namespace))
            if result is not TriggerResult.CONTINUE:
                self._follow(result, actual, stands, out)
            if clears < MAX_WATERMARK:  # else the window lasts as long as the job
                self._own_timers.register(clears, normal, namespace, key)
        if merging is not None:
            self._keep(normal, merging)
        if not was_taken and (windows or self._is_late(stamp)):
            self.late.set_aside([value], [stamp], self.late_tag, self.watermark, out)

    def _never_fires(self, window: Window, value: Any, stamp: int) -> bool:
        """Return whether a window ends after the last watermark; a record without timestamp has no windows at all."""
        if stamp == NO_TIMESTAMP:
            raise self.missing_timestamp([value], [stamp])
        return window.max_timestamp() > MAX_WATERMARK

    def _assigned(self, value: Any, stamp: int) -> list[Any]:
        """Return the windows of a record of the current key."""
        context = self._assigner_context
        context.key.key, context.key.normal = self.state.key, self.state.normal
        windows: Any = self.assigner.assign_windows(value, stamp, context)
        if type(windows) is not list:
            if not isinstance(windows, Iterable):
                raise self._not_windows(windows)
            windows = list(cast("Iterable[Any]", windows))
        for window in cast("list[Any]", windows):
            if type(window) is not TimeWindow and not isinstance(window, Window):
                raise self._not_windows(cast("Any", windows))
        return cast("list[Any]", windows)

    def _not_windows(self, result: object) -> FunctionResultError:
        call = f"assign_windows() of {type(self.assigner).__qualname__}"
        return self._wrong(call, result, "a list of windows")

    def _wrong(self, call: str, result: object, wanted: str) -> FunctionResultError:
        return FunctionResultError(call, self.context.operator_name, short_repr(result), wanted)

    # --------------------------------------------------------------------------------------------------------- firing

    def advance(self, watermark: int, out: SideOutputs) -> Iterator[Output]:
        self.watermark = self.state.watermark = watermark
        self._leave_records()
        return self._fired(self.event_timers.pop_due(watermark), TimeDomain.EVENT_TIME, out)

    def _follow(self, result: TriggerResult, window: Window, stands: Window, out: SideOutputs) -> None:
        """Follow the trigger's decision about a window."""
        if type(result) is not TriggerResult:
            call = f"A method of {type(self.trigger).__qualname__}"
            raise self._wrong(call, result, "a TriggerResult")
        address = self.state.address(stands)
        if result.is_fire():
            self.results.begin(window, self.watermark)
            self.contents.fire(address, window, self.state.key, self.results, out)
        if result.is_purge():
            self.contents.remove(address)

    def _fired(self, due: Iterator[DueTimer], domain: TimeDomain, out: SideOutputs) -> Iterator[Output]:
        """Fire timers, and yield their results part by part; the last part stays."""
        return out.outputs_of_timers(due, lambda some: self._fire_timers(some, domain, out))

    def _fire_timers(self, due: Iterable[DueTimer], domain: TimeDomain, out: SideOutputs) -> None:
        for timestamp, normal, namespace, key in due:
            self.store.make_some_room()
            self.state.turn_to(key, normal)
            window, merging = self.namespaces.window(namespace), self._windows_of(normal)
            if merging is not None and window not in merging.mapping:
                self._set_again(namespace, normal, key)
                continue
            stands = window if merging is None else merging.mapping[window]
            is_event = domain is TimeDomain.EVENT_TIME
            call = self.trigger.on_event_time if is_event else self.trigger.on_processing_time
            self._follow(call(timestamp, window, self.state.at(window)), window, stands, out)
            if is_event is self.is_event_time and timestamp == self._cleanup_time(window):
                self._clear(window, stands, key)
                if merging is not None:
                    del merging.mapping[window]
            self._keep(normal, merging)

    def on_processing_time(self, now_ms: int) -> Iterable[Output]:
        due = self.processing_timers.next()
        return () if due is None or due > now_ms else self._fire_processing(self.processing_timers.pop_due(now_ms))

    def fire_left_timers(self) -> Iterable[Output]:
        return self._fire_processing(self.processing_timers.pop_left())

    def _fire_processing(self, due: Iterator[DueTimer]) -> Iterator[Output]:
        out = self.new_outputs()
        self._leave_records()
        yield from self._fired(due, TimeDomain.PROCESSING_TIME, out)
        yield from out.outputs()

    def _leave_records(self) -> None:
        """Note that timers fire now."""
        self.iterate([])
        self.state.times.stamps = ()

    def next_timer_ms(self) -> int | None:
        return self.processing_timers.next()

    # ------------------------------------------------------------------------------------------------- windows that end

    def _cleanup_time(self, window: Window) -> int:
        """Return the end of a window, as a watermark or a processing time."""
        end = window.max_timestamp()
        return min(end + self.lateness_ms, MAX_WATERMARK) if self.is_event_time else end

    def _is_late(self, stamp: int) -> bool:
        """Return whether a record that belongs to no window is late by itself, as in Flink."""
        return self.is_event_time and stamp + self.lateness_ms <= self.watermark

    def _clear(self, window: Window, stands: Window, key: Any) -> None:
        self.contents.remove(self.state.address(stands))
        self.trigger.clear(window, self.state.at(window))
        if self.results.clears:
            self.results.begin(window, self.watermark)
            self.results.clear([(self.state.normal, key, None)])

    # ------------------------------------------------------------------------------------------------------- merging

    def _windows_of(self, normal: NormalKey) -> MergingWindows | None:
        """Return the merging windows of a key; None where the assigner's windows do not merge."""
        if not self.merges:
            return None
        window_of = self.namespaces.window
        return MergingWindows(
            cast("MergingWindowAssigner[Any, Any]", self.assigner),
            {window_of(window): window_of(stands) for window, stands in self._pairs_of(normal)},
        )

    def _pairs_of(self, normal: NormalKey) -> tuple[tuple[Any, Any], ...]:
        """Return the namespaces of the windows of a key, each with that of its contents."""
        pairs = self._merging.hot.get(normal, MISSING)
        if pairs is MISSING:
            pairs = self._merging.load(normal)
        return () if pairs is ABSENT else pairs

    def _set_again(self, window: Namespace, normal: NormalKey, key: Any) -> None:
        """Set the timers of the session that a window was merged into, if it has none; see `session_windows`."""
        for grown, _ in self._pairs_of(normal):
            if len(grown) == len(window) == _BOUNDS and grown[0] <= window[0] and window[1] <= grown[1]:
                last = grown[1] - 1
                clears = min(last + self.lateness_ms, MAX_WATERMARK) if self.is_event_time else last
                # A session that stays for ever has no timer that clears it.
                is_new = clears == MAX_WATERMARK or self._own_timers.put_off(clears, normal, grown, key)
                if is_new and (last != clears or clears == MAX_WATERMARK):
                    self._own_timers.put_off(last, normal, grown, key)
                return

    def _keep(self, normal: NormalKey, merging: MergingWindows | None) -> None:
        if merging is None:
            return
        namespace_of = self.namespaces.of
        pairs = tuple((namespace_of(window), namespace_of(stands)) for window, stands in merging.mapping.items())
        if self._merging.hot.get(normal) != pairs:
            self._merging.hot[normal] = pairs or ABSENT
            self._merging.dirty.add(normal)

    def _merge(self, window: Window, parts: list[Window], stands: Window, others: list[Window]) -> None:
        """Merge windows of a key."""
        end = window.max_timestamp()
        now = self.watermark if self.is_event_time else self.state.get_current_processing_time()
        if end + (self.lateness_ms if self.is_event_time else 0) <= now and end < MAX_WATERMARK:
            reason = f"its end {end} would be before the current time {now}"
            raise UnsupportedOperationError(f"Merging windows into {window!r}", reason)
        self.trigger.on_merge(window, self.state.merging(window, parts))
        for part in parts:
            if part == window:
                continue
            self.trigger.clear(part, self.state.at(part))
            time = self._cleanup_time(part)
            if time < MAX_WATERMARK:
                self.state.at(part).delete(time, is_event=self.is_event_time)
        self.contents.merge(self.state.address(stands), [self.state.address(other) for other in others])
