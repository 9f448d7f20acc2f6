"""The clocks of a task: the time of day, the time that passes, and the time in which a subtask could have read.

Whatever depends on time in a task takes it from here, so that a test can turn it by hand. Timers and TTL go by the
time of day, which may jump from one epoch to the next. Limits of reading go by the time that passes. Idleness goes by
the time in which there could have been input: it stands still while a chain works on a batch, while others in the slot
read, between epochs, and when the job is down.

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
    """Let that many milliseconds pass."""
    time.sleep(duration_ms / 1000)


@dataclass(frozen=True, slots=True)
class TaskClock:
    """The clocks of the machine that a task runs on."""

    #: Milliseconds since the epoch, for processing time; may jump when the machine's clock is set.
    now_ms: Callable[[], int] = now_ms
    #: Milliseconds that only ever grow, for how long something takes.
    passed_ms: Callable[[], float] = passed_ms
    #: Lets that many milliseconds pass.
    sleep_ms: Callable[[float], None] = sleep_ms

    @classmethod
    def by_hand(
        cls,
        now_ms: Callable[[], int],
        passed_ms: Callable[[], float] | None = None,
        sleep_ms: Callable[[float], None] | None = None,
    ) -> TaskClock:
        """Return clocks that a test turns; who waits for time to pass does not wait at all, unless that turns them."""
        return cls(now_ms, passed_ms or now_ms, sleep_ms or (lambda _: None))


class ProcessingClock:
    """The time of day of a subtask: it is read as an epoch begins, and runs evenly until the next one does.

    So time never runs backwards within an epoch, nor leaps: what an epoch does at a time fits together, also while the
    machine's clock is being set. The next epoch takes up what that clock says then.

    Args:
        clock: Measures.
    """

    def __init__(self, clock: TaskClock) -> None:
        self._clock, self._passed_ms = clock, clock.passed_ms
        self.take_up()

    def take_up(self) -> None:
        """Take up the time of day."""
        self._ahead_ms = self._clock.now_ms() - self._passed_ms()

    def now_ms(self) -> int:
        """Return the time in milliseconds since the epoch: the clock of processing time."""
        return round(self._ahead_ms + self._passed_ms())


class InputClock:
    """The time in which a subtask could have read; it runs only when it is let run.

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
        """Let so much time have passed."""
        self._now_ms += by_ms

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Let it run while a subtask waits for input."""
        start = self._passed_ms()
        try:
            yield
        finally:
            self.advance(max(0.0, self._passed_ms() - start))
