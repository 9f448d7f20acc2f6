from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.asking import OneState

from penstock.datastream.state import ValueStateDescriptor

if TYPE_CHECKING:
    from pathlib import Path

LAST = ValueStateDescriptor("last")


def test_value_is_that_of_the_current_key() -> None:
    last = OneState(LAST)
    for key, value in ((1, "a"), ("1", "b")):
        assert last.of(key).value() is None
        last.of(key).update(value)
    assert last.of(1).value() == "a"
    last.of(1).clear()
    assert last.of(1).value() is None
    assert last.of("1").value() == "b"


@pytest.mark.behaviour(179)
def test_none_takes_the_value_away() -> None:
    last = OneState(LAST)
    last.of(1).update("a")
    last.of(1).update(None)
    assert last.of(1).value() is None
    assert last.keys_with_value() == []


def test_state_object_lives_through_epochs_and_reads_the_local_version(tmp_path: Path) -> None:
    total = OneState(LAST, tmp_path / "state", memory_bytes=1)
    total.commit()
    for epoch in range(12):
        for key in range(20):
            total.within(key, lambda state: state.update((state.value() or 0) + 1))
        total.commit(counts=epoch % 3 != 2)
    assert {key: total.of(key).value() for key in total.keys_with_value()} == dict.fromkeys(range(20), 8)
