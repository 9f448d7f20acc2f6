"""What digests and a signature cost an epoch: processor time, in turn with and without, in one run.

    python benchmarks/signing.py            100,000 changed keys, 30 epochs of each kind, about a minute

An epoch here is what its keyed state alone costs: the changes, the file of them, its handle, the chain entry, and both
files on the disk. Records, functions and Spark would make the part of signing smaller still.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from figures import Figures
from savepoint import JOB, UID

from penstock._engine.protocol.key_groups import key_group_range
from penstock._engine.protocol.metadata import (
    ChainEntry,
    ChainEntryKind,
    JobSnapshot,
    OperatorMetadata,
    OperatorSubtaskState,
    VertexMetadata,
    VertexSubtaskState,
)
from penstock._engine.protocol.paths import metadata_path, shared_path
from penstock._engine.state import memory_store
from penstock._engine.storage.entries import document_of
from penstock._engine.storage.opening import open_storage

KEYS, EPOCHS, BAR = 100_000, 30, 0.02
KEY = {"penstock.state.signing-key": "0123456789abcdef0123456789abcdef"}


class Epochs:
    """One keyed store, and the storage that takes what its epochs change."""

    def __init__(self, directory: Path, *, signed: bool) -> None:
        self._storage = open_storage(str(directory), KEY if signed else {})
        self._store = memory_store.MemoryStore(key_group_range(0, 1, 128), 128, lambda handle: handle.inline or b"")
        self._lineage: tuple[memory_store.StateHandle, ...] = ()
        self._digest = memory_store.file_digest if signed else lambda _: None
        self._number = 0

    def run(self, keys: int) -> float:
        """Run one epoch, and return its processor seconds."""
        self._number += 1
        number, path = self._number, shared_path(JOB, UID, 0, self._number, self._number)
        memory_store.file_digest = self._digest  # type: ignore[assignment]
        began = time.process_time()
        self._store.catch_up(self._lineage)
        pane = self._store.table("state", kind="value").pane()
        for key in range(keys):
            pane.hot[key] = number + key
            pane.dirty.add(key)
        data = self._store.delta(number, number)
        assert data is not None
        self._storage.put(path, data)
        handle = self._store.describe(data, "delta", number, number, path)
        self._lineage = (*self._lineage, handle)
        self._storage.put_if_absent(metadata_path(JOB, number), document_of(self._storage, self._entry(number)))
        return time.process_time() - began

    def _entry(self, number: int) -> ChainEntry:
        operator = OperatorMetadata(UID, 0, 1, 128, (OperatorSubtaskState(lineage=self._lineage),))
        snapshot = JobSnapshot((VertexMetadata(UID, (UID,), (VertexSubtaskState(),)),), {UID: operator})
        return ChainEntry(ChainEntryKind.CHECKPOINT, JOB, "job", number, "run", "nonce", 0, "", snapshot=snapshot)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        plain, signed = Epochs(Path(place, "plain"), signed=False), Epochs(Path(place, "signed"), signed=True)
        pairs = [(plain.run(arguments.keys), signed.run(arguments.keys)) for _ in range(arguments.epochs)]
    more = statistics.median(with_key / without for without, with_key in pairs[2:]) - 1
    figures = Figures("Digests and signatures")
    figures.add(f"An epoch of {arguments.keys:,} changed keys", f"{statistics.median(one for one, _ in pairs):.3f} s")
    figures.add("Digest and signature, in the median of pairs", f"{more:+.1%}", f"{BAR:.0%}", met=more <= BAR)
    sys.exit(figures.show())


if __name__ == "__main__":
    main()
