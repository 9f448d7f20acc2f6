"""Keys are counted as they are read: behind deltas, deletions and dropped windows, and after a rescale."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock._engine.protocol.key_groups import key_group, key_group_range
from penstock._engine.protocol.metadata import (
    ChainEntry,
    ChainEntryKind,
    JobSnapshot,
    OperatorMetadata,
    OperatorSubtaskState,
    VertexMetadata,
    VertexSubtaskState,
)
from penstock._engine.protocol.metadata_document import encode_chain_entry
from penstock._engine.protocol.paths import METADATA
from penstock._engine.protocol.state_handle import StateHandle, rescale
from penstock._engine.savepoints.inspection import inspect
from penstock._engine.state.backend import MemoryBackend
from penstock._engine.state.key_rows import clear_key
from penstock._engine.state.keyed_state import KeyedState
from penstock._engine.state.table import ABSENT
from penstock._engine.storage.opening import open_storage
from penstock.savepoint import Savepoint

MOST = 4
keys = st.integers(0, 9)
windows = st.sampled_from([(), (0, 10), (10, 20)])
step = st.one_of(
    st.tuples(st.just("put"), keys, windows),
    st.tuples(st.just("delete"), keys, windows),
    st.tuples(st.just("drop"), st.just(0), windows),
    st.tuples(st.just("entry"), keys, st.integers(0, 2)),
    st.tuples(st.just("no entry"), keys, st.integers(0, 2)),
    st.tuples(st.just("clear"), keys, st.just(0)),
    st.tuples(st.just("timer"), keys, st.integers(0, 3)),
    st.tuples(st.just("no timer"), keys, st.integers(0, 3)),
)
epochs = st.lists(st.tuples(st.lists(step, max_size=8), st.booleans()), min_size=1, max_size=4)


def written(
    subtask: int, parallelism: int, history: list[tuple[list[Any], bool]], lineage: tuple[StateHandle, ...] = ()
) -> tuple[StateHandle, ...]:
    """Return the lineage of one subtask whose epochs did this, each ended by a delta, or a snapshot where True."""
    groups = key_group_range(subtask, parallelism, MOST)
    store = KeyedState(MemoryBackend(groups, MOST), lambda handle: handle.inline or b"")
    for number, (steps, whole) in enumerate(history, start=len(lineage) + 1):
        store.catch_up(lineage)
        for what, key, where in steps:
            if what == "drop":
                store.table("state", kind="value").drop(where)
            elif key_group(key, MOST) not in groups:
                continue
            elif what in {"entry", "no entry"}:
                pane = store.table("maps", kind="map").pane()
                pane.put((key, (), where), number if what == "entry" else ABSENT)
                pane.dirty.add((key, (), where))
            elif what == "clear":
                clear_key(store.table("maps", kind="map").pane(), (key, ()))
            elif what == "timer":
                store.timers("event-time").register(where, key)
            elif what == "no timer":
                store.timers("event-time").delete(where, key)
            else:
                pane = store.table("state", kind="value").pane(where)
                pane.hot[key] = number if what == "put" else ABSENT
                pane.dirty.add(key)
        lineage = _ended(store, lineage, number, whole=whole)
    return lineage


def _ended(store: KeyedState, lineage: tuple[StateHandle, ...], number: int, *, whole: bool) -> tuple[StateHandle, ...]:
    """End an epoch of a store, by a snapshot of several files or a delta; return the new lineage."""
    if whole:
        files = store.snapshot(number, number)
        return tuple(store.describe(data, "snapshot", number, number, None) for data in files)
    data = store.delta(number, number)
    return lineage if data is None else (*lineage, store.describe(data, "delta", number, number, None))


@given(epochs, st.integers(1, 3), st.integers(1, 4), st.lists(st.one_of(st.just([]), epochs), min_size=4, max_size=4))
def test_keys_are_counted_as_they_are_read(
    history: list[tuple[list[Any], bool]], before: int, after: int, later: list[list[tuple[list[Any], bool]]]
) -> None:
    lineages = [written(subtask, before, history) for subtask in range(before)]
    if after != before:
        lineages = [rescale(lineages, key_group_range(subtask, after, MOST)) for subtask in range(after)]
        # Some subtasks go on alone, so that files of the time before are theirs no more.
        lineages = [written(subtask, after, later[subtask], lineage) for subtask, lineage in enumerate(lineages)]
    operator = OperatorMetadata(
        "op", 0, after, MOST, tuple(OperatorSubtaskState(lineage=lineage) for lineage in lineages)
    )
    snapshot = JobSnapshot((VertexMetadata("op", ("op",), (VertexSubtaskState(),) * after),), {"op": operator})
    record = ChainEntry(ChainEntryKind.SAVEPOINT, "0" * 32, "job", 9, "run", "nonce", 0, "", snapshot=snapshot)
    with tempfile.TemporaryDirectory() as place:
        open_storage(place).put(METADATA, encode_chain_entry(record))
        [exactly] = inspect(place, count_keys=True).operators
        [quickly] = inspect(place).operators
        savepoint = Savepoint.open(str(Path(place)))
        for found, quick in zip(exactly.keyed_states, quickly.keyed_states, strict=True):
            rows = savepoint.timers("op") if found.kind == "timers" else savepoint.keyed_state("op", found.name)
            assert found.keys == (len({row.key for row in rows}) if found.kind == "map" else sum(1 for _ in rows))
            assert quick.keys in {None, found.keys}
            assert found.entries >= (found.keys or 0)
