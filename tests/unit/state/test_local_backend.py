from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.state.checkpoints import (
    ABSENT,
    MAX_PARALLELISM,
    Checkpoints,
    KilledError,
    contents,
    killed_while_it_moves,
    read,
    write,
    write_all,
    written_in_parts,
)

from penstock._engine.protocol.keys import normal_key
from penstock._engine.state.local.local_version import LocalVersion
from penstock._engine.state.local.versions import find_versions
from penstock.errors import StaleAttemptError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.state.table import Pane


def run(checkpoints: Checkpoints, store: Any, entries: dict[Any, Any], epochs: int = 1) -> None:
    for _ in range(epochs):
        store.catch_up(checkpoints.lineage)
        write_all(store, entries | {"epoch": checkpoints.checkpoint_id})
        checkpoints.end_epoch(store)


def versions(directory: Path) -> list[Path]:
    return sorted(directory.glob("version-*"))


def test_few_deltas_never_touch_the_disk(checkpoints: Checkpoints, directory: Path) -> None:
    run(checkpoints, checkpoints.keyed_store(directory), {1: "a"}, epochs=8)
    assert versions(directory) == []


def test_deltas_are_stored_nine_at_a_time(checkpoints: Checkpoints, directory: Path) -> None:
    store, stored = checkpoints.keyed_store(directory), []
    for _ in range(30):
        run(checkpoints, store, {1: "a"})
        found = find_versions(directory, checkpoints.key_groups, MAX_PARALLELISM)
        stored += [version.position[0] for version in found]
    assert list(dict.fromkeys(stored)) == [9, 18, 27]


def test_local_version_takes_over_what_deltas_brought(checkpoints: Checkpoints, directory: Path) -> None:
    store = checkpoints.keyed_store(directory)
    run(checkpoints, store, {1: "a", 2: "b"}, epochs=9)
    store.catch_up(checkpoints.lineage)
    assert len(versions(directory)) == 1
    checkpoints.reads.clear()
    fresh = checkpoints.keyed_store(directory)
    fresh.catch_up(checkpoints.lineage)
    assert checkpoints.reads == []
    pane = fresh.table("count").pane()
    assert pane.hot == {}
    assert (read(pane, 1), read(pane, "epoch"), read(pane, "none")) == ("a", 8, ABSENT)
    assert pane.hot == {1: "a", "epoch": 8, "none": ABSENT}
    assert contents(fresh) == contents(store)


def test_running_epoch_never_reaches_the_local_version(checkpoints: Checkpoints, directory: Path) -> None:
    store = checkpoints.keyed_store(directory, memory_bytes=1)
    run(checkpoints, store, {1: "a"}, epochs=2)
    store.catch_up(checkpoints.lineage)
    write_all(store, {1: "void", 2: "void"})
    store.table("count").drop()
    write_all(store, {3: "void"})
    checkpoints.end_epoch(store, accepted=False)
    for other in (store, checkpoints.keyed_store(directory)):
        other.catch_up(checkpoints.lineage)
        assert contents(other) == {(1, ()): "a", ("epoch", ()): 1}


def test_deletes_and_drops_reach_the_local_version(checkpoints: Checkpoints, directory: Path) -> None:
    store = checkpoints.keyed_store(directory, memory_bytes=1)
    table = store.table("count")
    store.catch_up(())
    for namespace in ((), (0, 10), (10, 20)):
        for normal in range(5):
            write(table.pane(namespace), normal, "a")
    checkpoints.end_epoch(store)
    store.catch_up(checkpoints.lineage)
    table.drop((0, 10))
    table.drop((10, 20))
    write(table.pane((10, 20)), 9, "again")
    write(table.pane(), 3, ABSENT)
    checkpoints.end_epoch(store)
    expected = {(normal, ()): "a" for normal in (0, 1, 2, 4)} | {(9, (10, 20)): "again"}
    for other in (checkpoints.memory_store(), store, checkpoints.keyed_store(directory)):
        other.catch_up(checkpoints.lineage)
        assert contents(other) == expected
    assert table.panes.keys() == {(), (10, 20)}


