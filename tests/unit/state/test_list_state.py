from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.state.checkpoints import Checkpoints, contents, write

from penstock._engine.state.key_context import KeyContext
from penstock._engine.state.kinds.kind import StateScope
from penstock._engine.state.kinds.lists import StoredListState
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.state.keyed_state import KeyedState


def listed(store: KeyedState, context: KeyContext) -> Any:
    return StoredListState(StateScope(store.table("seen", kind="list"), context, "op"))


@pytest.mark.behaviour(179)
def test_list_that_was_not_set_is_empty_and_keeps_the_order_of_adding() -> None:
    context = KeyContext()
    state = listed(Checkpoints().memory_store(), context)
    context.key = context.normal = 1
    assert state.get() == []
    state.add("b")
    state.add_all(["a", "b"])
    context.key = context.normal = 2
    assert state.get() == []
    context.key = context.normal = 1
    assert list(state) == ["b", "a", "b"]
    state.update(["c"])
    assert state.get() == ["c"]


@pytest.mark.behaviour(179)
def test_none_is_refused_and_nothing_is_added() -> None:
    context = KeyContext()
    state = listed(Checkpoints().memory_store(), context)
    context.key = context.normal = 1
    for refused in (lambda: state.add(None), lambda: state.add_all([1, None]), lambda: state.update([None])):
        with pytest.raises(UnsupportedOperationError, match="None"):
            refused()
    assert state.get() == []


def test_what_is_done_to_a_list_that_was_read_is_not_done_to_the_state() -> None:
    context = KeyContext()
    state = listed(Checkpoints().memory_store(), context)
    context.key = context.normal = 1
    given = [1]
    state.update(given)
    given.append(2)
    state.get().append(3)
    assert state.get() == [1]


def test_empty_lists_take_no_room() -> None:
    store, context = Checkpoints().memory_store(), KeyContext()
    state = listed(store, context)
    for key in range(3):
        context.key = context.normal = key
        state.add(key)
    context.key = context.normal = 0
    state.clear()
    context.key = context.normal = 1
    state.update([])
    assert contents(store, "seen") == {(2, ()): [2]}


def test_epochs_that_do_not_count_leave_nothing_in_a_list(tmp_path: Path) -> None:
    checkpoints, context = Checkpoints(), KeyContext()
    store = checkpoints.keyed_store(tmp_path / "state", memory_bytes=1)
    state = listed(store, context)
    for epoch in range(12):
        store.catch_up(checkpoints.lineage)
        for key in range(20):
            context.key = context.normal = key
            state.add(epoch)
        checkpoints.end_epoch(store, accepted=epoch % 3 != 2)
    store.catch_up(checkpoints.lineage)
    assert contents(store, "seen") == {(key, ()): [0, 1, 3, 4, 6, 7, 9, 10] for key in range(20)}


@pytest.mark.parametrize("memory", [1, 1 << 26])
def test_an_epoch_writes_what_it_has_added_however_long_the_list_is(tmp_path: Path, memory: int) -> None:
    checkpoints, context = Checkpoints(), KeyContext()
    store = checkpoints.keyed_store(tmp_path / "state", memory_bytes=memory)
    context.key = context.normal = "k"
    sizes = []
    for items in (0, 50_000, 1, 1, 40, 1):
        store.catch_up(checkpoints.lineage)
        state = listed(store, context)
        before = sum(1 for _ in state)
        state.add_all([f"item {number}" for number in range(before, before + items)])
        sizes.append(len(checkpoints.end_epoch(store) or b""))
    assert sizes[1] > 40_000
    assert max(sizes[2:]) < 1_000
    other = checkpoints.memory_store()
    other.catch_up(checkpoints.lineage)
    assert list(listed(other, context)) == [f"item {number}" for number in range(50_043)]


