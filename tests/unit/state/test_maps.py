from __future__ import annotations

from collections import namedtuple
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.state.checkpoints import Checkpoints

from penstock._engine.protocol.keys import normal_key
from penstock._engine.state.key_context import KeyContext
from penstock._engine.state.kinds.kind import StateScope
from penstock._engine.state.kinds.registry import kind_of
from penstock.common import Types
from penstock.datastream.state import MapStateDescriptor
from penstock.errors import DeclaredTypeError, KeyEncodingError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock._engine.state.keyed_state import KeyedState

Pair = namedtuple("Pair", "left right")
#: Bytes of memory of a store: room for almost nothing, and for all.
ROOMS = [1, 1 << 26]


class Maps:
    """A map state over a store, with its epochs."""

    def __init__(self, directory: Path, memory_bytes: int, descriptor: MapStateDescriptor | None = None) -> None:
        self.checkpoints = Checkpoints()
        self.directory, self.memory_bytes = directory, memory_bytes
        self.descriptor = descriptor or MapStateDescriptor("carts")
        self.key = KeyContext()
        self.start(self.checkpoints.keyed_store(directory, memory_bytes))

    def start(self, store: KeyedState) -> None:
        self.store = store
        store.catch_up(self.checkpoints.lineage)
        table = store.table("carts", kind="map", keep_keys=True)
        scope = StateScope(table, self.key, "op")
        self.state: Any = kind_of(self.descriptor).state(self.descriptor, scope)

    def of(self, key: Any) -> Any:
        """Turn to a key; what a batch brings makes room first."""
        self.store.make_room()
        self.key.key, self.key.normal = key, normal_key(key)
        return self.state

    def commit(self, *, anew: bool = False, accepted: bool = True) -> bytes | None:
        """End the epoch and begin the next one, perhaps in another process that has nothing but the checkpoint."""
        data = self.checkpoints.end_epoch(self.store, accepted=accepted)
        if anew:
            self.start(self.checkpoints.memory_store())
        else:
            self.store.catch_up(self.checkpoints.lineage)
        return data


@pytest.fixture(params=ROOMS, ids=["starved", "roomy"])
def maps(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Maps]:
    made = Maps(tmp_path / "state", request.param)
    yield made
    del made.store, made.state  # a store closes its files with its last user


@pytest.mark.parametrize("anew", [False, True])
def test_entries_are_those_of_the_key_in_hand(maps: Maps, anew: bool) -> None:
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
def test_keys_of_a_map_come_back_as_they_were_put(maps: Maps, key: Any, anew: bool) -> None:
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


def test_key_without_an_encoding_is_refused(maps: Maps) -> None:
    with pytest.raises(KeyEncodingError):
        maps.of(1).put({}, 1)


@pytest.mark.parametrize("anew", [False, True])
def test_map_that_is_cleared_is_one_mark_in_the_checkpoint_and_starts_anew(maps: Maps, anew: bool) -> None:
    maps.of("a").put_all(dict.fromkeys(range(5_000), "v"))
    maps.of("b").put(1, "stays")
    maps.commit(anew=anew)
    maps.of("a").put("late", 1)
    maps.of("a").clear()
    assert maps.of("a").is_empty()
    assert (maps.of("a").get(7), maps.of("a").get("late")) == (None, None)
    maps.of("a").put(7, "new")
    data = maps.commit(anew=anew)
    assert data is not None
    assert len(data) < 1_000
    assert dict(maps.of("a").items()) == {7: "new"}
    maps.of("a").put(8, "newer")
    for _ in range(10):
        maps.of("b").put("more", maps.checkpoints.checkpoint_id)
        maps.commit(anew=anew)
    assert dict(maps.of("a").items()) == {7: "new", 8: "newer"}
    assert maps.of("b").get(1) == "stays"
    maps.of("a").clear()
    maps.commit(anew=anew)
    assert maps.of("a").is_empty()


