"""A checkpoint storage and a driver that accepts or rejects epochs, for tests of stores."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from penstock._engine.protocol.state_handle import Lineage, StateHandle
from penstock._engine.state.keyed_store import KeyedStore
from penstock._engine.state.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_PARALLELISM = 128
ALL = range(MAX_PARALLELISM)


@dataclass
class Checkpoints:
    """The files of one subtask, and the lineage that was accepted."""

    key_groups: range = ALL
    files: dict[str, bytes] = field(default_factory=dict)
    lineage: Lineage = ()
    #: Paths in the order in which stores asked for them.
    reads: list[str] = field(default_factory=list)
    tokens: Iterator[int] = field(default_factory=lambda: iter(range(1, 1_000_000)))
    checkpoint_id: int = 0

    def read(self, handle: StateHandle) -> bytes:
        assert handle.path is not None
        self.reads.append(handle.path)
        return self.files[handle.path]

    def memory_store(self) -> MemoryStore:
        return MemoryStore(self.key_groups, MAX_PARALLELISM, self.read)

    def keyed_store(self, directory: Path, memory_bytes: int = 1 << 26) -> KeyedStore:
        return KeyedStore(
            directory, self.key_groups, MAX_PARALLELISM, self.read, memory_bytes, operator_uid="sum-1", subtask_index=3
        )

    def save(self, store: MemoryStore, kind: Literal["delta", "snapshot"], data: bytes, token: int) -> StateHandle:
        path = f"{kind}-{self.checkpoint_id + 1}-{token}"
        self.files[path] = data
        return store.describe(data, kind, self.checkpoint_id + 1, token, path)

    def end_epoch(self, store: MemoryStore, *, accepted: bool = True) -> None:
        """Take the store's delta; the checkpoint completes when the epoch is accepted."""
        token = next(self.tokens)
        data = store.delta(self.checkpoint_id + 1, token)
        if accepted:
            if data is not None:
                self.lineage += (self.save(store, "delta", data, token),)
            self.checkpoint_id += 1

    def cut(self, store: MemoryStore) -> None:
        """End the epoch with a snapshot that replaces the chain."""
        token = next(self.tokens)
        self.lineage = (self.save(store, "snapshot", b"".join(store.snapshot(self.checkpoint_id + 1, token)), token),)
        self.checkpoint_id += 1


def contents(store: MemoryStore, name: str = "count") -> dict[tuple[object, tuple[int, ...]], object]:
    """Return all entries of a table by (normal key, namespace)."""
    table = store.table(name)
    return {
        (normal, namespace): value
        for namespace in table.namespaces()
        for normal, value in table.pane(namespace).items()
    }
