"""When windows of single keys fire: when the trigger decides so, which is asked for each record and each timer.

A row for each key and window holds the contents (`window_contents`); further rows hold the state of the trigger and of
the window function. Timers of key and window call the trigger, and clear a window at its end.

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
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.timer_times import EARLIEST, TimerTimes
from penstock._engine.operators.windows.assigner_context import AssignerContext
from penstock._engine.operators.windows.merging_windows import MergingRows
from penstock._engine.operators.windows.trigger_context import TriggerState
from penstock._engine.operators.windows.window_strategy import CONTENTS
from penstock._engine.operators.windows.window_timers import WindowTimers
from penstock._engine.protocol.rows import MAX_WATERMARK, NO_TIMESTAMP
from penstock.common.copies import copy_if_mutable
from penstock.common.user_values import short_repr
from penstock.errors import FunctionResultError, UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._api.windows.triggers import Trigger
    from penstock._api.windows.window import WindowAssigner
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.operators.windows.window_contents import WindowContents
    from penstock._engine.operators.windows.window_namespaces import WindowNamespaces
    from penstock._engine.operators.windows.windowed import WindowedOperator
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.rows import Namespace
    from penstock._engine.state.timers import DueTimer


class TriggerFiring:
    """Adds records to the windows of their keys one by one, and fires windows when the trigger decides so.

    Args:
        assigner: Assigns windows to a record.
        trigger: Decides when a window fires.
        contents: The contents of a window of a key.
        namespaces: The namespaces of the assigner's windows.
        lateness_ms: How long after its end a window of event time still takes records.
    """

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any],
        contents: WindowContents,
        *,
        namespaces: WindowNamespaces,
        lateness_ms: int,
    ) -> None:
        self.assigner = assigner
        self.trigger = trigger
        self.contents = contents
        self.namespaces = namespaces
        self.lateness_ms = lateness_ms
        self.is_event_time = assigner.is_event_time()
        self._needs_stamps = self.is_event_time and isinstance(assigner, AlignedWindows | SessionWindows)
        self.operator: WindowedOperator
        self.state: TriggerState
        self.timers: WindowTimers
        self.merges = isinstance(assigner, MergingWindowAssigner)
        self.merging: MergingRows

    def open(self, operator: WindowedOperator) -> None:
        """Take what the operator has."""
        context, store = operator.context, operator.store
        self.operator, self._results = operator, operator.results
        self.timers = WindowTimers(store, is_event_time=self.is_event_time, lateness_ms=self.lateness_ms)
        times = TimerTimes(context.operator_name, operator.current_record)
        self.state = TriggerState(context, store, (self.timers.event, self.timers.processing), self.namespaces, times)
        self.contents.open(store.table(CONTENTS, kind=self.contents.kind, keep_keys=True).pane(), self.state)
        self.merging = MergingRows(store, self.assigner, self.namespaces)
        self._assigner_context = AssignerContext(context, store, self.state)

    # -------------------------------------------------------------------------------------------------------- records

    def add_all(
        self, records: list[Any], stamps: list[int], keys: list[Any], normals: list[NormalKey], out: SideOutputs
    ) -> None:
        """Add records to their windows."""
        self._check_stamps(records, stamps)
        for value, stamp, key, normal in zip(self.operator.iterate(records), stamps, keys, normals, strict=True):
            self.add(value, stamp, key, normal, out)

    def _check_stamps(self, records: list[Any], stamps: list[int]) -> None:
        """Make sure that records have timestamps where their windows depend on them."""
        if self._needs_stamps and min(stamps) == NO_TIMESTAMP:
            raise self.operator.missing_timestamp(records, stamps)

    def add(self, value: Any, stamp: int, key: Any, normal: NormalKey, out: SideOutputs) -> None:
        """Add a record to its windows, and follow the trigger's decision."""
        state, contents, namespace_of = self.state, self.contents, self.namespaces.of
        own, cleanup_time = self.timers.own, self.timers.cleanup_time
        state.key, state.normal = key, normal
        merging = self.merging.of(normal) if self.merges else None
        was_taken = False
        windows = self._assigned(value, stamp)
        is_shared = len(windows) > 1 and contents.folds
        for window in windows:
            is_odd = self.is_event_time and not EARLIEST <= window.max_timestamp() <= MAX_WATERMARK
            if is_odd and self._never_fires(window, value, stamp):
                continue
            actual = window if merging is None else merging.add(window, self._merge)
            clears = cleanup_time(actual)
            if self.is_event_time and clears <= state.watermark:
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
                own.register(clears, normal, namespace, key)
        if merging is not None:
            self.merging.keep(normal, merging)
        if not was_taken and (windows or self._is_late(stamp)):
            self.operator.side_output_late(RowBatch([value], [stamp]), state.watermark, out)

    def _never_fires(self, window: Window, value: Any, stamp: int) -> bool:
        """Return whether a window ends after the last watermark; a record without timestamp has no windows at all."""
        if stamp == NO_TIMESTAMP:
            raise self.operator.missing_timestamp([value], [stamp])
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
        return FunctionResultError(call, self.operator.context.operator_name, short_repr(result), wanted)

    def _is_late(self, stamp: int) -> bool:
        """Return whether a record that belongs to no window is late by itself, as in Flink."""
        return self.is_event_time and stamp + self.lateness_ms <= self.state.watermark

    # --------------------------------------------------------------------------------------------------------- firing

    def _follow(self, result: TriggerResult, window: Window, stands: Window, out: SideOutputs) -> None:
        """Follow the trigger's decision about a window."""
        if type(result) is not TriggerResult:
            call = f"A method of {type(self.trigger).__qualname__}"
            raise self._wrong(call, result, "a TriggerResult")
        address = self.state.address(stands)
        if result.is_fire():
            self._results.begin(window, self.state.watermark)
            self.contents.fire(address, window, self.state.key, self._results, out)
        if result.is_purge():
            self.contents.remove(address)

    def fire(self, due: Iterable[DueTimer], domain: TimeDomain, out: SideOutputs) -> None:
        """Fire timers, and clear the windows that end with them."""
        for timestamp, normal, namespace, key in due:
            self.operator.store.free_memory_if_full()
            self.state.turn_to(key, normal)
            window, merging = self.namespaces.window(namespace), self.merging.of(normal) if self.merges else None
            if merging is not None and window not in merging.mapping:
                self.set_again(namespace, normal, key)
                continue
            stands = window if merging is None else merging.mapping[window]
            is_event = domain is TimeDomain.EVENT_TIME
            call = self.trigger.on_event_time if is_event else self.trigger.on_processing_time
            self._follow(call(timestamp, window, self.state.at(window)), window, stands, out)
            if is_event is self.is_event_time and timestamp == self.timers.cleanup_time(window):
                self._clear(window, stands, key)
                if merging is not None:
                    del merging.mapping[window]
            if merging is not None:
                self.merging.keep(normal, merging)

    def _clear(self, window: Window, stands: Window, key: Any) -> None:
        self.contents.remove(self.state.address(stands))
        self.trigger.clear(window, self.state.at(window))
        if self._results.clears:
            self._results.begin(window, self.state.watermark)
            self._results.clear([(self.state.normal, key, None)])

    # ------------------------------------------------------------------------------------------------------- merging

    def set_again(self, window: Namespace, normal: NormalKey, key: Any) -> None:
        """Set the timers of the session that a window was merged into, if it has none; see `session_firing`."""
        grown = self.merging.session_with(window, normal)
        if grown is not None:
            self.timers.set_again(grown, normal, key)

    def _merge(self, window: Window, parts: list[Window], stands: Window, others: list[Window]) -> None:
        """Merge windows of a key."""
        end = window.max_timestamp()
        now = self.state.watermark if self.is_event_time else self.state.get_current_processing_time()
        if end + self.timers.cleanup_after_ms <= now and end < MAX_WATERMARK:
            reason = f"its end {end} would be before the current time {now}"
            raise UnsupportedOperationError(f"Merging windows into {window!r}", reason)
        self.trigger.on_merge(window, self.state.merging(window, parts))
        for part in parts:
            if part == window:
                continue
            self.trigger.clear(part, self.state.at(part))
            time = self.timers.cleanup_time(part)
            if time < MAX_WATERMARK:
                self.state.at(part).delete(time, is_event=self.is_event_time)
        self.contents.merge(self.state.address(stands), [self.state.address(other) for other in others])
