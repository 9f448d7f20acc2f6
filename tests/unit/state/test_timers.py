"""The order in which timers fire, and what is left of them, as a function sees it."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from tests.kit.asking import Process, timer


class Timers:
    """The timers of a function in one domain."""

    def __init__(self, domain: str) -> None:
        self.domain = domain
        self.process = Process((), now_ms=-100)
        self.process.begin([])

    def register(self, time: int, *keys: Any) -> None:
        self.process.at_each([(key, timer(time, self.domain)) for key in keys])

    def delete(self, time: int, *keys: Any) -> None:
        self.process.at_each([(key, timer(time, self.domain, is_set=False)) for key in keys])

    def fire(self, limit: int) -> list[tuple[int, Any]]:
        return self.process.advance(limit) if self.domain == "event" else self.process.fire(limit)

    def when_fired(self, at: tuple[int, Any], register: tuple[int, ...] = (), delete: tuple[int, ...] = ()) -> None:
        """Let the callback of a timer set and delete others of its key, once."""

        def in_timer(time: int, ctx: Any) -> None:
            if (time, ctx.get_current_key()) == at:
                self.process.function.in_timer = None
                for other in register:
                    timer(other, self.domain)(None, ctx)
                for other in delete:
                    timer(other, self.domain, is_set=False)(None, ctx)

        self.process.function.in_timer = in_timer


@pytest.fixture(params=["event", "processing"])
def timers(request: pytest.FixtureRequest) -> Timers:
    return Timers(str(request.param))


def test_timers_fire_in_time_order_up_to_and_including_the_limit(timers: Timers) -> None:
    for timestamp in (30, 10, 20, 40):
        timers.register(timestamp, "a")
    assert timers.fire(30) == [(10, "a"), (20, "a"), (30, "a")]
    assert timers.fire(39) == []
    assert timers.fire(100) == [(40, "a")]


def test_timers_of_one_time_fire_in_the_order_of_registration(timers: Timers) -> None:
    timers.register(10, "b", "c", "a", 7, b"t")
    assert [key for _, key in timers.fire(10)] == ["b", "c", "a", 7, b"t"]


@pytest.mark.behaviour(181)
def test_timer_registered_twice_fires_once(timers: Timers) -> None:
    for _ in range(2):
        timers.register(10, "a", "b")
        timers.register(11, "b")
    assert timers.fire(11) == [(10, "a"), (10, "b"), (11, "b")]


@pytest.mark.behaviour(181)
def test_deleted_timer_does_not_fire(timers: Timers) -> None:
    timers.register(10, "a")
    for timestamp in (10, 10, 11):
        timers.delete(timestamp, "a")
    assert timers.fire(100) == []


def test_timers_set_by_a_callback_fire_in_their_turn(timers: Timers) -> None:
    timers.register(10, "a", "b")
    timers.when_fired((10, "a"), register=(5, 10, 15, 25))
    assert timers.fire(20) == [(10, "a"), (5, "a"), (10, "b"), (10, "a"), (15, "a")]
    assert timers.fire(25) == [(25, "a")]


def test_timers_deleted_by_a_callback_do_not_fire(timers: Timers) -> None:
    timers.register(10, "a", "b")
    timers.register(15, "a", "b")
    timers.when_fired((10, "a"), delete=(15,))
    assert timers.fire(20) == [(10, "a"), (10, "b"), (15, "b")]


def test_keys_come_back_as_they_were(timers: Timers) -> None:
    timers.register(10, ("a", 1), None, 7.0, b"t", ("t", (b"u",)))
    assert [(type(key), key) for _, key in timers.fire(10)] == [
        (tuple, ("a", 1)),
        (type(None), None),
        (float, 7.0),
        (bytes, b"t"),
        (tuple, ("t", (b"u",))),
    ]


def test_timer_set_and_fired_within_one_epoch_leaves_no_trace(timers: Timers) -> None:
    timers.register(10, "a")
    timers.register(11, "b")
    timers.delete(11, "b")
    assert timers.fire(10) == [(10, "a")]
    assert timers.process.end().lineage == ()


def test_times_without_timers_do_not_pile_up(timers: Timers) -> None:
    def move(first: int) -> None:
        """Set a timeout that each record moves."""
        for timestamp in range(first, first + 10_000, 100):
            timers.process.at_each([("a", timer(time, timers.domain)) for time in range(timestamp, timestamp + 100)])
            earlier = range(timestamp - 1, timestamp + 99)
            timers.process.at_each([("a", timer(time, timers.domain, is_set=False)) for time in earlier])

    move(0)
    tracemalloc.start()
    try:
        move(10_000)
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()
    assert timers.fire(20_000) == [(19_999, "a")]
