"""A clock that a test turns by hand."""

from __future__ import annotations

__all__ = ["ManualClock"]


class ManualClock:
    """A clock that moves only when a test advances it; it can also be set, like the clock of a machine.

    Args:
        now_ms: Its first time, in milliseconds since the epoch.

    Example:
        >>> clock = ManualClock(1_000)
        >>> clock.advance(500)
        >>> clock.now_ms()
        1500
        >>> clock.jump(-60_000)
        >>> clock.now_ms(), clock.passed_ms()
        (-58500, 1500)
    """

    def __init__(self, now_ms: int = 0) -> None:
        self._passed_ms = now_ms
        self._jumped_ms = 0

    def __repr__(self) -> str:
        return f"ManualClock({self.now_ms()})"

    def now_ms(self) -> int:
        """Return the time of day in milliseconds since the epoch."""
        return self._passed_ms + self._jumped_ms

    def passed_ms(self) -> int:
        """Return milliseconds that only ever grow: the time of day, had the clock never been set."""
        return self._passed_ms

    def advance(self, by_ms: int) -> None:
        """Let time pass.

        Args:
            by_ms: How much, in milliseconds.

        Raises:
            ValueError: It is negative.
        """
        self.set(self.now_ms() + by_ms)

    def set(self, now_ms: int) -> None:
        """Let time pass up to a time of day.

        Args:
            now_ms: The new time in milliseconds since the epoch.

        Raises:
            ValueError: It is before the time that the clock shows.
        """
        if now_ms < self.now_ms():
            msg = (
                f"The clock is at {self.now_ms()} ms, and time does not pass back to {now_ms} ms; jump() sets the "
                "clock without any time passing."
            )
            raise ValueError(msg)
        self._passed_ms += now_ms - self.now_ms()

    def jump(self, by_ms: int) -> None:
        """Set the clock ahead or back; no time passes with that.

        Args:
            by_ms: How far, in milliseconds.
        """
        self._jumped_ms += by_ms