def test_store_left_behind_while_others_moved_the_local_version_catches_up(
    checkpoints: Checkpoints, directory: Path
) -> None:
    first, second = checkpoints.keyed_store(directory), checkpoints.keyed_store(directory)
    run(checkpoints, first, {1: "a"})
    run(checkpoints, second, {2: "b"})
    run(checkpoints, first, {1: ABSENT, 3: "c"}, epochs=9)
    run(checkpoints, second, {4: "d"})
    run(checkpoints, first, {5: "e"})
    second.catch_up(checkpoints.lineage)
    expected = {(2, ()): "b", (3, ()): "c", (4, ()): "d", (5, ()): "e", ("epoch", ()): 12}
    assert contents(second) == expected
    fresh = checkpoints.keyed_store(directory)
    fresh.catch_up(checkpoints.lineage)
    assert contents(fresh) == expected
    assert len(versions(directory)) == 1


def test_local_version_that_is_newer_than_the_lineage_stops_an_outdated_attempt(
    checkpoints: Checkpoints, directory: Path
) -> None:
    store = checkpoints.keyed_store(directory, memory_bytes=1)
    run(checkpoints, store, {1: "a"}, epochs=2)
    outdated = checkpoints.lineage
    run(checkpoints, store, {1: "b"}, epochs=2)
    store.catch_up(checkpoints.lineage)
    zombie = checkpoints.keyed_store(directory, memory_bytes=1)
    with pytest.raises(StaleAttemptError) as caught:
        zombie.catch_up(outdated)
    error = caught.value
    assert (error.operator_uid, error.subtask_index, error.checkpoint_id) == ("sum-1", 3, 2)
    assert "checkpoint 4" in error.found
    fresh = checkpoints.keyed_store(directory)
    fresh.catch_up(checkpoints.lineage)
    assert contents(fresh)[1, ()] == "b"


@pytest.mark.parametrize("epochs", [0, 2])
def test_later_run_goes_back_to_an_older_checkpoint_or_to_the_beginning(
    checkpoints: Checkpoints, directory: Path, epochs: int
) -> None:
    killed = checkpoints.keyed_store(directory, memory_bytes=1, run_id="first")
    run(checkpoints, killed, {1: "a"}, epochs=epochs)
    older, at = checkpoints.lineage, checkpoints.checkpoint_id
    run(checkpoints, killed, {1: "b", 2: "b"}, epochs=3)
    killed.catch_up(checkpoints.lineage)
    assert versions(directory)

    checkpoints.lineage, checkpoints.checkpoint_id = older, at
    again = checkpoints.keyed_store(directory, memory_bytes=1, run_id="second")
    again.catch_up(older)
    expected = {(1, ()): "a", ("epoch", ()): epochs - 1} if epochs else {}
    assert contents(again) == expected
    run(checkpoints, again, {3: "c"}, epochs=3)
    third = checkpoints.keyed_store(directory, run_id="third")
    third.catch_up(checkpoints.lineage)
    assert contents(third) == {**expected, (3, ()): "c", ("epoch", ()): epochs + 2}


def test_attempt_that_outlived_its_epoch_stops_at_its_next_read(checkpoints: Checkpoints, directory: Path) -> None:
    store = checkpoints.keyed_store(directory, memory_bytes=1)
    run(checkpoints, store, dict.fromkeys(range(10), "a"))
    store.catch_up(checkpoints.lineage)
    store.delta(98, 98)
    zombie = checkpoints.keyed_store(directory, memory_bytes=1)
    zombie.catch_up(checkpoints.lineage)
    assert read(zombie.table("count").pane(), 1) == "a"
    zombie.release()
    run(checkpoints, store, {1: "b"}, epochs=2)
    store.catch_up(checkpoints.lineage)
    with pytest.raises(StaleAttemptError):
        read(zombie.table("count").pane(), 2)
    with pytest.raises(StaleAttemptError):
        list(zombie.table("count").pane().items())


def test_other_branch_gets_a_version_of_its_own(checkpoints: Checkpoints, directory: Path) -> None:
    store = checkpoints.keyed_store(directory, memory_bytes=1)
    run(checkpoints, store, {1: "a"}, epochs=2)
    fork, at = checkpoints.lineage, checkpoints.checkpoint_id
    run(checkpoints, store, {1: "old branch"}, epochs=2)
    store.catch_up(checkpoints.lineage)
    old_branch = checkpoints.lineage
    checkpoints.lineage, checkpoints.checkpoint_id = fork, at
    memory = checkpoints.memory_store()
    run(checkpoints, memory, {1: "new branch"})
    restarted = checkpoints.keyed_store(directory, memory_bytes=1)
    restarted.catch_up(checkpoints.lineage)
    assert contents(restarted)[1, ()] == "new branch"
    assert len(versions(directory)) == 2
    store.delta(98, 98)
    store.catch_up(old_branch)
    assert contents(store)[1, ()] == "old branch"


