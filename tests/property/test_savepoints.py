"""What is written to a savepoint is what is read from it, in any number of parts, also through a second one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.test_keys import keys

from penstock._engine.protocol.keys import normal_key
from penstock._engine.savepoints import writing
from penstock.datastream.time_domain import TimeDomain
from penstock.savepoint import KeyedEntry, Savepoint, SavepointWriter

values = st.one_of(st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=3), st.tuples(st.booleans()))
windows = st.sampled_from([(), (0, 10), (10, 20)])
entries = st.lists(st.builds(KeyedEntry, keys, values, windows), max_size=30)
timers = st.lists(st.tuples(keys, st.integers(-(1 << 62), 1 << 62)), max_size=10)
parts = st.integers(1, 5)


@pytest.fixture(autouse=True)
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let some examples go through the disk."""
    monkeypatch.setattr(writing, "_SETTLE_ENTRIES", 10)
    monkeypatch.setattr(writing, "MEMORY_BYTES", 10_000)


def read(savepoint: Savepoint, uid: str, name: str) -> dict[Any, Any]:
    """Return the entries of a state by normal key and window."""
    names = {state.name for state in savepoint.operator(uid).keyed_states}
    rows = savepoint.keyed_state(uid, name) if name in names else ()
    return {(normal_key(entry.key), entry.window): entry.value for entry in rows}


@given(entries, timers, st.lists(values, max_size=10), parts)
def test_what_is_written_is_read(
    written: list[KeyedEntry], due: list[tuple[Any, int]], items: list[Any], parallelism: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        writer = SavepointWriter.new(parallelism=parallelism, max_parallelism=7)
        writer.set_keyed_state("op", "state", iter(written)).set_timers("op", due, TimeDomain.PROCESSING_TIME)
        writer.set_list_state("op", "list", items).set_union_list_state("op", "union", items)
        savepoint = Savepoint.open(writer.write(str(Path(place, "s"))), classes=None)
        assert savepoint.verify().damaged == ()
        wanted = {(normal_key(entry.key), entry.window): entry.value for entry in written}
        assert read(savepoint, "op", "state") == wanted
        found = {
            (normal_key(timer.key), timer.timestamp) for timer in savepoint.timers("op", TimeDomain.PROCESSING_TIME)
        }
        assert found == {(normal_key(key), timestamp) for key, timestamp in due}
        counted = {state.name: state.keys for state in savepoint.operator("op").keyed_states}
        assert counted.get("state", 0) == len(wanted)
        assert counted.get("processing-time", 0) == len(found)
        for name in ("list", "union") if items else ():
            read_items = [item.value for item in savepoint.list_state("op", name)]
            assert sorted(map(repr, read_items)) == sorted(map(repr, items))


@given(entries, parts, parts)
def test_transformation_is_that_of_each_value(written: list[KeyedEntry], first: int, second: int) -> None:
    def change(_: Any, value: Any) -> Any:
        return None if isinstance(value, int) else [value, value]

    with tempfile.TemporaryDirectory() as place:
        writer = SavepointWriter.new(parallelism=first, max_parallelism=7).set_keyed_state("op", "state", written)
        before = writer.set_keyed_state("op", "other", written).write(str(Path(place, "1")))
        writer = SavepointWriter.from_existing(before, classes=None)
        wanted = read(Savepoint.open(before, classes=None), "op", "state")
        if wanted:
            writer.transform_keyed_state("op", "state", change)
        moved = SavepointWriter.new(parallelism=second, max_parallelism=7)
        after = Savepoint.open(writer.write(str(Path(place, "2"))), classes=None)
        assert read(after, "op", "other") == wanted
        changed = {key: [value, value] for key, value in wanted.items() if not isinstance(value, int)}
        assert read(after, "op", "state") == changed
        if changed:
            moved.set_keyed_state("op", "state", after.keyed_state("op", "state"))
            assert read(Savepoint.open(moved.write(str(Path(place, "3"))), classes=None), "op", "state") == changed