@pytest.mark.parametrize("memory", [1, 1 << 26])
def test_long_list_is_gone_through_as_it_was_while_it_changes(tmp_path: Path, memory: int) -> None:
    checkpoints, context = Checkpoints(), KeyContext()
    store = checkpoints.keyed_store(tmp_path / "state", memory_bytes=memory)
    context.key = context.normal = "k"
    state = listed(store, context)
    for epoch in range(12):  # so that some of it is in the local version
        store.catch_up(checkpoints.lineage)
        state.add_all(list(range(epoch * 100, epoch * 100 + 100)))
        checkpoints.end_epoch(store)
    store.catch_up(checkpoints.lineage)
    items = state.get()
    assert (len(items), bool(items), list(items)[-1]) == (1_200, True, 1_199)  # type: ignore[arg-type]
    state.add(-1)
    seen = iter(items)
    assert next(seen) == 0
    state.clear()
    state.add(5)
    assert list(seen) == list(range(1, 1_200)) == list(items)[1:]
    assert list(state) == [5]
    checkpoints.end_epoch(store)
    other = checkpoints.memory_store()
    other.catch_up(checkpoints.lineage)
    assert list(listed(other, context)) == [5]
    assert contents(other, "seen") == {("k", ()): [5]}


def test_list_of_an_older_checkpoint_is_cut_when_it_grows(tmp_path: Path) -> None:
    checkpoints, context = Checkpoints(), KeyContext()
    store = checkpoints.keyed_store(tmp_path / "state", memory_bytes=1)
    write(store.table("seen", kind="list").pane(), "k", list(range(1_000)))
    checkpoints.end_epoch(store)
    context.key = context.normal = "k"
    for _ in range(3):
        store.catch_up(checkpoints.lineage)
        state = listed(store, context)
        assert state.get() == list(range(1_000)) or len(state.get()) > 1_000
        state.add(7)
        size = len(checkpoints.end_epoch(store) or b"")
    assert size < 500
    store.catch_up(checkpoints.lineage)
    assert list(listed(store, context)) == [*range(1_000), 7, 7, 7]


class ListLives:
    """Lists in random lives against Python's own."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.choose, self.context = random.Random(seed), KeyContext()
        self.checkpoints, self.directory = Checkpoints(), directory
        self.memory, self.number = self.choose.choice([1, 1 << 26]), 0
        self.committed: dict[str, list[int]] = {}
        self.start()

    def start(self) -> None:
        self.number += 1
        self.store = self.checkpoints.keyed_store(self.directory / str(self.number), self.memory)
        self.begin()

    def begin(self) -> None:
        self.store.catch_up(self.checkpoints.lineage)
        self.model = {key: list(held) for key, held in self.committed.items()}

    def step(self) -> None:
        choose, key = self.choose, self.choose.choice("abc")
        self.store.make_room()
        self.context.key = self.context.normal = key
        state, held = listed(self.store, self.context), self.model.setdefault(key, [])
        values = [choose.randrange(10**6) for _ in range(choose.choice([0, 1, 1, 5, 20, 130, 400]))]
        what = choose.random()
        if what < 0.5:
            state.add_all(values)
            held += values
        elif what < 0.55:
            state.update(values)
            held[:] = values
        elif what < 0.6:
            state.clear()
            held.clear()
        elif what < 0.8:
            assert list(state) == held
            assert bool(state.get()) is bool(held)
        else:
            self.end()

    def end(self) -> None:
        how = self.choose.choice(["delta", "delta", "snapshot", "void", "anew"])
        if how == "snapshot":
            self.checkpoints.cut(self.store)
        else:
            self.checkpoints.end_epoch(self.store, accepted=how != "void")
        if how != "void":
            self.committed = self.model
        self.start() if how == "anew" else self.begin()


def test_lists_are_as_pythons_own_in_any_order_of_uses_and_epochs(tmp_path: Path) -> None:
    for seed in range(12):
        life = ListLives(tmp_path / str(seed), seed)
        for _ in range(80):
            life.step()
