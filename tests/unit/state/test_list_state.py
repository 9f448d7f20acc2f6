from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.state.checkpoints import Checkpoints, contents

from penstock._engine.state.key_context import KeyContext
from penstock._engine.state.kinds.kind import StateScope
from penstock._engine.state.kinds.lists import StoredListState
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.state.memory_store import MemoryStore


def listed(store: MemoryStore, context: KeyContext) -> Any:
    return StoredListState(StateScope(store.table("seen", kind="list"), context, "op"))


@pytest.mark.behaviour(179)
def test_list_that_was_not_set_is_empty_and_keeps_the_order_of_adding() -> None:
    context = KeyContext()
    state = listed(Checkpoints().memory_store(), context)
    context.normal = 1
    assert state.get() == []
    state.add("b")
    state.add_all(["a", "b"])
    context.normal = 2
    assert state.get() == []
    context.normal = 1
    assert list(state) == ["b", "a", "b"]
    state.update(["c"])
    assert state.get() == ["c"]


@pytest.mark.behaviour(179)
def test_none_is_refused_and_nothing_is_added() -> None:
    context = KeyContext()
    state = listed(Checkpoints().memory_store(), context)
    context.normal = 1
    for refused in (lambda: state.add(None), lambda: state.add_all([1, None]), lambda: state.update([None])):
        with pytest.raises(UnsupportedOperationError, match="None"):
            refused()
    assert state.get() == []


def test_what_is_done_to_a_list_that_was_read_is_not_done_to_the_state() -> None:
    context = KeyContext()
    state = listed(Checkpoints().memory_store(), context)
    context.normal = 1
    given = [1]
    state.update(given)
    given.append(2)
    state.get().append(3)
    assert state.get() == [1]


def test_empty_lists_take_no_room() -> None:
    store, context = Checkpoints().memory_store(), KeyContext()
    state = listed(store, context)
    for key in range(3):
        context.normal = key
        state.add(key)
    context.normal = 0
    state.clear()
    context.normal = 1
    state.update([])
    assert contents(store, "seen") == {(2, ()): [2]}


def test_epochs_that_do_not_count_leave_nothing_in_a_list(tmp_path: Path) -> None:
    checkpoints, context = Checkpoints(), KeyContext()
    store = checkpoints.keyed_store(tmp_path / "state", memory_bytes=1)
    state = listed(store, context)
    for epoch in range(12):
        store.catch_up(checkpoints.lineage)
        for key in range(20):
            context.normal = key
            state.add(epoch)
        checkpoints.end_epoch(store, accepted=epoch % 3 != 2)
    store.catch_up(checkpoints.lineage)
    assert contents(store, "seen") == {(key, ()): [0, 1, 3, 4, 6, 7, 9, 10] for key in range(20)}
