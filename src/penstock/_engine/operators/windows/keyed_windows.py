"""Windows of single keys, with any assigner, trigger, evictor and merging.

Made of parts: the contents of a window of a key (`window_contents`), and when windows fire (`trigger_firing`;
`session_firing` and `clock_firing` where blocks of records can be added at once). Windows that all keys share have an
operator of their own (`aligned_windows`), which keeps no timers and drops a whole window at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.time_domain import TimeDomain
from penstock._engine.operators.windows.windowed import WindowedOperator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._engine.operators.base import EpochContext, OperatorContext, Output
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.operators.windows.trigger_firing import TriggerFiring
    from penstock._engine.operators.windows.window_function import WindowResults
    from penstock._engine.state.timers import DueTimer, Timers


class KeyedWindowOperator(WindowedOperator):
    """Adds records to the windows of their keys, and emits results when timers fire.

    Args:
        key_selector: The key selector of the stream.
        firing: Adds records, and decides when a window fires.
        late_tag: The id of the side output for late records; None drops them.
        results: Emits the results of a firing window.
    """

    def __init__(
        self, key_selector: Any, firing: TriggerFiring, *, late_tag: str | None, results: WindowResults
    ) -> None:
        super().__init__(key_selector, firing.contents.strategy.function, results, late_tag)
        self.firing = firing
        self.event_timers: Timers
        self.processing_timers: Timers

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.firing.open(self)
        self.event_timers, self.processing_timers = self.firing.timers.event, self.firing.timers.processing

    def begin_epoch(self, epoch: EpochContext) -> None:
        super().begin_epoch(epoch)
        self.firing.state.watermark = epoch.watermark

    def add(self, records: list[Any], stamps: list[int], out: SideOutputs) -> None:
        keys, normals = self.keys_of(records)
        self.firing.state.times.stamps = stamps
        self.firing.add_all(records, stamps, keys, normals, out)

    def advance(self, watermark: int, out: SideOutputs) -> Iterator[Output]:
        self.firing.state.watermark = watermark
        return self._fired(self.event_timers.pop_due(watermark), TimeDomain.EVENT_TIME, out)

    def _fired(self, due: Iterator[DueTimer], domain: TimeDomain, out: SideOutputs) -> Iterator[Output]:
        """Fire timers, and yield their results part by part; the last part stays."""
        self.iterate([])
        self.firing.state.times.stamps = ()
        return out.outputs_of_timers(due, lambda some: self.firing.fire(some, domain, out))

    def on_processing_time(self, now_ms: int) -> Iterable[Output]:
        due = self.processing_timers.next()
        return () if due is None or due > now_ms else self._fire_processing(self.processing_timers.pop_due(now_ms))

    def fire_left_timers(self) -> Iterable[Output]:
        return self._fire_processing(self.processing_timers.pop_left())

    def _fire_processing(self, due: Iterator[DueTimer]) -> Iterator[Output]:
        out = self.new_outputs()
        yield from self._fired(due, TimeDomain.PROCESSING_TIME, out)
        yield from out.outputs()

    def next_timer_ms(self) -> int | None:
        return self.processing_timers.next()
