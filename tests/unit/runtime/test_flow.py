"""When the tasks of a pipelined epoch send what they have."""

from __future__ import annotations

from penstock._engine.runtime.flow import Flow


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def flushes(clock: Clock, *, rests: bool) -> list[int]:
    """Return the milliseconds after which a task that is asked each millisecond for twenty of them sends records."""
    flow, found = Flow(1, clock), list[int]()
    begin_s = clock.now_s
    for after_ms in range(1, 21):
        clock.now_s = begin_s + after_ms * 1.001 / 1000
        if flow.is_flush_due(rests=rests):
            found.append(after_ms)
    return found


def test_reader_that_has_more_fills_its_blocks_and_others_pass_records_on() -> None:
    assert flushes(Clock(), rests=True) == list(range(2, 21, 2))
    assert flushes(Clock(), rests=False) == [10, 20]


def test_ticks_are_rarer_where_a_level_has_many_tasks() -> None:
    clock = Clock()
    flow = Flow(50, clock)
    clock.now_s += 0.02
    assert not flow.tick.is_due()
    assert flow.timers.is_due()
    clock.now_s += 0.031
    assert flow.tick.is_due()
