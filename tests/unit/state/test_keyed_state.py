from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.state.checkpoints import (
    ABSENT,
    MAX_PARALLELISM,
    Checkpoints,
    as_if_large,
    contents,
    write,
    write_all,
)

from penstock._engine.protocol.key_groups import key_group_range
from penstock._engine.protocol.keys import normal_key
from penstock._engine.protocol.state_handle import rescale
from penstock._engine.state.files.state_file import ChunkOperation, read_index
from penstock.errors import CorruptCheckpointError, UnpicklableStateError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.state.keyed_state import KeyedState


def ops(data: bytes | None) -> list[tuple[ChunkOperation, str, int]]:
    return (
        [] if data is None else [(ChunkOperation(info.op), info.name, info.entries) for info in read_index(data, "f")]
    )


@pytest.fixture
def store(checkpoints: Checkpoints) -> KeyedState:
    store = checkpoints.memory_store()
    store.catch_up(())
    return store


def test_epoch_without_changes_has_no_delta(store: KeyedState) -> None:
    store.table("count").pane().load(1)
    store.timers("event").next()
    assert store.delta(1, 1) is None


def test_delta_holds_what_changed_in_the_epoch_alone(checkpoints: Checkpoints, store: KeyedState) -> None:
    write_all(store, {1: "a", 2: "b", 3: "c"})
    checkpoints.end_epoch(store)
    store.catch_up(checkpoints.lineage)
    write_all(store, {2: "B", 3: ABSENT})
    assert ops(checkpoints.end_epoch(store)) == [(ChunkOperation.DELETE, "count", 1), (ChunkOperation.PUT, "count", 1)]


def test_what_is_made_and_undone_within_one_epoch_leaves_no_trace(store: KeyedState) -> None:
    write_all(store, {1: "a"})
    write_all(store, {1: ABSENT})
    table = store.table("windows")
    write(table.pane((0, 10)), 1, "a")
    table.drop((0, 10))
    store.timers("event").register(5, 1)
    store.timers("event").delete(5, 1)
    assert store.delta(1, 1) is None
    assert table.panes.keys() <= {()}


def test_drop_of_committed_entries_is_one_operation(checkpoints: Checkpoints, store: KeyedState) -> None:
    table = store.table("windows")
    for normal in range(100):
        write(table.pane((0, 10)), normal, "a")
    checkpoints.end_epoch(store)
    store.catch_up(checkpoints.lineage)
    table.drop((0, 10))
    write(table.pane((0, 10)), 7, "again")
    assert ops(checkpoints.end_epoch(store)) == [
        (ChunkOperation.DROP, "windows", 0),
        (ChunkOperation.PUT, "windows", 1),
    ]
    other = checkpoints.memory_store()
    other.catch_up(checkpoints.lineage)
    assert contents(other, "windows") == {(7, (0, 10)): "again"}


def test_other_store_reads_only_the_deltas_that_it_missed(checkpoints: Checkpoints, store: KeyedState) -> None:
    other = checkpoints.memory_store()
    for epoch in range(3):
        store.catch_up(checkpoints.lineage)
        write_all(store, {epoch: "a", "last": epoch})
        checkpoints.end_epoch(store)
        if epoch == 1:
            other.catch_up(checkpoints.lineage)
            other.delta(99, 99)
    checkpoints.reads.clear()
    other.catch_up(checkpoints.lineage)
    assert checkpoints.reads == ["delta-3-3-0"]
    assert contents(other) == contents(store) == {(0, ()): "a", (1, ()): "a", (2, ()): "a", ("last", ()): 2}


def test_epoch_that_was_not_accepted_never_happened(checkpoints: Checkpoints, store: KeyedState) -> None:
    write_all(store, {1: "a"})
    store.timers("event").register(5, 1)
    checkpoints.end_epoch(store)
    store.catch_up(checkpoints.lineage)
    write_all(store, {1: "void", 2: "void"})
    store.timers("event").register(6, 1)
    store.timers("event").delete(5, 1)
    checkpoints.end_epoch(store, accepted=False)
    store.catch_up(checkpoints.lineage)
    assert contents(store) == {(1, ()): "a"}
    assert [row[:2] for row in store.timers("event").pop_due(10)] == [(5, 1)]


def test_epoch_that_failed_before_its_delta_never_happened(checkpoints: Checkpoints, store: KeyedState) -> None:
    write_all(store, {1: ["a"]})
    checkpoints.end_epoch(store)
    store.catch_up(checkpoints.lineage)
    store.table("count").pane().hot[1].append("changed in place and never written")
    store.catch_up(checkpoints.lineage)
    assert contents(store) == {(1, ()): ["a"]}


def test_snapshot_holds_everything_and_replaces_the_chain(checkpoints: Checkpoints, store: KeyedState) -> None:
    write_all(store, {1: "a", 2: "b", "x": None})
    write(store.table("windows").pane((0, 10)), 1, "w")
    store.timers("event").register(5, "x", (0, 10))
    checkpoints.end_epoch(store)
    store.catch_up(checkpoints.lineage)
    write_all(store, {2: ABSENT, 3: "c"})
    checkpoints.cut(store)
    other = checkpoints.memory_store()
    other.catch_up(checkpoints.lineage)
    assert contents(other) == {(1, ()): "a", (3, ()): "c", ("x", ()): None}
    assert contents(other, "windows") == {(1, (0, 10)): "w"}
    assert list(other.timers("event").rows()) == list(store.timers("event").rows())
    checkpoints.reads.clear()
    store.catch_up(checkpoints.lineage)
    assert checkpoints.reads == []


