from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.state.checkpoints import Checkpoints, contents, read, write

from penstock._engine.state.table import ABSENT, MISSING
from penstock.errors import StateDescriptorError

if TYPE_CHECKING:
    from penstock._engine.state.keyed_state import KeyedState


@pytest.fixture
def store() -> KeyedState:
    store = Checkpoints().memory_store()
    store.catch_up(())
    return store


def test_key_never_written_is_absent_and_leaves_nothing_behind(store: KeyedState) -> None:
    pane = store.table("count").pane()
    assert pane.hot.get(1, MISSING) is MISSING
    assert pane.load(1) is ABSENT
    assert pane.hot == {}


def test_items_leave_out_what_is_absent(store: KeyedState) -> None:
    pane = store.table("count").pane()
    write(pane, 1, "a")
    write(pane, 2, "b")
    write(pane, 1, ABSENT)
    assert dict(pane.items()) == {2: "b"}


def test_none_is_a_value(store: KeyedState) -> None:
    pane = store.table("count").pane()
    write(pane, 1, None)
    assert dict(pane.items()) == {1: None}
    assert read(pane, 1) is None


def test_namespaces_are_apart_and_listed_while_they_have_entries(store: KeyedState) -> None:
    table = store.table("windows")
    write(table.pane((0, 10)), 1, "a")
    write(table.pane((10, 20)), 1, "b")
    table.pane((20, 30))
    assert table.namespaces() == [(0, 10), (10, 20)]
    write(table.pane((0, 10)), 1, ABSENT)
    assert table.namespaces() == [(10, 20)]


def test_drop_empties_one_namespace_and_its_pane_can_be_used_again(store: KeyedState) -> None:
    table = store.table("windows")
    pane = table.pane((0, 10))
    write(pane, 1, "a")
    write(table.pane(), 1, "b")
    table.drop((0, 10))
    table.drop((70, 80))
    assert contents(store, "windows") == {(1, ()): "b"}
    write(pane, 2, "c")
    assert contents(store, "windows") == {(1, ()): "b", (2, (0, 10)): "c"}


def test_pane_of_the_empty_namespace_stays_the_same_object_from_epoch_to_epoch() -> None:
    checkpoints = Checkpoints()
    store = checkpoints.memory_store()
    pane = store.table("count").pane()
    hot, dirty = pane.hot, pane.dirty
    for accepted in (True, False, True):
        store.catch_up(checkpoints.lineage)
        write(pane, checkpoints.checkpoint_id, "a")
        checkpoints.end_epoch(store, accepted=accepted)
    store.catch_up(checkpoints.lineage)
    assert store.table("count").pane() is pane
    assert (pane.hot is hot, pane.dirty is dirty) == (True, True)
    assert set(hot) == {0, 1}


def test_state_declared_as_another_kind_is_refused(store: KeyedState) -> None:
    store.table("seen", kind="value")
    store.table("seen")
    with pytest.raises(StateDescriptorError) as caught:
        store.table("seen", kind="map")
    assert (caught.value.state, caught.value.written, caught.value.declared) == ("seen", "value", "map")


def test_kind_travels_with_the_state() -> None:
    checkpoints = Checkpoints()
    store = checkpoints.memory_store()
    store.catch_up(())
    write(store.table("seen", kind="value").pane(), 1, "a")
    checkpoints.end_epoch(store)
    later = checkpoints.memory_store()
    later.catch_up(checkpoints.lineage)
    with pytest.raises(StateDescriptorError):
        later.table("seen", kind="list")
    declared_first = checkpoints.memory_store()
    declared_first.table("seen", kind="list")
    with pytest.raises(StateDescriptorError):
        declared_first.catch_up(checkpoints.lineage)
