"""The timers of windows of single keys: of their time, and of the other one for triggers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._engine.protocol.rows import MAX_WATERMARK

if TYPE_CHECKING:
    from penstock._api.windows.window import Window
    from penstock._engine.operators.windows.merging_windows import Times
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.keyed_state import KeyedState
    from penstock._engine.state.timers import Timers


class WindowTimers:
    """The timers of one operator; a row has the key, and the window as its namespace.

    Args:
        store: The operator's store.
        is_event_time: Whether the windows go by event time, and not by the clock.
        lateness_ms: How long after its end a window of event time still takes records.
    """

    def __init__(self, store: KeyedState, *, is_event_time: bool, lateness_ms: int) -> None:
        self.event = store.timers("event-time")
        self.processing = store.timers("processing-time")
        #: The timers of the windows' own time.
        self.own: Timers = self.event if is_event_time else self.processing
        #: How long after its end a window is cleared.
        self.cleanup_after_ms = lateness_ms if is_event_time else 0

    def cleanup_time(self, window: Window) -> int:
        """Return when a window is cleared, as a watermark or a processing time."""
        time = window.max_timestamp() + self.cleanup_after_ms
        return time if time < MAX_WATERMARK else MAX_WATERMARK  # of each record, so no min()

    def set_for(self, window: Times, normal: NormalKey, key: Any) -> None:
        """Set the timers of a session: of its end, and of when it is cleared."""
        last = window[1] - 1
        self.own.register(last, normal, window, key)
        if self.cleanup_after_ms:
            self.own.register(last + self.cleanup_after_ms, normal, window, key)

    def delete_for(self, window: Times, normal: NormalKey) -> None:
        """Delete the timers of a session."""
        last = window[1] - 1
        self.own.delete(last, normal, window)
        if self.cleanup_after_ms:
            self.own.delete(last + self.cleanup_after_ms, normal, window)

    def set_again(self, grown: Times, normal: NormalKey, key: Any) -> None:
        """Set the timers of a session that a fired timer's window was merged into, if it has none."""
        last = grown[1] - 1
        clears = min(last + self.cleanup_after_ms, MAX_WATERMARK)
        # A session that stays for ever has no timer that clears it.
        is_new = clears == MAX_WATERMARK or self.own.put_off(clears, normal, grown, key)
        if is_new and (last != clears or clears == MAX_WATERMARK):
            self.own.put_off(last, normal, grown, key)
