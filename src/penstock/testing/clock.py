"""A clock that a test turns by hand."""

from __future__ import annotations

__all__ = ["ManualClock"]


class ManualClock:
    """Stands still until it is told to move, and never goes back.

    Args:
        now_ms: What it shows at first, in milliseconds since the epoch.

    Example:
        >>> clock = ManualClock(1_000)
        >>> clock.advance(500)
        >>> clock.now_ms()
        1500
    """

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Return the time in milliseconds since the epoch."""
        return self._now_ms

    def advance(self, by_ms: int) -> None:
        """Let time pass.

        Args:
            by_ms: How much, in milliseconds.

        Raises:
            ValueError: It is negative.
        """
        self.set(self._now_ms + by_ms)

    def set(self, now_ms: int) -> None:
        """Move to a time.

        Args:
            now_ms: The new time in milliseconds since the epoch.

        Raises:
            ValueError: It is before the time that the clock shows.
        """
        if now_ms < self._now_ms:
            msg = f"The clock is at {self._now_ms} ms and cannot go back to {now_ms} ms."
            raise ValueError(msg)
        self._now_ms = now_ms
