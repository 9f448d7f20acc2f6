"""The time of jobs in this process, which moves when it is told to, and threads that run when nothing else does."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from penstock._engine.driver.mailbox import SystemClock
from penstock._engine.protocol.clocks import Moment
from penstock.testing.clock import ManualClock

if TYPE_CHECKING:
    from queue import SimpleQueue

    import pytest

#: The time of all that runs here; functions of a job name it by this module, so that they turn this one.
CLOCK = ManualClock(1_000_000)


def wait(duration_ms: float) -> None:
    """Let time pass while a source waits for input."""
    CLOCK.advance(math.ceil(duration_ms))


def measure_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let operators and subtasks take no time but that of the clock: what follows of it depends on no machine."""
    for name in ("monotonic", "perf_counter"):
        monkeypatch.setattr(time, name, lambda: CLOCK.passed_ms() / 1000)


class HastyClock(SystemClock):
    """Time that passes a hundred times as fast, where a job would wait for a restart or another try."""

    def __init__(self) -> None:
        self._start = Moment.now()

    def now(self) -> Moment:
        passed_ms = 100 * Moment.now().since(self._start)
        return Moment(self._start.now_ms + passed_ms, self._start.passed_ms + passed_ms)

    def receive(self, letters: SimpleQueue[Any], until_ms: int | None) -> Any:
        start_ms = self._start.passed_ms
        return super().receive(letters, None if until_ms is None else start_ms + (until_ms - start_ms) // 100)


class Threads:
    """Clock and threads of a driver: what is to run beside the loop runs when the loop waits."""

    def __init__(self) -> None:
        self._work: list[Any] = []

    def now(self) -> Moment:
        return Moment(CLOCK.now_ms(), CLOCK.passed_ms())

    def receive(self, letters: Any, until_ms: int | None) -> Any:
        while letters.empty():
            if self._work:
                self._work.pop(0)()
            else:
                assert until_ms is not None, "the driver waits for something that no one will send"
                CLOCK.advance(max(0, until_ms - CLOCK.passed_ms()))
                return None
        return letters.get()

    def run(self, work: Any) -> None:
        self._work.append(work)

    run_epoch = run

    def later(self, delay_ms: int, work: Any) -> None:
        del delay_ms  # nothing else is to happen before it
        self._work.append(work)

    def close(self, *, wait: bool) -> None:
        while self._work and wait:
            self._work.pop(0)()
        self._work.clear()
