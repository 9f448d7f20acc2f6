"""The clocks of a task: the time of day, the time that passes, and the time in which a subtask could have read.

All time in a task comes from here, so that tests can control it. Timers and TTL use the time of day, which may jump
from one epoch to the next. Limits of reading use the monotonic clock. Idleness uses the time in which there could have
been input: that clock stops while a chain works on a batch, while other subtasks of the slot read, between epochs, and
while the job is down.

Source of the last one: Flink's PausableRelativeClock, which stands still while a task is held back.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock._engine.protocol.clocks import now_ms, passed_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


def sleep_ms(duration_ms: float) -> None:
    """Sleep for some milliseconds."""
    time.sleep(duration_ms / 1000)


@dataclass(frozen=True, slots=True)
class TaskClock:
    """The clocks of the machine that a task runs on."""

    #: Milliseconds since the epoch, for processing time; may jump when the machine's clock is set.
    now_ms: Callable[[], int] = now_ms
    #: Milliseconds of a clock that never goes back, for durations.
    passed_ms: Callable[[], float] = passed_ms
    #: Sleeps for some milliseconds.
    sleep_ms: Callable[[float], None] = sleep_ms

    @classmethod
    def by_hand(
        cls,
        now_ms: Callable[[], int],
        passed_ms: Callable[[], float] | None = None,
        sleep_ms: Callable[[float], None] | None = None,
    ) -> TaskClock:
        """Return clocks that a test controls; waiting on them takes no real time."""
        return cls(now_ms, passed_ms or now_ms, sleep_ms or (lambda _: None))


class ProcessingClock:
    """The time of day of a subtask: read when an epoch begins, and advancing evenly until the next epoch.

    So time neither goes back nor jumps within an epoch, even if the machine's clock is set. The next epoch reads
    the machine's clock again.

    Args:
        clock: Measures.
    """

    def __init__(self, clock: TaskClock) -> None:
        self._clock, self._passed_ms = clock, clock.passed_ms
        self.take_up()

    def take_up(self) -> None:
        """Read the time of day."""
        self._ahead_ms = self._clock.now_ms() - self._passed_ms()

    def now_ms(self) -> int:
        """Return the time in milliseconds since the epoch: the clock of processing time."""
        return round(self._ahead_ms + self._passed_ms())


class InputClock:
    """The time in which a subtask could have read; it advances only by `advance` and `waiting`.

    Args:
        clock: Measures.
    """

    def __init__(self, clock: TaskClock) -> None:
        self._passed_ms = clock.passed_ms
        self._now_ms = 0.0

    def now_ms(self) -> float:
        """Return the time so far, from 0 when the subtask was made in this process."""
        return self._now_ms

    def advance(self, by_ms: float) -> None:
        """Add some milliseconds."""
        self._now_ms += by_ms

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Run the clock while a subtask waits for input."""
        start = self._passed_ms()
        try:
            yield
        finally:
            self.advance(max(0.0, self._passed_ms() - start))
