"""Maps of a function, through its epochs; their entries are rows of their own."""

from __future__ import annotations

from collections import namedtuple
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.kit.asking import OneState
from tests.unit.state.checkpoints import Checkpoints

from penstock._engine.state.key_context import KeyContext
from penstock._engine.state.kinds.kind import StateScope
from penstock._engine.state.kinds.registry import kind_of
from penstock.common import Types
from penstock.datastream.state import MapStateDescriptor
from penstock.errors import DeclaredTypeError, KeyEncodingError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Pair = namedtuple("Pair", "left right")
CARTS = MapStateDescriptor("carts")
#: Bytes of memory: for almost nothing, and for all.
MEMORIES = [1, 1 << 26]


@pytest.fixture(params=MEMORIES, ids=["starved", "ample"])
def maps(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OneState]:
    made = OneState(CARTS, tmp_path / "state", request.param)
    yield made
    del made.process  # state closes its files with its last user


@pytest.mark.parametrize("anew", [False, True])
def test_entries_are_those_of_the_current_key(maps: OneState, anew: bool) -> None:
    maps.of("a").put("x", 1)
    maps.of("a").put_all({"y": None, "z": 3})
    maps.of("aa").put_all([("x", 10)])
    maps.of(("t", 1))["x"] = 100
    for _ in range(3):
        maps.commit(anew=anew)
    state = maps.of("a")
    assert dict(state.items()) == {"x": 1, "y": None, "z": 3}
    assert (sorted(state), sorted(state.keys()), set(state.values())) == (
        ["x", "y", "z"],
        ["x", "y", "z"],
        {1, None, 3},
    )
    assert (state.get("y"), state.contains("y"), "y" in state, state["x"]) == (None, True, True, 1)
    assert (state.get("q"), state.contains("q"), state.is_empty()) == (None, False, False)
    del state["x"]
    state.remove("q")
    assert dict(maps.of("a").items()) == {"y": None, "z": 3}
    maps.commit(anew=anew)
    assert (dict(maps.of("a").items()), dict(maps.of("aa").items())) == ({"y": None, "z": 3}, {"x": 10})
    assert dict(maps.of(("t", 1)).items()) == {"x": 100}
    assert maps.of("never").is_empty()


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize(
    "key",
    [7, -1, 2**70, "é", "x" * 900, b"b", None, 1.5, Decimal("2.50"), ("a", 1), Pair(1, "r"), ("y" * 600,)],
    ids=repr,
)
def test_keys_of_a_map_come_back_as_they_were_put(maps: OneState, key: Any, anew: bool) -> None:
    maps.of(1).put(key, "v")
    maps.of(1).put("other", "w")
    for _ in range(2):
        maps.commit(anew=anew)
    (found,) = (found for found in maps.of(1) if found != "other")
    assert (found, type(found)) == (key, type(key))
    assert maps.of(1).get(key) == "v"
    maps.of(1).remove(key)
    maps.commit(anew=anew)
    assert list(maps.of(1)) == ["other"]


def test_key_without_an_encoding_is_refused(maps: OneState) -> None:
    with pytest.raises(KeyEncodingError):
        maps.of(1).put({}, 1)


@pytest.mark.parametrize("anew", [False, True])
def test_map_that_is_cleared_is_one_mark_in_the_checkpoint_and_starts_fresh(maps: OneState, anew: bool) -> None:
    maps.of("a").put_all(dict.fromkeys(range(5_000), "v"))
    maps.of("b").put(1, "stays")
    maps.commit(anew=anew)
    maps.of("a").put("late", 1)
    maps.of("a").clear()
    assert maps.of("a").is_empty()
    assert (maps.of("a").get(7), maps.of("a").get("late")) == (None, None)
    maps.of("a").put(7, "new")
    assert 0 < maps.commit(anew=anew) < 1_000
    assert dict(maps.of("a").items()) == {7: "new"}
    maps.of("a").put(8, "newer")
    for _ in range(10):
        maps.of("b").put("more", maps.of("b").get("more") or 1)
        maps.commit(anew=anew)
    assert dict(maps.of("a").items()) == {7: "new", 8: "newer"}
    assert maps.of("b").get(1) == "stays"
    maps.of("a").clear()
    maps.commit(anew=anew)
    assert maps.of("a").is_empty()


