"""When an epoch expires, and how often that is tolerated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.context import CoordinatorContext
from penstock._engine.coordinator.epochs.epoch_monitor import EpochMonitor
from penstock._engine.protocol.clocks import Moment


class Watched:
    """Epochs with a timeout of 100 ms, of which one in a row may expire."""

    def __init__(self) -> None:
        self.context, self.given_up = CoordinatorContext(), 0
        self.context.chain = SimpleNamespace(next_id=7)  # type: ignore[assignment]
        settings: Any = SimpleNamespace(timeout_ms=100, tolerable_failures=1)
        self.watch = EpochMonitor(self.context, settings, self._expire)
        self.watch.begin()

    def _expire(self) -> None:
        self.given_up += 1

    def look(self, after_ms: int, tasks_done: int = 0) -> int:
        """Look after a time, and return how many epochs were given up by then."""
        self.context.now = Moment(0, self.context.now.passed_ms + after_ms)
        self.watch.observed(ev.EpochObserved(tasks_done, ("map (1)",)))
        return self.given_up


def test_it_expires_when_nothing_was_done_for_the_whole_time() -> None:
    watched = Watched()
    assert [watched.look(99), watched.look(0, tasks_done=1), watched.look(99, 1), watched.look(1, 1)] == [0, 0, 0, 1]
    assert "map (1)" in str(watched.watch.expired)


def test_one_that_takes_long_to_end_is_given_up_and_counts_once() -> None:
    watched = Watched()
    assert [watched.look(100), watched.look(100), watched.look(100)] == [1, 1, 1]
    assert watched.watch.is_tolerable


def test_only_those_in_a_row_count() -> None:
    watched = Watched()
    for _ in range(3):
        watched.look(100)
        assert watched.watch.is_tolerable
        watched.watch.begin()
        watched.watch.succeeded()
    watched.look(100)
    watched.watch.begin()
    watched.look(100)
    assert watched.given_up == 5
    assert not watched.watch.is_tolerable
