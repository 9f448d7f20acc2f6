"""When an epoch expires, and how often that is tolerated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.epochs.budget import EpochMonitor


class Watched:
    """Epochs with a timeout of 100 ms, of which one in a row may expire."""

    def __init__(self) -> None:
        self.now_ms, self.given_up = 0, 0
        settings: Any = SimpleNamespace(timeout_ms=100, tolerable_failures=1)
        self.watch = EpochMonitor(settings)
        self.watch.begin(self.now_ms)

    def look(self, after_ms: int, tasks_done: int = 0) -> int:
        """Look after a time, and return how many epochs were given up by then."""
        self.now_ms += after_ms
        self.given_up += self.watch.observed(ev.EpochObserved(tasks_done, ("map (1)",)), 7, self.now_ms)
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
        watched.watch.begin(watched.now_ms)
        watched.watch.succeeded()
    watched.look(100)
    watched.watch.begin(watched.now_ms)
    watched.look(100)
    assert watched.given_up == 5
    assert not watched.watch.is_tolerable
