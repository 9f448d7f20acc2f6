"""Event-time session windows with a fixed gap, which fire at their end.

Nearly every record begins a session or extends one. Such records are folded together for a block, without window
objects, merging and calls of the trigger. All other records are processed as in `keyed_windows`, on the same rows.

A session that grows keeps the timer that it got in this epoch; where that finds the session grown, it is set again. A
session that this epoch has not written gets a timer in any case: it may have fired before a rescaling, and have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.time_domain import TimeDomain
from penstock._engine.operators.windows.keyed_windows import KeyedWindowOperator
from penstock._engine.protocol.rows import MAX_WATERMARK, NO_TIMESTAMP
from penstock._engine.state.table import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._api.windows.session_windows import EventTimeSessionWindows
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.rows import Composite, Namespace
    from penstock._engine.state.timers import DueTimer

    Times = tuple[int, int]
    Pairs = tuple[tuple[Any, Any], ...]


class SessionWindowOperator(KeyedWindowOperator):
    """Adds records to the sessions of their keys, and emits results when the watermark passes their end."""

    assigner: EventTimeSessionWindows

    def _add_all(
        self, records: list[Any], stamps: list[int], keys: list[Any], normals: list[NormalKey], out: SideOutputs
    ) -> None:
        if min(stamps) == NO_TIMESTAMP:
            super()._add_all(records, stamps, keys, normals, out)  # raises at that record
            return
        cursor, addresses = self.iterate(records), list["Composite"]()
        watermark, gap, most = self.watermark, self.assigner.gap_ms, MAX_WATERMARK - self.lateness_ms
        sessions, changed, written = self._merging.hot, self._merging.dirty, self.contents.pane.dirty
        for normal, key, stamp in zip(normals, keys, stamps, strict=True):
            held: Any = sessions.get(normal)
            if held and held is not ABSENT and len(held) == 1:
                (first, last), stands = held[0]
                end, address = stamp + gap, (normal, stands, None)
                # Where this epoch has written the contents, the session has a timer.
                if first <= stamp <= last and watermark < last - 1 and end <= most and address in written:
                    if end > last:
                        sessions[normal] = (((first, end), stands),)
                        changed.add(normal)
                    addresses.append(address)
                    continue
            address = self._extended(normal, key, stamp)
            if address is None:
                self.contents.add_all(addresses, cursor)
                addresses = []
                self._add(next(cursor), stamp, key, normal, out)
            else:
                addresses.append(address)
        self.contents.add_all(addresses, cursor)

    def _extended(self, normal: NormalKey, key: Any, stamp: int) -> Composite | None:
        """Extend or begin a session; return the row of its contents, or None if windows have to merge or fire."""
        end = stamp + self.assigner.gap_ms
        if end - 1 <= self.watermark or end > MAX_WATERMARK - self.lateness_ms:
            return None
        held = self._pairs_of(normal)
        touched = [pair for pair in held if pair[0][0] <= end and stamp <= pair[0][1]]
        if not touched:
            before = None
            window = stands = stamp, end
            self._set_timers(window, normal, key)
        elif len(touched) == 1 and touched[0][0][1] - 1 > self.watermark:
            before, stands = touched[0]
            window = min(before[0], stamp), max(before[1], end)
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
        self.event_timers.register(last, normal, window, key)
        if self.lateness_ms:
            self.event_timers.register(last + self.lateness_ms, normal, window, key)

    def _delete_timers(self, window: Times, normal: NormalKey) -> None:
        last = window[1] - 1
        self.event_timers.delete(last, normal, window)
        if self.lateness_ms:
            self.event_timers.delete(last + self.lateness_ms, normal, window)

    # --------------------------------------------------------------------------------------------------------- firing

    def _fire_timers(self, due: Iterable[DueTimer], domain: TimeDomain, out: SideOutputs) -> None:
        if domain is not TimeDomain.EVENT_TIME:
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
