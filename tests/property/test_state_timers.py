"""Timers of both domains against a set, in memory and beyond it, over checkpoints, processes and rescalings."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.asking import Process, Subtasks, owner, timer
from tests.unit.state.checkpoints import as_if_large

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import OperatorSnapshot

KEYS = ["a", "b", b"t", "c" * 600, 2**70, -1, None, ("t", 1), ("t", (7.5,)), *range(8)]
#: Before all timers, and behind all.
BEFORE, LAST = -100, 1_000

#: What a function does to the timers of the key whose timer fires.
callbacks = st.lists(st.lists(st.tuples(st.booleans(), st.integers(-5, 20)), max_size=3), max_size=4)


def at_random(seed: int) -> list[Any]:
    """Return many changes, most of which set timers."""
    choose = random.Random(seed)
    return [
        (choose.random() < 0.7, choose.randint(-5, 20), choose.choice(KEYS)) for _ in range(choose.choice([2, 30, 60]))
    ]


#: What an epoch does: it sets and deletes many timers, and advances now and then.
epochs = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 10**9).map(at_random), st.integers(-6, 8), callbacks), max_size=3),
        st.sampled_from(["accepted", "accepted", "cut", "void", "failed"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)
jobs_at_random = st.lists(
    st.tuples(st.sampled_from([1, 1, 2, 3]), st.sampled_from([None, 1, 1, 1, 40_000]), epochs), min_size=1, max_size=3
)


@pytest.fixture(autouse=True, scope="module")
def _unloads() -> Iterator[None]:
    with as_if_large():
        yield


class Model:
    """The timers that there should be, as (time, key), and how far time has come."""

    def __init__(self, domain: str, timers: set[Any] | None = None, watermark: int = BEFORE) -> None:
        self.domain, self.timers, self.watermark = domain, set(timers or ()), watermark

    def copy(self) -> Model:
        return Model(self.domain, self.timers, self.watermark)

    def change(self, is_set: bool, time: int, key: Any) -> None:
        (self.timers.add if is_set else self.timers.discard)((time, key))

    def run(self, subtasks: Subtasks, step: tuple[Any, ...]) -> None:
        """Set and delete timers, and let those that are due fire."""
        changes, limit, todo = step
        for process in subtasks.processes:
            own = [change for change in changes if subtasks.of(change[2]) is process]
            process.at_each([(key, timer(time, self.domain, is_set=is_set)) for is_set, time, key in own])
        for change in changes:
            self.change(*change)
        if self.domain == "processing" or limit > self.watermark:
            for subtask, process in enumerate(subtasks.processes):
                self.fire(process, (subtask, subtasks.parallelism), limit, todo)
            self.watermark = max(self.watermark, limit)

    def fire(self, process: Process, place: tuple[int, int], limit: int, todo: list[Any]) -> None:
        """Let the due timers of a subtask fire, whose callbacks change others; compare each in its turn."""
        answers, seen = iter(todo), list[tuple[int, Any, Any]]()

        def in_timer(time: int, ctx: Any) -> None:
            changes = next(answers, [])
            for is_set, other in changes:
                timer(other, self.domain, is_set=is_set)(None, ctx)
            seen.append((time, ctx.get_current_key(), changes))

        process.function.in_timer = in_timer
        fired = process.advance(limit) if self.domain == "event" else process.fire(limit)
        assert fired == [(time, key) for time, key, _ in seen]
        for time, key, changes in seen:
            assert (time, key) in self.timers
            assert time == min(due for due, of in self.timers if owner(of, place[1]) == place[0])
            assert type(key) is type(next(one for one in KEYS if one == key))
            self.timers.discard((time, key))
            for is_set, other in changes:
                self.change(is_set, other, key)
        assert not [time for time, of in self.timers if time <= limit and owner(of, place[1]) == place[0]]


@settings(max_examples=settings().max_examples // 2)
@given(domain=st.sampled_from(["event", "processing"]), jobs=jobs_at_random)
@pytest.mark.behaviour(181, 182)
def test_timers_behave_like_a_sorted_set_over_checkpoints_and_rescalings(
    tmp_path_factory: pytest.TempPathFactory, domain: str, jobs: list[Any]
) -> None:
    committed, reached = Model(domain), BEFORE
    snapshots: list[OperatorSnapshot] = []
    for parallelism, memory_bytes, todo in jobs:
        subtasks = Subtasks((), parallelism, tmp_path_factory.mktemp("run"), memory_bytes, BEFORE)
        # At another parallelism watermarks start fresh, as in Flink.
        committed.watermark = reached if len(snapshots) == parallelism else BEFORE
        for what, ending, moves in todo:
            subtasks.begin(snapshots, moves=moves)
            model = committed.copy()
            for step in what:
                model.run(subtasks, step)
            if ending == "failed":
                continue
            taken = subtasks.end(incremental=ending != "cut")
            if ending != "void":
                committed, snapshots, reached = model, taken, model.watermark
    if snapshots:
        reader = Subtasks((), 4, now_ms=BEFORE)
        reader.begin(snapshots)
        committed.watermark = BEFORE
        committed.run(reader, ([], LAST, []))
    assert not snapshots or not committed.timers