def test_epoch_that_does_not_count_leaves_nothing(maps: Maps) -> None:
    maps.of("a").put_all({1: "a", 2: "b"})
    maps.commit()
    maps.of("a").clear()
    maps.of("a").put(3, "c")
    maps.commit(accepted=False)
    assert dict(maps.of("a").items()) == {1: "a", 2: "b"}
    maps.of("a").remove(1)
    maps.store.catch_up(maps.checkpoints.lineage)
    assert dict(maps.of("a").items()) == {1: "a", 2: "b"}


def test_map_that_is_made_and_cleared_within_an_epoch_leaves_no_trace(maps: Maps) -> None:
    maps.of("a").put(1, "x")
    maps.of("a").clear()
    assert maps.commit() is None


def test_delta_holds_the_entries_that_changed(maps: Maps) -> None:
    maps.of("a").put_all({number: f"value {number}" for number in range(20_000)})
    whole = maps.commit()
    for number in range(0, 20_000, 20):
        maps.of("a").put(number, "changed")
    delta = maps.commit()
    assert whole is not None
    assert delta is not None
    assert 3 * len(delta) < len(whole)


def test_map_is_changed_while_it_is_gone_through(maps: Maps) -> None:
    maps.of("a").put_all(dict.fromkeys(range(3000), 0))
    maps.commit()
    maps.of("a").put_all(dict.fromkeys(range(3000, 4000), 0))
    seen: list[int] = []
    for number, value in maps.state.items():
        seen.append(number)
        maps.state.put(number, value + 1)
        maps.state.remove(-number)
        if number % 7 == 0:
            maps.state.remove(number)
    assert sorted(seen) == list(range(4_000))
    maps.commit()
    assert dict(maps.of("a").items()) == {number: 1 for number in range(4_000) if number % 7}


def test_large_map_is_read_and_gone_through_bit_by_bit(tmp_path: Path) -> None:
    maps = Maps(tmp_path, 1)
    maps.of("a").put_all(dict.fromkeys(range(20000), 0))
    for _ in range(2):
        maps.commit()
    pane = maps.store.table("carts").pane()
    assert pane.hot == {}
    maps.store._room.limit_bytes = 400_000
    assert sum(1 for _ in maps.of("a").items()) == 20_000
    assert pane.hot == {}
    for number in range(20_000):  # in one call of the function, so nothing but the state itself can make room
        assert maps.state.get(number) == 0
        assert len(pane.hot) < 2_000
    assert b"".join(maps.store.snapshot(99, 99))
    assert len(pane.hot) < 2_000


def test_declared_types_of_keys_and_values_are_held(tmp_path: Path) -> None:
    maps = Maps(tmp_path, 1, MapStateDescriptor("carts", Types.INT(), Types.STRING()))
    maps.of("a").put(np.int64(1), "x")
    assert list(maps.of("a").items()) == [(1, "x")]
    with pytest.raises(DeclaredTypeError, match="A value of state 'carts' of 'op'"):
        maps.of("a").put(1, 2)
    with pytest.raises(DeclaredTypeError, match="A key of state 'carts' of 'op'"):
        maps.of("a").put("1", "x")


def test_entries_whose_keys_become_one_in_the_declared_type_are_refused_before_any_is_put(tmp_path: Path) -> None:
    maps = Maps(tmp_path, 1, MapStateDescriptor("carts", Types.FLOAT(), Types.STRING()))
    with pytest.raises(DeclaredTypeError, match=r"A key of state 'carts' of 'op' .* has two keys that are one in the"):
        maps.of("a").put_all({0.1: "x", 0.1 + 1e-12: "y"})
    assert list(maps.of("a").items()) == []
    maps.of("a").put_all({1: "x", 2: "y"})
    assert sorted(maps.of("a").items()) == [(1.0, "x"), (2.0, "y")]


def test_an_entry_that_an_epoch_puts_and_removes_leaves_nothing(tmp_path: Path) -> None:
    maps = Maps(tmp_path, ROOMS[1])
    maps.of("a").put("kept", 1)
    maps.commit()
    maps.of("a").put("brief", 2)
    maps.of("a").remove("brief")
    assert list(maps.store.table("carts").pane().hot) == [("a", (), "kept")]
    assert maps.commit() is None
    maps.of("a").remove("kept")
    assert maps.commit() is not None
    maps.commit(anew=True)
    assert list(maps.of("a").items()) == []