def test_versions_of_abandoned_branches_are_removed_but_the_last_used(
    checkpoints: Checkpoints, directory: Path
) -> None:
    for branch in range(4):
        checkpoints.lineage, checkpoints.checkpoint_id = (), 0
        run(checkpoints, checkpoints.memory_store(), {1: branch})
        store = checkpoints.keyed_store(directory, memory_bytes=1)
        store.catch_up(checkpoints.lineage)
        assert contents(store)[1, ()] == branch
    assert len(versions(directory)) == 2


def test_process_whose_version_another_one_left_half_moved_reads_the_checkpoint(
    checkpoints: Checkpoints, directory: Path
) -> None:
    store = checkpoints.keyed_store(directory, memory_bytes=1)
    run(checkpoints, store, dict.fromkeys(range(20), "a"), epochs=2)
    store.catch_up(checkpoints.lineage)
    write_all(store, dict.fromkeys(range(20), "b"))
    checkpoints.end_epoch(store)
    with written_in_parts(), killed_while_it_moves(writes=2), pytest.raises(KilledError):
        checkpoints.keyed_store(directory, memory_bytes=1).catch_up(checkpoints.lineage)
    store.catch_up(checkpoints.lineage)
    assert contents(store) == {(number, ()): "b" for number in range(20)} | {("epoch", ()): 1}


def test_damaged_local_version_is_passed_over(checkpoints: Checkpoints, directory: Path) -> None:
    store = checkpoints.keyed_store(directory, memory_bytes=1)
    run(checkpoints, store, {1: "a"})
    store.catch_up(checkpoints.lineage)
    del store
    (path,) = versions(directory)
    (path / "data.mdb").write_bytes(b"not a database" * 1_000)
    fresh = checkpoints.keyed_store(directory)
    fresh.catch_up(checkpoints.lineage)
    assert contents(fresh)[1, ()] == "a"


def test_version_of_other_key_groups_is_not_used(directory: Path) -> None:
    half, whole = Checkpoints(range(64)), Checkpoints()
    store = half.keyed_store(directory, memory_bytes=1)
    store.catch_up(())
    write_all(store, {2: "half"})
    half.end_epoch(store)
    store.catch_up(half.lineage)
    other = whole.keyed_store(directory, memory_bytes=1)
    other.catch_up(())
    assert contents(other) == {}


def test_snapshot_larger_than_memory_goes_through_it_in_parts(checkpoints: Checkpoints, directory: Path) -> None:
    memory = checkpoints.memory_store()
    memory.catch_up(())
    write_all(memory, {normal: str(normal) for normal in range(5_000)})
    memory.timers("event").register(5, 1)
    checkpoints.cut(memory)
    store = checkpoints.keyed_store(directory, memory_bytes=50_000)
    store.catch_up(checkpoints.lineage)
    assert len(store.table("count").pane().hot) < 1_000
    assert contents(store) == contents(memory)
    assert len(store.timers("event")) == 1
    checkpoints.reads.clear()
    fresh = checkpoints.keyed_store(directory, memory_bytes=50_000)
    fresh.catch_up(checkpoints.lineage)
    assert checkpoints.reads == []
    assert contents(fresh) == contents(memory)
    assert len(fresh.timers("event")) == 1


