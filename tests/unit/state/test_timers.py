from __future__ import annotations

from typing import Any

from penstock._engine.state.timers import Timers


def fire(timers: Timers, limit: int) -> list[tuple[int, Any]]:
    return [(timestamp, normal) for timestamp, normal, _, _ in timers.pop_due(limit)]


def test_timers_fire_in_time_order_up_to_and_including_the_limit() -> None:
    timers = Timers("event")
    for timestamp in (30, 10, 20, 40):
        timers.register(timestamp, "a")
    assert timers.next() == 10
    assert fire(timers, 30) == [(10, "a"), (20, "a"), (30, "a")]
    assert timers.next() == 40
    assert fire(timers, 39) == []
    assert len(timers) == 1


def test_timers_of_one_time_fire_in_the_order_of_registration() -> None:
    timers = Timers("event")
    for normal in ("b", "c", "a", 7, b"t"):
        timers.register(10, normal)
    assert [normal for _, normal in fire(timers, 10)] == ["b", "c", "a", 7, b"t"]


def test_timer_registered_twice_fires_once() -> None:
    timers = Timers("event")
    for _ in range(2):
        timers.register(10, "a")
        timers.register(10, "b")
        timers.register(10, "b", (0, 5))
    assert [row[:3] for row in timers.pop_due(10)] == [(10, "a", ()), (10, "b", ()), (10, "b", (0, 5))]


def test_deleted_timer_does_not_fire() -> None:
    timers = Timers("event")
    timers.register(10, "a")
    timers.delete(10, "a")
    timers.delete(10, "a")
    timers.delete(11, "a")
    assert timers.next() is None
    assert fire(timers, 100) == []


def test_timers_set_by_a_callback_fire_in_their_turn() -> None:
    timers = Timers("event")
    for normal in ("a", "b"):
        timers.register(10, normal)
    fired: list[tuple[int, Any]] = []
    for timestamp, normal, _, _ in timers.pop_due(20):
        fired.append((timestamp, normal))
        if (timestamp, normal) == (10, "a"):
            timers.register(5, "early")
            timers.register(10, "same")
            timers.register(15, "later")
            timers.register(25, "not yet")
        if normal == "early":
            timers.register(4, "earlier")
    assert fired == [(10, "a"), (5, "early"), (4, "earlier"), (10, "b"), (10, "same"), (15, "later")]
    assert timers.next() == 25


def test_timers_deleted_by_a_callback_do_not_fire() -> None:
    timers = Timers("event")
    for timestamp, normal in ((10, "a"), (10, "b"), (15, "c")):
        timers.register(timestamp, normal)
    fired: list[Any] = []
    for _, normal, _, _ in timers.pop_due(20):
        fired.append(normal)
        timers.delete(10, "b")
        timers.delete(15, "c")
    assert fired == ["a"]


def test_keys_whose_normal_form_is_bytes_come_back_as_they_were() -> None:
    timers = Timers("event")
    timers.register(10, b"t1", original=("a", 1))
    timers.register(10, b"n", (0, 5), original=None)
    timers.register(10, 7, original=7.0)
    timers.register(11, b"t2")
    assert list(timers.pop_due(11)) == [
        (10, b"t1", (), ("a", 1)),
        (10, b"n", (0, 5), None),
        (10, 7, (), 7),
        (11, b"t2", (), b"t2"),
    ]


def test_timer_set_and_fired_within_one_epoch_leaves_no_trace() -> None:
    timers = Timers("event")
    timers.register(10, "a")
    timers.register(11, "b")
    timers.delete(11, "b")
    assert fire(timers, 10) == [(10, "a")]
    assert timers.journal == {}


def test_times_without_timers_do_not_pile_up() -> None:
    timers = Timers("event")
    for timestamp in range(20_000):  # a timeout that each record moves
        timers.register(timestamp, "a")
        timers.delete(timestamp - 1, "a")
    assert len(timers.in_memory.times) < 5_000
    assert fire(timers, 20_000) == [(19_999, "a")]


def test_timers_that_are_forgotten_leave_nothing_for_the_next_delta() -> None:
    timers = Timers("event")
    timers.register(10, "a")
    timers.forget()
    assert (len(timers), timers.next(), timers.journal, timers.pending) == (0, None, {}, {})
    assert fire(timers, 10) == []
