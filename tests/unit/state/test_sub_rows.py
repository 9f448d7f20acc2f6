"""Rows with sub-keys in memory and below it: what a key has, what is looked up, what deleted rows leave behind."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.state.checkpoints import Checkpoints

from penstock._engine.state.key_rows import clear_key, first_rows, rows_of_key
from penstock._engine.state.table import ABSENT, MISSING

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.state.keyed_state import KeyedState

#: More epochs than deltas may wait for the local version.
EPOCHS = 12
KEYS = ["a", 7, b"\x00" * 300]


class Rows:
    """One pane of rows with numbers as sub-keys, and its epochs."""

    def __init__(self, directory: Path, memory_bytes: int) -> None:
        self.checkpoints, self.directory, self.memory_bytes = Checkpoints(), directory, memory_bytes
        self.start()

    def start(self) -> None:
        self.store: KeyedState = self.checkpoints.keyed_store(self.directory, self.memory_bytes)
        self.store.catch_up(self.checkpoints.lineage)
        self.pane: Any = self.store.table("rows", kind="map").pane()

    def write(self, key: Any, sub: int, value: Any) -> None:
        if self.pane.hot.get((key, (), sub), MISSING) is MISSING and self.pane.load((key, (), sub)) is ABSENT:
            self.pane.fresh.add((key, (), sub))
        self.pane.put((key, (), sub), value)
        self.pane.dirty.add((key, (), sub))

    def commit(self) -> None:
        self.checkpoints.end_epoch(self.store)
        self.store.catch_up(self.checkpoints.lineage)

    def keep(self) -> None:
        """Let the local version move."""
        for number in range(EPOCHS):
            self.write("other", number, "")
            self.commit()

    def of(self, key: Any) -> list[tuple[int, Any]]:
        return sorted((row[0][2], row[1]) for row in rows_of_key(self.pane, (key, ())))


@pytest.mark.parametrize("memory_bytes", [1, 1 << 26])
@pytest.mark.parametrize("seed", range(2))
def test_rows_of_a_key_are_what_is_present(tmp_path: Path, memory_bytes: int, seed: int) -> None:
    choose, rows, held = random.Random(seed), Rows(tmp_path / "rows", memory_bytes), dict[Any, dict[int, int]]()
    for step in range(200):
        key, sub = choose.choice(KEYS), choose.randrange(-20, 20)
        action = choose.random()
        if action < 0.5:
            rows.write(key, sub, step)
            held.setdefault(key, {})[sub] = step
        elif action < 0.7 and sub in held.get(key, {}):
            if not rows.pane.discard((key, (), sub)):
                rows.write(key, sub, ABSENT)
            del held[key][sub]
        elif action < 0.72:
            clear_key(rows.pane, (key, ()))
            held.pop(key, None)
        elif action < 0.85:
            rows.commit()
        elif action < 0.86:
            rows.commit()
            rows.start()
        rows.store.free_memory()
        assert rows.of(key) == sorted(held.get(key, {}).items())


@pytest.mark.parametrize("memory_bytes", [1, 1 << 26])
def test_row_that_is_made_and_deleted_in_one_epoch_is_in_no_checkpoint(tmp_path: Path, memory_bytes: int) -> None:
    rows = Rows(tmp_path / "rows", memory_bytes)
    rows.write("a", 1, "x")
    rows.keep()
    rows.write("a", 2, "y")
    assert rows.pane.discard(("a", (), 2))
    assert rows.store.delta(99, 1) is None


def test_row_of_a_checkpoint_is_not_deleted_without_a_trace(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "rows", 1 << 26)
    rows.keep()
    rows.write("a", 1, "x")
    rows.commit()
    assert not rows.pane.discard(("a", (), 1))
    rows.write("a", 1, ABSENT)
    rows.commit()
    rows.start()
    assert rows.of("a") == []


def test_deleted_and_present_rows_reach_the_disk_together(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "rows", 1)
    for sub in range(20):
        rows.write("a", sub, sub)
    rows.keep()
    for sub in range(20):
        rows.write("a", sub, ABSENT if sub % 3 else -sub)
    rows.keep()
    rows.start()
    assert rows.of("a") == [(sub, -sub) for sub in range(0, 20, 3)]


def test_greatest_and_least_numbers_are_sub_keys(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "rows", 1)
    for sub in (-(1 << 63), -1, 0, (1 << 63) - 1):
        rows.write("a", sub, "x")
    rows.commit()
    rows.start()
    found = rows.of("a")
    assert [sub for sub, _ in found] == [-(1 << 63), -1, 0, (1 << 63) - 1]


def test_rows_that_memory_has_whole_are_not_looked_up_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(tmp_path / "rows", 1 << 26)
    rows.write("a", 1, "x")
    rows.keep()
    assert rows.pane.stored
    monkeypatch.setattr("penstock._engine.state.local.local_backend.LocalBackend.read", pytest.fail)
    assert rows.pane.load(("b", (), 1)) is ABSENT
    assert rows.of("a") == [(1, "x")]
    assert [row[1] for row in rows_of_key(rows.pane, ("a", ()))] == ["x"]
    assert len(list(rows.pane.rows())) == 1 + EPOCHS
    assert len(list(first_rows(rows.pane))) == 2


@pytest.mark.parametrize("memory_bytes", [1, 1 << 26])
def test_another_process_looks_below_for_what_it_has_not_in_memory(tmp_path: Path, memory_bytes: int) -> None:
    rows = Rows(tmp_path / "rows", memory_bytes)
    rows.write("a", 1, "x")
    rows.keep()
    rows.start()
    assert rows.of("a") == [(1, "x")]
    assert rows.pane.load(("a", (), 1)) == "x"


@pytest.mark.parametrize("memory_bytes", [1, 1 << 26])
def test_deleted_rows_of_a_key_leave_no_trace_in_memory(tmp_path: Path, memory_bytes: int) -> None:
    rows = Rows(tmp_path / "rows", memory_bytes)
    for sub in range(1_000):
        rows.write("a", sub, "x")
    rows.keep()
    for sub in range(1_000):
        rows.write("a", sub, ABSENT)
    rows.keep()
    assert not [address for address in rows.pane.hot if address[0] == "a"]
    assert not rows.pane.sub_rows().in_memory(("a", ()))
    assert list(rows_of_key(rows.pane, ("a", ()))) == []
    rows.start()
    assert list(rows_of_key(rows.pane, ("a", ()))) == []
