from __future__ import annotations

import random
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.state.checkpoints import MAX_PARALLELISM, Checkpoints, as_if_large

from penstock._engine.protocol.key_groups import key_group, key_group_range, subtask_of_key_group
from penstock._engine.protocol.state_handle import rescale
from penstock._engine.state.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.protocol.state_handle import Lineage
    from penstock._engine.state.keyed_state import KeyedState

times, keys = st.integers(-5, 20), st.sampled_from(["a", "b", 1, b"t"])
namespaces = st.sampled_from([(), (0, 10)])
changes = st.lists(st.tuples(st.booleans(), times, keys, namespaces), max_size=6)
rounds = st.lists(st.tuples(changes, times, st.lists(changes, max_size=8)), max_size=6)

MANY_KEYS = ["a", "b", b"t", "c" * 600, 2**70, -1, *range(8)]


def at_random(seed: int) -> list[Any]:
    """Return many changes, most of which set timers."""
    choose = random.Random(seed)
    return [
        (choose.random() < 0.7, choose.randint(-5, 20), choose.choice(MANY_KEYS), choose.choice([(), (0, 10)]))
        for _ in range(choose.choice([2, 30, 60]))
    ]


#: What an epoch of the starved store does: it sets and deletes many timers, and advances now and then.
epochs = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.integers(0, 10**9).map(at_random), st.integers(-6, 8), st.lists(changes, max_size=3)),
            max_size=3,
        ),
        st.sampled_from(["accepted", "accepted", "cut", "void", "failed"]),
        st.booleans(),
    ),
    min_size=2,
    max_size=5,
)


@pytest.fixture(autouse=True, scope="module")
def _unloads() -> Iterator[None]:
    with as_if_large():
        yield


def every(_: Any) -> bool:
    return True


def go_through(timers: Timers, model: set[Any], todo: list[Any], owns: Any = every) -> None:
    """Set, delete and fire timers, in the callbacks too, beside a set of those that there should be."""

    def change(what: list[Any]) -> None:
        for is_set, time, key, namespace in what:
            if owns(key):
                (timers.register if is_set else timers.delete)(time, key, namespace)
                (model.add if is_set else model.discard)((time, key, namespace))

    for first, limit, callbacks in todo:
        change(first)
        answers = iter(callbacks)
        for time, key, namespace, _ in timers.pop_due(limit):
            assert time <= limit
            assert (time, key, namespace) in model
            assert time == min(due for due, _, _ in model)
            model.discard((time, key, namespace))
            change(next(answers, list[Any]()))
        assert not [timer for timer in model if timer[0] <= limit]


def check(timers: Timers, model: set[Any]) -> None:
    assert {(time, key, namespace) for (key, namespace, time), _ in timers.rows()} == model
    assert len(timers) == len(model)
    assert timers.next() == min((time for time, _, _ in model), default=None)


@given(rounds)
@pytest.mark.behaviour(181, 182)
def test_timers_behave_like_a_sorted_set(todo: list[Any]) -> None:
    timers = Timers("event")
    model: set[tuple[int, Any, Any]] = set()
    go_through(timers, model, todo)
    check(timers, model)
    journal = {(time, key, namespace): is_set for (key, namespace, time), is_set in timers.journal.items()}
    assert {timer for timer, is_set in journal.items() if is_set} == model
    assert all(journal.values())


@settings(max_examples=settings().max_examples // 2)
@given(
    jobs=st.lists(
        st.tuples(st.sampled_from([1, 1, 2, 3]), st.sampled_from([1, 1, 1, 40_000]), epochs), min_size=1, max_size=3
    )
)
@pytest.mark.behaviour(181, 182)
def test_timers_beyond_memory_behave_like_a_sorted_set_over_checkpoints_and_rescalings(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[Any]
) -> None:
    model: set[tuple[int, Any, Any]] = set()
    files: dict[str, bytes] = {}
    tokens = count(1)
    roots: list[Lineage] = []
    checkpoint_id = 0
    for parallelism, memory_bytes, todo in jobs:
        parts = [Checkpoints(key_group_range(one, parallelism, MAX_PARALLELISM), files) for one in range(parallelism)]
        directory = tmp_path_factory.mktemp("run")
        for part in parts:
            part.lineage, part.checkpoint_id, part.tokens = rescale(roots, part.key_groups), checkpoint_id, tokens
        stores = [part.keyed_store(directory / str(one), memory_bytes) for one, part in enumerate(parts)]
        for what, ending, moves in todo:
            if moves:  # the next epoch runs in another process of the host
                stores = [part.keyed_store(directory / str(one), memory_bytes) for one, part in enumerate(parts)]
            after: set[tuple[int, Any, Any]] = set()
            for one, (store, part) in enumerate(zip(stores, parts, strict=True)):
                after |= _run(store, part, (one, parallelism), model, what)
                if ending == "cut":
                    part.cut(store)
                elif ending != "failed":
                    part.end_epoch(store, accepted=ending == "accepted")
            if ending in {"accepted", "cut"}:
                model = after
        checkpoint_id = parts[0].checkpoint_id
        roots = [part.lineage for part in parts]


def _run(store: KeyedState, part: Checkpoints, place: tuple[int, int], before: set[Any], todo: list[Any]) -> set[Any]:
    """Run an epoch of one subtask, but for its end; return the timers that it should have in the end."""
    subtask, parallelism = place

    def owns(key: Any) -> bool:
        return subtask_of_key_group(key_group(key, MAX_PARALLELISM), parallelism, MAX_PARALLELISM) == subtask

    model = {timer for timer in before if owns(timer[1])}
    store.catch_up(part.lineage)
    timers = store.timers("event")
    check(timers, model)
    store.make_room()
    for step in todo:
        go_through(timers, model, [step], owns)
        store.make_room()
    check(timers, model)
    return model