def test_rows_with_sub_keys_count_with_their_addresses_where_a_snapshot_is_read_in_parts(
    checkpoints: Checkpoints, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock._engine.state.files.state_file._MAX_ENTRIES", 500)
    memory = checkpoints.memory_store()
    memory.catch_up(())
    pane = memory.table("map", kind="map").pane()
    pane.sub_rows()
    for sub in range(10_000):
        write(pane, ("key", (), sub), sub)
    checkpoints.cut(memory)
    store = checkpoints.keyed_store(directory, memory_bytes=800_000)
    written: list[int] = []
    move = LocalVersion.move

    def watched(version: LocalVersion, passed: Any, panes: list[Pane], *more: Any, **limits: Any) -> None:
        written.append(sum(len(pane.pending) for pane in panes))
        move(version, passed, panes, *more, **limits)

    monkeypatch.setattr(LocalVersion, "move", watched)
    store.catch_up(checkpoints.lineage)
    assert sum(written) + len(store.table("map", kind="map").pane().pending) == 10_000
    assert max(written) * 300 < 800_000 // 2  # what such a row takes was measured


def test_clean_entries_leave_memory_past_its_limit_and_dirty_ones_stay(
    checkpoints: Checkpoints, directory: Path
) -> None:
    store = checkpoints.keyed_store(directory, memory_bytes=100_000)
    run(checkpoints, store, {normal: normal for normal in range(5_000)}, epochs=9)
    store.catch_up(checkpoints.lineage)
    pane = store.table("count").pane()
    write_all(store, {normal: -normal for normal in range(100)})
    for normal in range(5_000):
        store.free_memory()
        assert read(pane, normal) == (normal if normal >= 100 else -normal)
        assert len(pane.hot) < 3_000
    checkpoints.end_epoch(store)
    store.catch_up(checkpoints.lineage)
    assert sum(value for (normal, _), value in contents(store).items() if normal != "epoch") == sum(
        range(5_000)
    ) - 2 * sum(range(100))


def test_chain_that_was_cut_moves_the_local_version_along(checkpoints: Checkpoints, directory: Path) -> None:
    store = checkpoints.keyed_store(directory)
    run(checkpoints, store, {1: "a"}, epochs=10)
    store.catch_up(checkpoints.lineage)
    write_all(store, {2: "b"})
    checkpoints.cut(store)
    run(checkpoints, store, {3: "c"})
    checkpoints.reads.clear()
    fresh = checkpoints.keyed_store(directory)
    fresh.catch_up(checkpoints.lineage)
    assert checkpoints.reads == ["delta-12-12-0"]
    assert contents(fresh) == {(1, ()): "a", (2, ()): "b", (3, ()): "c", ("epoch", ()): 11}


@dataclass(frozen=True)
class User:
    name: str


LONG_KEYS: list[Any] = [
    "x" * 479,
    "x" * 480,
    "x" * 2_000,
    "ä" * 600,
    ("y" * 600, 1),
    2**5_000,
    User("z" * 900),
    "x" * 2_001,
]


def test_keys_of_any_length_and_type_come_back_from_the_local_version(
    checkpoints: Checkpoints, directory: Path
) -> None:
    store = checkpoints.keyed_store(directory, memory_bytes=1)
    store.catch_up(())
    keys = [*LONG_KEYS, None, 1, -1, 2.5, "", ("a", 1), User("ada"), b"raw"]
    for keep in (True, False):
        pane = store.table(f"keep-{keep}", keep_keys=keep).pane((5,))
        for position, key in enumerate(keys):
            write(pane, normal_key(key), position)
            if keep:
                pane.remember(normal_key(key), key)
    for key in keys:
        store.timers("event").register(7, normal_key(key), (1, 2), key)
    checkpoints.end_epoch(store)
    store.catch_up(checkpoints.lineage)
    fresh = checkpoints.keyed_store(directory)
    fresh.catch_up(checkpoints.lineage)
    for keep in (True, False):
        pane = fresh.table(f"keep-{keep}").pane((5,))
        assert dict(pane.items()) == {normal_key(key): position for position, key in enumerate(keys)}
    pane = fresh.table("keep-True").pane((5,))
    assert [read(pane, normal_key(key)) for key in keys] == list(range(len(keys)))
    assert [pane.key_of(normal_key(key)) for key in keys] == keys
    assert {key for _, _, _, key in fresh.timers("event").pop_due(7)} == set(keys)


def test_key_is_found_even_when_only_the_local_version_has_it(checkpoints: Checkpoints, directory: Path) -> None:
    store = checkpoints.keyed_store(directory, memory_bytes=1)
    store.catch_up(())
    pane = store.table("windows", keep_keys=True).pane((0, 10))
    key = User("ada")
    pane.remember(normal_key(key), key)
    write(pane, normal_key(key), "v")
    checkpoints.end_epoch(store)
    store.catch_up(checkpoints.lineage)
    pane = store.table("windows").pane((0, 10))
    assert pane.hot == {}
    assert pane.key_of(normal_key(key)) == key


def test_snapshot_joins_memory_and_the_local_version(checkpoints: Checkpoints, directory: Path) -> None:
    store = checkpoints.keyed_store(directory, memory_bytes=1)
    run(checkpoints, store, dict.fromkeys(range(300), "old"))
    store.catch_up(checkpoints.lineage)
    write_all(store, dict.fromkeys(range(100, 200), "new") | {5: ABSENT, "more": 1})
    checkpoints.cut(store)
    memory = checkpoints.memory_store()
    memory.catch_up(checkpoints.lineage)
    store.catch_up(checkpoints.lineage)
    assert contents(memory) == contents(store)
    assert len(contents(memory)) == 301
    assert contents(memory)[150, ()] == "new"


def test_local_version_grows_past_its_first_map(
    checkpoints: Checkpoints, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock._engine.state.local.environment._FIRST_MAP_BYTES", 1 << 16)
    store = checkpoints.keyed_store(directory, memory_bytes=1)
    waiting = checkpoints.keyed_store(directory, memory_bytes=1)
    run(checkpoints, store, {1: "a"})
    store.catch_up(checkpoints.lineage)
    store.delta(98, 98)
    waiting.catch_up(checkpoints.lineage)
    forgotten = iter(waiting.table("count").pane().items())
    next(forgotten)
    run(checkpoints, store, dict.fromkeys(range(1000), "x" * 1000))
    store.catch_up(checkpoints.lineage)
    assert len(contents(store)) == 1_001
    waiting.catch_up(checkpoints.lineage)
    assert len(contents(waiting)) == 1_001


def test_outdated_attempt_never_writes_to_a_version_that_went_past_it(
    checkpoints: Checkpoints, directory: Path
) -> None:
    zombie, store = (checkpoints.keyed_store(directory, memory_bytes=1) for _ in range(2))
    run(checkpoints, zombie, {1: "a"})
    run(checkpoints, zombie, {1: "b"})
    outdated = checkpoints.lineage
    run(checkpoints, store, {1: "c"}, epochs=2)
    store.catch_up(checkpoints.lineage)
    with pytest.raises(StaleAttemptError):
        zombie.catch_up(outdated)
    fresh = checkpoints.keyed_store(directory)
    fresh.catch_up(checkpoints.lineage)
    assert contents(fresh)[1, ()] == "c"


def test_savepoint_beside_the_chain_does_not_name_the_local_version(checkpoints: Checkpoints, directory: Path) -> None:
    store = checkpoints.keyed_store(directory, memory_bytes=1)
    run(checkpoints, store, {1: "a"})
    b"".join(store.snapshot(2, 777))
    store.catch_up(checkpoints.lineage)
    checkpoints.reads.clear()
    fresh = checkpoints.keyed_store(directory)
    fresh.catch_up(checkpoints.lineage)
    assert checkpoints.reads == []
    assert contents(fresh)[1, ()] == "a"


def test_version_that_another_process_moved_already_is_not_written_again(
    checkpoints: Checkpoints, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (checkpoints.keyed_store(directory, memory_bytes=1) for _ in range(2))
    run(checkpoints, first, {1: "a"})
    second.catch_up(checkpoints.lineage)
    second.delta(98, 98)
    monkeypatch.setattr("penstock._engine.state.local.local_version.changes", pytest.fail)
    first.catch_up(checkpoints.lineage)
    assert contents(first)[1, ()] == "a"


def test_deleted_keys_leave_memory_once_the_local_version_has_none(checkpoints: Checkpoints, directory: Path) -> None:
    store = checkpoints.keyed_store(directory, memory_bytes=1)
    store.catch_up(())
    write_all(store, {1: "a", 2: "b"})
    checkpoints.end_epoch(store)
    store.catch_up(checkpoints.lineage)
    write_all(store, {1: ABSENT, 2: ABSENT})
    checkpoints.end_epoch(store)
    store.catch_up(checkpoints.lineage)
    assert store.table("count").pane().hot == {}
    assert contents(store) == {}


def test_large_values_count_by_their_size(checkpoints: Checkpoints, directory: Path) -> None:
    store = checkpoints.keyed_store(directory, memory_bytes=1_000_000)
    run(checkpoints, store, {normal: bytes(100_000) for normal in range(50)})
    store.catch_up(checkpoints.lineage)
    fresh = checkpoints.keyed_store(directory, memory_bytes=1_000_000)
    fresh.catch_up(checkpoints.lineage)
    pane = fresh.table("count").pane()
    for normal in range(50):
        fresh.free_memory()
        assert len(read(pane, normal)) == 100_000
        assert len(pane.hot) <= 6
