"""A checkpoint storage and a driver that accepts or rejects epochs, for tests of stores."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pytest

from penstock._engine.state import keyed_state, memory_budget, stored_rows, sweep, timers
from penstock._engine.state.backend import MemoryBackend
from penstock._engine.state.files import state_file
from penstock._engine.state.keyed_state import KeyedState
from penstock._engine.state.local import entries, local_version, moves, overlay
from penstock._engine.state.local.environment import LmdbEnvironment
from penstock._engine.state.local.local_backend import LocalBackend
from penstock._engine.state.table import ABSENT, MISSING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.protocol.state_handle import Lineage, StateHandle
    from penstock._engine.state.rows import Namespace
    from penstock._engine.state.table import Pane

MAX_PARALLELISM = 128

Contents: TypeAlias = "dict[tuple[NormalKey, Namespace], Any]"


@dataclass
class Checkpoints:
    """The files of one subtask, and the lineage that was accepted."""

    key_groups: range = range(MAX_PARALLELISM)
    files: dict[str, bytes] = field(default_factory=dict)
    #: Paths in the order in which stores asked for them.
    reads: list[str] = field(default_factory=list)
    lineage: Lineage = ()
    checkpoint_id: int = 0
    tokens: Iterator[int] = field(default_factory=lambda: count(1))

    def read(self, handle: StateHandle) -> bytes:
        if handle.inline is not None:
            return handle.inline
        assert handle.path is not None
        self.reads.append(handle.path)
        return self.files[handle.path]

    def memory_store(self) -> KeyedState:
        return KeyedState(MemoryBackend(self.key_groups, MAX_PARALLELISM), self.read)

    def keyed_store(self, directory: Path, memory_bytes: int = 1 << 26, run_id: str = "") -> KeyedState:
        backend = LocalBackend(
            directory, self.key_groups, MAX_PARALLELISM, memory_bytes, owner=("sum-1", 3), run_id=run_id
        )
        return KeyedState(backend, self.read)

    def end_epoch(self, store: KeyedState, *, accepted: bool = True) -> bytes | None:
        """Take the store's delta; the checkpoint completes when the epoch is accepted."""
        token = next(self.tokens)
        data = store.delta(self.checkpoint_id + 1, token)
        if accepted:
            if data is not None:
                self.lineage += (self._save(store, "delta", data, token),)
            self.checkpoint_id += 1
        return data

    def cut(self, store: KeyedState) -> list[bytes]:
        """End the epoch with a snapshot that replaces the chain; return its files."""
        token = next(self.tokens)
        files = list(store.snapshot(self.checkpoint_id + 1, token))
        self.lineage = tuple(self._save(store, "snapshot", data, token, number) for number, data in enumerate(files))
        self.checkpoint_id += 1
        return files

    def _save(
        self, store: KeyedState, kind: Literal["delta", "snapshot"], data: bytes, token: int, number: int = 0
    ) -> StateHandle:
        path = f"{kind}-{self.checkpoint_id + 1}-{token}-{self.key_groups.start}"
        path += f".{number}" if number else ""
        self.files[path] = data
        return store.describe(data, kind, self.checkpoint_id + 1, token, path)


@contextmanager
def as_if_large() -> Generator[None]:
    """Let stores do with few rows what they do with many.

    Changes leave memory before their epoch ends, where there is next to none, and snapshots have several files. Rows
    and timers are read, encoded and looked through few at a time.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_budget, "_FEWEST_CHANGED_BYTES", 0)
        patch.setattr(overlay, "_BATCH", 2)
        patch.setattr(keyed_state, "SNAPSHOT_FILE_BYTES", 64)
        patch.setattr(state_file, "_FIRST_ENTRIES", 2)
        patch.setattr(state_file, "_MAX_ENTRIES", 2)
        patch.setattr(entries, "_ENCODED", 2)
        patch.setattr(stored_rows, "_READS", 2)
        patch.setattr(stored_rows, "_SCAN", 2)
        patch.setattr(timers, "_AHEAD", 2)
        patch.setattr(sweep, "_PART", 2)
        patch.setattr(sweep, "_MOST", 2)
        yield


@contextmanager
def written_in_parts() -> Generator[None]:
    """Let stores write what is small as they write large versions: in parts, and remember few positions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_version, "_MANY_PAGES", 0)
        patch.setattr(local_version, "_MOST_CHANGES", 2)
        patch.setattr(local_version, "_HISTORY", 2)
        patch.setattr(moves, "_BATCH", 2)
        yield


class KilledError(Exception):
    """The process ends here."""


@contextmanager
def killed_while_it_moves(writes: int) -> Generator[None]:
    """Let the process end with a KilledError before a store writes to its disk once more than so many times."""
    write, left = LmdbEnvironment.write, iter(range(writes))

    def killed(environment: LmdbEnvironment, action: Any) -> Any:
        if next(left, None) is None:
            raise KilledError
        return write(environment, action)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LmdbEnvironment, "write", killed)
        yield


def contents(store: KeyedState, name: str = "count") -> Contents:
    """Return all entries of a table."""
    table = store.table(name)
    return {
        (normal, namespace): value
        for namespace in table.namespaces()
        for normal, value in table.pane(namespace).items()
    }


def read(pane: Pane, normal: NormalKey) -> Any:
    """Return the value of a key as operators read it."""
    value = pane.hot.get(normal, MISSING)
    return pane.load(normal) if value is MISSING else value


def write(pane: Pane, normal: NormalKey, value: Any) -> None:
    """Set or, with ABSENT, delete a key as operators do."""
    pane.hot[normal] = value
    pane.dirty.add(normal)


def write_all(store: KeyedState, entries: dict[Any, Any], name: str = "count") -> None:
    """Set entries of the namespace ()."""
    for normal, value in entries.items():
        write(store.table(name).pane(), normal, value)


__all__ = ["ABSENT", "Checkpoints", "Contents", "as_if_large", "contents", "read", "write", "write_all"]