def test_savepoint_of_an_epoch_without_changes_does_not_part_the_store_from_its_chain(
    checkpoints: Checkpoints, store: KeyedState
) -> None:
    write_all(store, {1: "a"})
    checkpoints.end_epoch(store)
    chain = checkpoints.lineage
    store.catch_up(chain)
    checkpoints.cut(store)
    savepoint = checkpoints.lineage
    checkpoints.reads.clear()
    store.catch_up(chain)
    assert contents(store) == {(1, ()): "a"}
    store.delta(3, 3)
    store.catch_up(chain)
    assert checkpoints.reads == []
    store.delta(4, 4)
    store.catch_up(savepoint)
    assert contents(store) == {(1, ()): "a"}


@dataclass(frozen=True)
class User:
    name: str


KEYS: list[Any] = [User("ada"), ("a", 1), None, 2.5, "text", 7, b"raw", frozenset({1})]


def test_tables_that_keep_keys_give_them_back_after_a_restore(checkpoints: Checkpoints, store: KeyedState) -> None:
    pane = store.table("windows", keep_keys=True).pane((0, 10))
    for key in KEYS:
        pane.remember(normal_key(key), key)
        write(pane, normal_key(key), "v")
        store.timers("event").register(5, normal_key(key), original=key)
    checkpoints.end_epoch(store)
    delta = checkpoints.lineage
    store.catch_up(delta)
    checkpoints.cut(store)
    for lineage in (delta, checkpoints.lineage):
        other = checkpoints.memory_store()
        other.catch_up(lineage)
        restored = other.table("windows").pane((0, 10))
        assert {restored.key_of(normal) for normal, _ in restored.items()} == set(KEYS)
        assert {key for _, _, _, key in other.timers("event").pop_due(5)} == set(KEYS)


def test_value_that_cannot_be_pickled_fails_the_epoch_and_the_next_try_starts_clean(
    checkpoints: Checkpoints, store: KeyedState
) -> None:
    write_all(store, {1: "a"})
    checkpoints.end_epoch(store)
    store.catch_up(checkpoints.lineage)
    write_all(store, {2: (line for line in "abc")})
    with pytest.raises(UnpicklableStateError, match=r"State 'count' holds a builtins\.generator for key 2"):
        store.delta(2, 2)
    store.catch_up(checkpoints.lineage)
    assert contents(store) == {(1, ()): "a"}


def test_file_that_is_not_the_one_written_names_its_path(checkpoints: Checkpoints, store: KeyedState) -> None:
    write_all(store, {1: "a"})
    data = checkpoints.end_epoch(store)
    assert data is not None
    (handle,) = checkpoints.lineage
    for damaged in (data[:-1], data[:20] + b"?" + data[21:], b""):
        checkpoints.files[handle.path or ""] = damaged
        with pytest.raises(CorruptCheckpointError, match=handle.path):
            checkpoints.memory_store().catch_up(checkpoints.lineage)


def test_delta_can_stand_in_its_handle(checkpoints: Checkpoints, store: KeyedState) -> None:
    write_all(store, {1: "a", 2: "b"})
    data = store.delta(1, 5) or b""
    handle = store.describe(data, "delta", 1, 5, None)
    assert (handle.inline, handle.path, handle.size, handle.entries) == (data, None, len(data), 2)
    other = checkpoints.memory_store()
    other.catch_up((handle,))
    assert contents(other) == {(1, ()): "a", (2, ()): "b"}
    with pytest.raises(CorruptCheckpointError, match="inline state of checkpoint 1"):
        checkpoints.memory_store().catch_up((replace(handle, inline=data[:-1]),))


def test_large_snapshots_have_files_by_key_groups_and_a_rescaled_subtask_reads_its_own() -> None:
    checkpoints = Checkpoints()
    with as_if_large():
        store = checkpoints.memory_store()
        store.catch_up(())
        write_all(store, {number: number for number in range(200)})
        files = checkpoints.cut(store)
        assert len(files) > 20
        paths = {handle.path for handle in checkpoints.lineage}
        halves = [rescale([checkpoints.lineage], key_group_range(subtask, 2, MAX_PARALLELISM)) for subtask in (0, 1)]
        read_by = [{handle.path for handle in half} for half in halves]
        assert read_by[0] | read_by[1] == paths
        assert len(read_by[0] & read_by[1]) <= 1
        found = {}
        for subtask, half in enumerate(halves):
            part = Checkpoints(key_group_range(subtask, 2, MAX_PARALLELISM), checkpoints.files)
            new = part.memory_store()
            new.catch_up(half)
            assert set(part.reads) == read_by[subtask]
            found |= contents(new)
        assert found == {(number, ()): number for number in range(200)}


def test_local_state_behind_a_snapshot_of_several_files_is_taken_as_it_is(tmp_path: Path) -> None:
    checkpoints = Checkpoints()
    with as_if_large():
        store = checkpoints.keyed_store(tmp_path)
        for number in range(100):
            store.catch_up(checkpoints.lineage)
            write_all(store, {number: number})
            if number == 50:
                assert len(checkpoints.cut(store)) > 1
            else:
                checkpoints.end_epoch(store)
        store.catch_up(checkpoints.lineage)
        checkpoints.reads.clear()
        again = checkpoints.keyed_store(tmp_path)
        again.catch_up(checkpoints.lineage)
        assert not [path for path in checkpoints.reads if path.startswith("snapshot")]
        assert contents(again) == {(number, ()): number for number in range(100)}