def test_epoch_that_does_not_count_leaves_nothing(maps: OneState) -> None:
    maps.of("a").put_all({1: "a", 2: "b"})
    maps.commit()
    maps.of("a").clear()
    maps.of("a").put(3, "c")
    maps.commit(counts=False)
    assert dict(maps.of("a").items()) == {1: "a", 2: "b"}
    maps.of("a").remove(1)
    maps.process.begin(maps.snapshots)  # as after an epoch that was lost
    assert dict(maps.of("a").items()) == {1: "a", 2: "b"}


def test_map_that_is_made_and_cleared_within_an_epoch_leaves_no_trace(maps: OneState) -> None:
    maps.of("a").put(1, "x")
    maps.of("a").clear()
    assert maps.commit() == 0


def test_delta_holds_the_entries_that_changed(maps: OneState) -> None:
    maps.of("a").put_all({number: f"value {number}" for number in range(20_000)})
    whole = maps.commit()
    for number in range(0, 20_000, 20):
        maps.of("a").put(number, "changed")
    delta = maps.commit()
    assert 0 < 3 * delta < whole


def test_map_is_changed_while_it_is_gone_through(maps: OneState) -> None:
    maps.of("a").put_all(dict.fromkeys(range(3000), 0))
    maps.commit()
    maps.of("a").put_all(dict.fromkeys(range(3000, 4000), 0))

    def changed(state: Any) -> list[int]:
        seen: list[int] = []
        for number, value in state.items():
            seen.append(number)
            state.put(number, value + 1)
            state.remove(-number)
            if number % 7 == 0:
                state.remove(number)
        return seen

    seen = maps.within("a", changed)
    assert sorted(seen) == list(range(4_000))
    maps.commit()
    assert dict(maps.of("a").items()) == {number: 1 for number in range(4_000) if number % 7}


def test_declared_types_of_keys_and_values_are_held() -> None:
    maps = OneState(MapStateDescriptor("carts", Types.INT(), Types.STRING()))
    maps.of("a").put(np.int64(1), "x")
    assert list(maps.of("a").items()) == [(1, "x")]
    with pytest.raises(DeclaredTypeError, match="A value of state 'carts' of"):
        maps.of("a").put(1, 2)
    with pytest.raises(DeclaredTypeError, match="A key of state 'carts' of"):
        maps.of("a").put("1", "x")


def test_entries_whose_keys_become_one_in_the_declared_type_are_refused_before_any_is_put() -> None:
    maps = OneState(MapStateDescriptor("carts", Types.FLOAT(), Types.STRING()))
    with pytest.raises(DeclaredTypeError, match=r"A key of state 'carts' of .* has two keys that are one in the"):
        maps.of("a").put_all({0.1: "x", 0.1 + 1e-12: "y"})
    assert list(maps.of("a").items()) == []
    maps.of("a").put_all({1: "x", 2: "y"})
    assert sorted(maps.of("a").items()) == [(1.0, "x"), (2.0, "y")]


def test_an_entry_that_an_epoch_puts_and_removes_leaves_nothing(tmp_path: Path) -> None:
    maps = OneState(CARTS, tmp_path / "state", MEMORIES[1])
    maps.of("a").put("stays", 1)
    maps.commit()
    maps.of("a").put("brief", 2)
    maps.of("a").remove("brief")
    assert list(maps.of("a")) == ["stays"]
    assert maps.commit() == 0
    maps.of("a").remove("stays")
    assert maps.commit() > 0
    maps.commit(anew=True)
    assert list(maps.of("a").items()) == []


def test_large_map_is_read_and_gone_through_bit_by_bit(tmp_path: Path) -> None:
    checkpoints, key = Checkpoints(), KeyContext()
    store = checkpoints.keyed_store(tmp_path, 1)
    table = store.table("carts", kind="map", keep_keys=True)
    state: Any = kind_of(CARTS).state(CARTS, StateScope(table, key, "op"))
    key.key = key.normal = "a"
    state.put_all(dict.fromkeys(range(20_000), 0))
    for _ in range(2):
        checkpoints.end_epoch(store)
        store.catch_up(checkpoints.lineage)
    pane = table.pane()
    assert pane.hot == {}
    store._budget.limit_bytes = 400_000
    assert sum(1 for _ in state.items()) == 20_000
    assert pane.hot == {}
    for number in range(20_000):  # in one call of the function, so nothing but the state itself can evict rows
        assert state.get(number) == 0
        assert len(pane.hot) < 2_000
    assert b"".join(store.snapshot(99, 99))
    assert len(pane.hot) < 2_000
