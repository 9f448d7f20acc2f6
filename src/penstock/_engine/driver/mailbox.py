"""The driver's inbox and clock, which the main loop waits on.

Events come from other threads; calls are functions that have to run on the loop, such as an enumerator's handlers.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeAlias

from penstock._engine.protocol.clocks import Moment, passed_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.coordinator.events import Event

#: A function that runs on the loop and may return an event.
Call: TypeAlias = "Callable[[], Event | None]"


class Clock(Protocol):
    """Tells the time, and waits."""

    def now(self) -> Moment:
        """Return this moment."""
        ...

    def receive(self, letters: SimpleQueue[Event | Call], until_ms: int | None) -> Event | Call | None:
        """Wait for the next letter; None after the given monotonic time (`Moment.passed_ms`)."""
        ...


class SystemClock:
    """The real time."""

    def now(self) -> Moment:
        """Return this moment."""
        return Moment.now()

    def receive(self, letters: SimpleQueue[Event | Call], until_ms: int | None) -> Event | Call | None:
        """Wait for the next letter; None after the given monotonic time."""
        timeout = None if until_ms is None else max(0.0, (until_ms - passed_ms()) / 1000)
        try:
            return letters.get(timeout=timeout)
        except Empty:
            return None


class Mailbox:
    """Takes events and calls from any thread, and hands them to the loop in order.

    Args:
        clock: The clock.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._letters: SimpleQueue[Event | Call] = SimpleQueue()

    def post(self, event: Event) -> None:
        """Send an event to the coordinator."""
        self._letters.put(event)

    def call(self, work: Call) -> None:
        """Run a function on the loop."""
        self._letters.put(work)

    def receive(self, until_ms: int | None) -> Event | Call | None:
        """Wait for the next letter, at most until the given monotonic time (`Moment.passed_ms`)."""
        return self.clock.receive(self._letters, until_ms)
