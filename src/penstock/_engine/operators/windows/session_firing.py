"""Session windows with a fixed or a dynamic gap, by event time or by the clock, which fire at their end.

Nearly every record begins a session or extends one. Such records are folded together for a block, without window
objects, merging and calls of the trigger. All other records are processed as in `trigger_firing`, on the same rows.

A session that grows keeps the timer that it got in this epoch; where that finds the session grown, it is set again. A
session that this epoch has not written gets a timer in any case: it may have fired before a rescaling, and have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.time_domain import TimeDomain
from penstock._api.windows.session_windows import FixedGap
from penstock._api.windows.window import TimeWindow
from penstock._engine.operators.windows.trigger_firing import TriggerFiring
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock._engine.state.table import ABSENT
from penstock.common.copies import copy_if_mutable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._api.windows.session_windows import SessionWindows
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.operators.windows.merging_windows import Pairs
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.rows import Composite
    from penstock._engine.state.timers import DueTimer


class SessionFiring(TriggerFiring):
    """Adds blocks of records to the sessions of their keys, which fire when the time has passed their end."""

    assigner: SessionWindows

    def add_all(
        self, records: list[Any], stamps: list[int], keys: list[Any], normals: list[NormalKey], out: SideOutputs
    ) -> None:
        self._check_stamps(records, stamps)
        times = stamps if self.is_event_time else [self.state.get_current_processing_time()] * len(records)
        ends = self._ends(records, times)
        cursor, addresses = self.operator.iterate(records), list["Composite"]()
        passed, most = self._passed, MAX_WATERMARK - self.lateness_ms
        sessions, changed, written = self.merging.pane.hot, self.merging.pane.dirty, self.contents.pane.dirty
        for normal, key, stamp, time, end in zip(normals, keys, stamps, times, ends, strict=True):
            held: Any = sessions.get(normal, ABSENT)
            if held is not ABSENT and (place := 0 if len(held) == 1 else _only_touched(held, time, end)) >= 0:
                (first, last), stands = held[place]
                # Where this epoch has written the contents, the session has a timer.
                if (
                    first <= time <= last
                    and passed < last - 1
                    and end <= most
                    and (address := (normal, stands, None)) in written
                ):
                    if end > last:
                        grown = (first, end), stands
                        sessions[normal] = (*held[:place], grown, *held[place + 1 :])
                        changed.add(normal)
                    addresses.append(address)
                    continue
            address = self._extended(normal, key, time, end) if passed < end - 1 and end <= most else None
            if address is None:
                self.contents.add_all(addresses, cursor)
                addresses = []
                self.add(next(cursor), stamp, key, normal, out)
            else:
                addresses.append(address)
        self.contents.add_all(addresses, cursor)

    def _ends(self, records: list[Any], times: list[int]) -> list[int]:
        """Return the end of the session that each record makes by itself."""
        if isinstance(self.assigner, FixedGap):
            gap = self.assigner.gap_ms
            return [time + gap for time in times]
        gap_of = self.assigner.gap_of
        return [time + gap_of(record) for record, time in zip(self.operator.iterate(records), times, strict=True)]

    @property
    def _passed(self) -> int:
        """The time up to which sessions have fired; by the clock, those that there are have not."""
        return self.state.watermark if self.is_event_time else MIN_WATERMARK

    def _extended(self, normal: NormalKey, key: Any, time: int, end: int) -> Composite | None:
        """Extend or begin a session; return the row of its contents, or None if windows have to merge or fire."""
        held, touched = self.merging.pairs_of(normal), -1
        for place, ((first, last), _) in enumerate(held):
            if first <= end and time <= last:
                if touched >= 0 or last - 1 <= self._passed:
                    return None  # sessions merge, or one fires again
                touched = place
        written = self.contents.pane.dirty
        if touched < 0:
            window = stands = time, end
            address = normal, stands, None
            self.timers.set_for(window, normal, key)
            self.merging.set_pairs(normal, (*held, (window, stands)))
            contents = self.contents.pane
            if address not in contents.hot:
                # A session that there was not has no contents: the disk need not be asked for them.
                contents.hot[address] = ABSENT
                contents.fresh.add(address)
        else:
            before, stands = held[touched]
            window = min(before[0], time), max(before[1], end)
            address = normal, stands, None
            if address not in written:
                self.timers.delete_for(before, normal)
                self.timers.set_for(window, normal, key)
            if window != before:
                self.merging.set_pairs(normal, (*held[:touched], (window, stands), *held[touched + 1 :]))
        written.add(address)
        self.contents.pane.remember(address, key)
        return address

    # --------------------------------------------------------------------------------------------------------- firing

    def fire(self, due: Iterable[DueTimer], domain: TimeDomain, out: SideOutputs) -> None:
        if (domain is TimeDomain.EVENT_TIME) is not self.is_event_time:
            super().fire(due, domain, out)
            return
        after, results, contents = self.timers.cleanup_after_ms, self._results, self.contents
        free_memory, hot, dirty = self.operator.store.free_memory_if_full, contents.pane.hot, contents.pane.dirty
        for timestamp, normal, namespace, key in due:
            free_memory()
            held = self.merging.pairs_of(normal)
            for window, stands in held:  # noqa: B007 - read behind the loop
                if window == namespace:
                    break
            else:
                self.set_again(namespace, normal, key)
                continue
            address, last = (normal, stands, None), namespace[1] - 1
            ends = timestamp == min(last + after, MAX_WATERMARK)
            if results.takes_window:
                results.begin(TimeWindow(*namespace), self.state.watermark)
            if timestamp == last and (value := contents.row(address)) is not ABSENT:
                results.emit_one((normal, key, value if ends else copy_if_mutable(value)), out, last)
            if ends:
                if not contents.pane.discard(address):
                    hot[address] = ABSENT
                    dirty.add(address)
                if results.clears:
                    results.clear([(normal, key, None)])
                left = tuple(pair for pair in held if pair[0] != namespace) if len(held) > 1 else ()
                self.merging.set_pairs(normal, left)


def _only_touched(held: Pairs, time: int, end: int) -> int:
    """Return the place of the session of a key that a record's window touches; -1 for none, and for several."""
    found = -1
    for place, ((first, last), _) in enumerate(held):
        if first <= end and time <= last:
            if found >= 0:
                return -1
            found = place
    return found
