"""Lists of a function, through its epochs; those that are long are stored in pieces."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.asking import OneState
from tests.unit.state.checkpoints import Checkpoints, write

from penstock._engine.state.key_context import KeyContext
from penstock._engine.state.kinds.kind import StateScope
from penstock._engine.state.kinds.lists import StoredListState
from penstock.datastream.state import ListStateDescriptor

if TYPE_CHECKING:
    from pathlib import Path

SEEN = ListStateDescriptor("seen")
#: Bytes of memory: for almost nothing, and for all.
MEMORIES = [1, 1 << 26]


@pytest.mark.behaviour(179)
def test_list_that_was_not_set_is_empty_and_keeps_the_order_of_adding() -> None:
    seen = OneState(SEEN)
    assert seen.of(1).get() == []
    seen.of(1).add("b")
    seen.of(1).add_all(["a", "b"])
    assert seen.of(2).get() == []
    assert list(seen.of(1)) == ["b", "a", "b"]
    seen.of(1).update(["c"])
    assert seen.of(1).get() == ["c"]


@pytest.mark.behaviour(179)
def test_list_holds_none_like_any_value() -> None:
    state = OneState(SEEN).of(1)
    state.add(None)
    state.add_all([1, None])
    assert list(state.get()) == [None, 1, None]
    state.update([None])
    assert list(state.get()) == [None]
    for no_list in (state.add_all, state.update):
        with pytest.raises(TypeError, match="not iterable"):
            no_list(None)  # type: ignore[arg-type]
    assert list(state.get()) == [None]
    state.clear()
    assert list(state.get()) == []


def test_what_is_done_to_a_list_that_was_read_is_not_done_to_the_state() -> None:
    given, state = [1], OneState(SEEN).of(1)
    state.update(given)
    given.append(2)
    state.get().append(3)
    assert state.get() == [1]


def test_empty_lists_take_no_memory() -> None:
    seen = OneState(SEEN)
    for key in range(3):
        seen.of(key).add(key)
    seen.of(0).clear()
    seen.of(1).update([])
    assert (seen.keys_with_value(), seen.of(2).get()) == ([2], [2])


def test_epochs_that_do_not_count_leave_nothing_in_a_list(tmp_path: Path) -> None:
    seen = OneState(SEEN, tmp_path / "state", memory_bytes=1)
    seen.commit()
    for epoch in range(12):
        for key in range(20):
            seen.of(key).add(epoch)
        seen.commit(counts=epoch % 3 != 2)
    assert sorted(seen.keys_with_value()) == list(range(20))
    assert all(list(seen.of(key)) == [0, 1, 3, 4, 6, 7, 9, 10] for key in range(20))


@pytest.mark.parametrize("memory", MEMORIES)
def test_an_epoch_writes_what_it_has_added_however_long_the_list_is(tmp_path: Path, memory: int) -> None:
    seen, sizes = OneState(SEEN, tmp_path / "state", memory), []
    for items in (0, 50_000, 1, 1, 40, 1):
        before = len(list(seen.of("k")))
        seen.of("k").add_all([f"item {number}" for number in range(before, before + items)])
        sizes.append(seen.commit())
    assert sizes[1] > 40_000
    assert max(sizes[2:]) < 1_000
    seen.commit(anew=True)
    assert list(seen.of("k")) == [f"item {number}" for number in range(50_043)]


@pytest.mark.parametrize("memory", MEMORIES)
def test_an_epoch_that_adds_a_large_item_writes_few_others(tmp_path: Path, memory: int) -> None:
    items = [random.Random(number).randbytes(1_000) for number in range(16)]
    seen, sizes = OneState(SEEN, tmp_path / "state", memory), []
    for item in items:
        seen.of("k").add(item)
        sizes.append(seen.commit())
    assert min(sizes) > 1_000
    assert max(sizes) < 4_000
    seen.commit(anew=True)
    assert list(seen.of("k")) == items


@pytest.mark.parametrize("memory", MEMORIES)
def test_long_list_is_gone_through_as_it_was_while_it_changes(tmp_path: Path, memory: int) -> None:
    seen = OneState(SEEN, tmp_path / "state", memory)
    for epoch in range(12):  # so that some of it is in the local version
        seen.of("k").add_all(list(range(epoch * 100, epoch * 100 + 100)))
        seen.commit()

    def changed(state: Any) -> None:
        items = state.get()
        assert (len(items), bool(items), list(items)[-1]) == (1_200, True, 1_199)
        state.add(-1)
        read = iter(items)
        assert next(read) == 0
        state.clear()
        state.add(5)
        assert list(read) == list(range(1, 1_200)) == list(items)[1:]
        assert list(state) == [5]

    seen.within("k", changed)
    seen.commit(anew=True)
    assert (seen.keys_with_value(), list(seen.of("k"))) == (["k"], [5])


def listed(store: Any, context: KeyContext) -> Any:
    return StoredListState(StateScope(store.table("seen", kind="list"), context, "op"))


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
        self.choose = random.Random(seed)
        self.seen = OneState(SEEN, directory / "state", self.choose.choice(MEMORIES))
        self.committed: dict[str, list[int]] = {}
        self.begin()

    def begin(self) -> None:
        self.model = {key: list(held) for key, held in self.committed.items()}

    def step(self) -> None:
        choose, key = self.choose, self.choose.choice("abc")
        state, held = self.seen.of(key), self.model.setdefault(key, [])
        most = 10 ** choose.choice([6, 6, 2_500])  # the larger ones have a kilobyte
        values = [choose.randrange(most) for _ in range(choose.choice([0, 1, 1, 5, 20, 130, 400]))]
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
            assert self.seen.within(key, lambda one: (list(one), bool(one.get()))) == (held, bool(held))
        else:
            self.end()

    def end(self) -> None:
        how = self.choose.choice(["delta", "delta", "snapshot", "lost", "anew"])
        if how != "lost":
            self.committed = self.model
        self.seen.commit(counts=how != "lost", incremental=how != "snapshot", anew=how == "anew")
        self.begin()


def test_lists_are_as_pythons_own_in_any_order_of_uses_and_epochs(tmp_path: Path) -> None:
    for seed in range(12):
        life = ListLives(tmp_path / str(seed), seed)
        for _ in range(80):
            life.step()
