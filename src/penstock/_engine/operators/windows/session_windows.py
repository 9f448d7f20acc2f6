"""Session windows with a fixed or a dynamic gap, by event time or by the clock, which fire at their end.

Nearly every record begins a session or extends one. Such records are folded together for a block, without window
objects, merging and calls of the trigger. All other records are processed as in `keyed_windows`, on the same rows.

A session that grows keeps the timer that it got in this epoch; where that finds the session grown, it is set again. A
session that this epoch has not written gets a timer in any case: it may have fired before a rescaling, and have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.time_domain import TimeDomain
from penstock._api.windows.session_windows import FixedGap
from penstock._engine.operators.windows.keyed_windows import KeyedWindowOperator
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock._engine.state.table import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._api.windows.session_windows import SessionWindows
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.rows import Composite, Namespace
    from penstock._engine.state.timers import DueTimer

    Times = tuple[int, int]
    Pairs = tuple[tuple[Any, Any], ...]


class SessionWindowOperator(KeyedWindowOperator):
    """Adds records to the sessions of their keys, and emits results when the time has passed their end."""

    assigner: SessionWindows

    def _add_all(
        self, records: list[Any], stamps: list[int], keys: list[Any], normals: list[NormalKey], out: SideOutputs
    ) -> None:
        self._check_stamps(records, stamps)
        times = stamps if self.is_event_time else [self.state.get_current_processing_time()] * len(records)
        ends = self._ends(records, times)
        cursor, addresses = self.iterate(records), list["Composite"]()
        watermark, most = self._passed, MAX_WATERMARK - self.lateness_ms
        sessions, changed, written = self._merging.hot, self._merging.dirty, self.contents.pane.dirty
        for normal, key, stamp, time, end in zip(normals, keys, stamps, times, ends, strict=True):
            held: Any = sessions.get(normal)
            if held and held is not ABSENT and len(held) == 1:
                (first, last), stands = held[0]
                address = normal, stands, None
                # Where this epoch has written the contents, the session has a timer.
                if first <= time <= last and watermark < last - 1 and end <= most and address in written:
                    if end > last:
                        sessions[normal] = (((first, end), stands),)
                        changed.add(normal)
                    addresses.append(address)
                    continue
            address = self._extended(normal, key, time, end)
            if address is None:
                self.contents.add_all(addresses, cursor)
                addresses = []
                self._add(next(cursor), stamp, key, normal, out)
            else:
                addresses.append(address)
        self.contents.add_all(addresses, cursor)

    def _ends(self, records: list[Any], times: list[int]) -> list[int]:
        """Return the end of the session that each record makes by itself."""
        if isinstance(self.assigner, FixedGap):
            gap = self.assigner.gap_ms
            return [time + gap for time in times]
        gap_of = self.assigner.gap_of
        return [time + gap_of(record) for record, time in zip(self.iterate(records), times, strict=True)]

    @property
    def _passed(self) -> int:
        """The time up to which sessions have fired; by the clock, those that there are have not."""
        return self.watermark if self.is_event_time else MIN_WATERMARK

    def _extended(self, normal: NormalKey, key: Any, time: int, end: int) -> Composite | None:
        """Extend or begin a session; return the row of its contents, or None if windows have to merge or fire."""
        passed = self._passed
        if end - 1 <= passed or end > MAX_WATERMARK - self.lateness_ms:
            return None
        held = self._pairs_of(normal)
        touched = [pair for pair in held if pair[0][0] <= end and time <= pair[0][1]]
        if not touched:
            before = None
            window = stands = time, end
            self._set_timers(window, normal, key)
        elif len(touched) == 1 and touched[0][0][1] - 1 > passed:
            before, stands = touched[0]
            window = min(before[0], time), max(before[1], end)
            if (normal, stands, None) not in self.contents.pane.dirty:
                self._delete_timers(before, normal)
                self._set_timers(window, normal, key)
        else:
            return None  # sessions merge, or one fires again
        if window != before:
            pair = window, stands
            others = () if len(held) == len(touched) else [other for other in held if other[0] != before]
            self._merging.hot[normal] = (*others, pair) if others else (pair,)
            self._merging.dirty.add(normal)
        address = normal, stands, None
        self.contents.pane.dirty.add(address)
        if type(normal) is bytes:
            self.contents.pane.originals[address] = key, None
        return address

    def _set_timers(self, window: Times, normal: NormalKey, key: Any) -> None:
        last = window[1] - 1
        self._own_timers.register(last, normal, window, key)
        if self._cleanup_after_ms:
            self._own_timers.register(last + self._cleanup_after_ms, normal, window, key)

    def _delete_timers(self, window: Times, normal: NormalKey) -> None:
        last = window[1] - 1
        self._own_timers.delete(last, normal, window)
        if self._cleanup_after_ms:
            self._own_timers.delete(last + self._cleanup_after_ms, normal, window)

    @property
    def _cleanup_after_ms(self) -> int:
        return self.lateness_ms if self.is_event_time else 0

    # --------------------------------------------------------------------------------------------------------- firing

    def _fire_timers(self, due: Iterable[DueTimer], domain: TimeDomain, out: SideOutputs) -> None:
        if (domain is TimeDomain.EVENT_TIME) is not self.is_event_time:
            super()._fire_timers(due, domain, out)
            return
        for timestamp, normal, namespace, key in due:
            self.store.turn_to(normal)
            held = self._pairs_of(normal)
            stands = next((stands for window, stands in held if window == namespace), None)
            if stands is None:
                self._set_again(namespace, normal, key)
                continue
            window = self.namespaces.window(namespace)
            address, last = (normal, stands, None), window.max_timestamp()
            self.results.begin(window, self.watermark)
            if timestamp == last:
                self.contents.fire(address, window, key, self.results, out)
            if timestamp == self._cleanup_time(window):
                self._end(address, key, held, namespace)

    def _end(self, address: Composite, key: Any, held: Pairs, namespace: Namespace) -> None:
        """Clear a session."""
        normal = address[0]
        self.contents.remove(address)
        if self.results.clears:
            self.results.clear([(normal, key, None)])
        self._merging.hot[normal] = tuple(pair for pair in held if pair[0] != namespace) if len(held) > 1 else ABSENT
        self._merging.dirty.add(normal)
