from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.state.checkpoints import Checkpoints, contents

from penstock._engine.state.key_context import KeyContext
from penstock._engine.state.kinds.value import StoredValueState

if TYPE_CHECKING:
    from pathlib import Path


def test_value_is_that_of_the_key_in_hand() -> None:
    store, context = Checkpoints().memory_store(), KeyContext()
    state = StoredValueState(store.table("last"), context)
    for key, value in ((1, "a"), ("1", "b")):
        context.key = context.normal = key
        assert state.value() is None
        state.update(value)
    context.key = context.normal = 1
    assert state.value() == "a"
    state.clear()
    assert state.value() is None
    context.key = context.normal = "1"
    assert state.value() == "b"


@pytest.mark.behaviour(179)
def test_none_takes_the_value_away() -> None:
    store, context = Checkpoints().memory_store(), KeyContext()
    state = StoredValueState(store.table("last"), context)
    context.key = context.normal = 1
    state.update("a")
    state.update(None)
    assert state.value() is None
    assert contents(store, "last") == {}


def test_state_object_lives_through_epochs_and_reads_the_local_version(tmp_path: Path) -> None:
    checkpoints, context = Checkpoints(), KeyContext()
    store = checkpoints.keyed_store(tmp_path / "state", memory_bytes=1)
    state = StoredValueState(store.table("sum"), context)
    for epoch in range(12):
        store.catch_up(checkpoints.lineage)
        for key in range(20):
            context.key = context.normal = key
            state.update((state.value() or 0) + 1)
        checkpoints.end_epoch(store, accepted=epoch % 3 != 2)
    store.catch_up(checkpoints.lineage)
    assert set(contents(store, "sum").values()) == {8}
