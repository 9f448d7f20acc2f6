from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.state.checkpoints import ABSENT, Checkpoints, as_if_large, contents, read, write, write_all

from penstock._engine.state.key_rows import clear_key
from penstock._engine.state.local.versions import new_version
from penstock.errors import StaleAttemptError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.state.keyed_state import KeyedState

MANY = range(1_500)
MEMORY = 40_000


def layers(directory: Path) -> list[Path]:
    return list(directory.glob("epoch-*"))


def count_up(store: KeyedState, numbers: range, more: int = 1) -> int:
    """Add to the count of many keys and set a timer for each; return how many rows were in memory at most."""
    most, timers, pane = 0, store.timers("event"), store.table("count").pane()
    for number in numbers:
        if number % 50 == 0:
            store.free_memory()
        before = read(pane, number)
        write(pane, number, more if before is ABSENT else before + more)
        timers.register(number // 10, number, (number, number + 5))
        most = max(most, len(pane.hot) + len(timers.journal))
    return most


def running(checkpoints: Checkpoints, directory: Path) -> KeyedState:
    store = checkpoints.keyed_store(directory, MEMORY)
    store.catch_up(checkpoints.lineage)
    return store


@pytest.mark.parametrize("listed", ["entries", "rows"])
def test_rows_that_leave_memory_while_they_are_listed_are_listed_once(
    checkpoints: Checkpoints, directory: Path, listed: str
) -> None:
    store = running(checkpoints, directory)
    pane = store.table("count").pane()
    for number in MANY:
        write(pane, number, number)
    found = []
    for row in getattr(pane, listed)():
        found.append(row[0])
        store.free_memory()
    assert layers(directory)
    assert sorted(found) == list(MANY)


def test_changes_of_one_epoch_take_no_more_memory_than_there_is(checkpoints: Checkpoints, directory: Path) -> None:
    store = running(checkpoints, directory)
    assert count_up(store, MANY) < len(MANY) // 4
    assert count_up(store, MANY) < len(MANY) // 4
    assert contents(store) == {(number, ()): 2 for number in MANY}
    checkpoints.end_epoch(store)
    for other in (checkpoints.memory_store(), checkpoints.keyed_store(directory, MEMORY), store):
        other.catch_up(checkpoints.lineage)
        assert contents(other) == {(number, ()): 2 for number in MANY}
        assert len(other.timers("event")) == len(MANY)
    due = [time for time, *_ in store.timers("event").pop_due(10**6)]
    assert due == [number // 10 for number in MANY]


def test_a_delta_beyond_memory_is_read_in_parts(checkpoints: Checkpoints, directory: Path) -> None:
    first, other = running(checkpoints, directory / "one"), running(checkpoints, directory / "two")
    for more in range(3):
        count_up(first, MANY, more)
        checkpoints.end_epoch(first)
        first.catch_up(checkpoints.lineage)
    most, note = 0, other._hot.has_moved

    def noted() -> None:
        nonlocal most
        most = max(most, len(other.table("count").pane().pending))
        note()

    other._hot.has_moved = noted  # type: ignore[method-assign]
    other.catch_up(checkpoints.lineage)
    assert most < len(MANY) // 4
    assert contents(other) == {(number, ()): 3 for number in MANY}


def test_what_a_void_epoch_wrote_is_gone(checkpoints: Checkpoints, directory: Path) -> None:
    store = running(checkpoints, directory)
    count_up(store, MANY)
    checkpoints.end_epoch(store)
    store.catch_up(checkpoints.lineage)
    count_up(store, MANY)
    assert layers(directory) != []
    checkpoints.end_epoch(store, accepted=False)
    store.catch_up(checkpoints.lineage)
    assert contents(store) == {(number, ()): 1 for number in MANY}
    assert layers(directory) == []


@pytest.mark.parametrize("memory", [MEMORY, 100 * MEMORY])
def test_what_an_attempt_changed_that_failed_on_its_way_is_in_no_later_checkpoint(
    checkpoints: Checkpoints, directory: Path, memory: int
) -> None:
    store = checkpoints.keyed_store(directory, memory)
    store.catch_up(checkpoints.lineage)
    count_up(store, range(1_000))
    checkpoints.end_epoch(store)
    store.catch_up(checkpoints.lineage)
    count_up(store, range(500, 2_000))
    store.catch_up(checkpoints.lineage)
    count_up(store, range(900, 1_100))
    checkpoints.end_epoch(store)
    other = checkpoints.memory_store()
    other.catch_up(checkpoints.lineage)
    assert contents(other) == {(number, ()): 1 + (900 <= number < 1_000) for number in range(1_100)}
    assert len(other.timers("event")) == 1_100


def test_layer_of_a_killed_process_is_removed_and_that_of_a_living_one_is_not(
    checkpoints: Checkpoints, directory: Path
) -> None:
    left = directory / "epoch-0123456789abcdef"
    left.mkdir(parents=True, mode=0o700)
    directory.chmod(0o700)
    (left / "lock.mdb").touch()
    first, second = running(checkpoints, directory), running(checkpoints, directory)
    count_up(first, MANY)
    assert left not in layers(directory)
    count_up(second, MANY)
    assert len(layers(directory)) == 2
    assert contents(first) == contents(second)
    del first, second
    gc.collect()
    assert layers(directory) == []


def test_directories_that_another_attempt_has_just_made_stay(checkpoints: Checkpoints, directory: Path) -> None:
    """Two attempts of one subtask on one host: the other one has not opened its environment yet."""
    store = running(checkpoints, directory)
    checkpoints.end_epoch(store)
    made = [directory / f"{kind}-0123456789abcdef" for kind in ("epoch", "version")]
    for path in made:
        path.mkdir(mode=0o700)
    count_up(store, MANY)
    for _ in range(3):
        new_version(directory, range(4), 4)
    assert all(path.is_dir() for path in made)


def test_attempt_whose_version_another_process_has_moved_on_is_outdated(
    checkpoints: Checkpoints, directory: Path
) -> None:
    store = running(checkpoints, directory)
    count_up(store, MANY)
    checkpoints.end_epoch(store)
    store.catch_up(checkpoints.lineage)
    count_up(store, MANY)
    other = running(checkpoints, directory)
    for _ in range(2):
        count_up(other, MANY)
        checkpoints.end_epoch(other)
        other.catch_up(checkpoints.lineage)
    with pytest.raises(StaleAttemptError):
        contents(store)


def test_rows_that_are_dropped_and_cleared_after_they_have_left_memory(
    checkpoints: Checkpoints, directory: Path
) -> None:
    def put(store: Any, *subs: int) -> None:
        pane = store.table("maps").pane()
        for sub in subs:
            pane.put(("a", (), sub), sub)
            pane.dirty.add(("a", (), sub))
        store.free_memory()

    with as_if_large():
        store = checkpoints.keyed_store(directory, 1)
        store.catch_up(())
        put(store, 1, 2)
        write_all(store, {"x": 1, "y": 2})
        store.free_memory()
        checkpoints.end_epoch(store)
        store.catch_up(checkpoints.lineage)
        put(store, 3)
        clear_key(store.table("maps").pane(), ("a", ()))
        store.table("count").drop()
        write_all(store, {"y": 3})
        put(store, 4)
        assert contents(store) == {("y", ()): 3}
        assert contents(store, "maps") == {(("a", (), 4), ()): 4}
        store.table("count").drop()
        checkpoints.end_epoch(store)
        for other in (checkpoints.memory_store(), store):
            other.catch_up(checkpoints.lineage)
            assert contents(other) == {}
            assert contents(other, "maps") == {(("a", (), 4), ()): 4}


def test_store_that_reads_a_clear_where_another_process_has_stored_it(
    checkpoints: Checkpoints, directory: Path
) -> None:
    def put(store: Any, *subs: int) -> None:
        for sub in subs:
            store.table("maps").pane().put(("a", (), sub), sub)
            store.table("maps").pane().dirty.add(("a", (), sub))

    with as_if_large():
        behind, ahead = checkpoints.keyed_store(directory, 1), checkpoints.keyed_store(directory, 1)
        behind.catch_up(())
        put(behind, *range(8))
        checkpoints.end_epoch(behind)
        behind.catch_up(checkpoints.lineage)
        checkpoints.end_epoch(behind)
        ahead.catch_up(checkpoints.lineage)
        clear_key(ahead.table("maps").pane(), ("a", ()))
        put(ahead, 1, 9)
        checkpoints.end_epoch(ahead)
        ahead.catch_up(checkpoints.lineage)
        behind.catch_up(checkpoints.lineage)
        assert contents(behind, "maps") == {(("a", (), 1), ()): 1, (("a", (), 9), ()): 9}
