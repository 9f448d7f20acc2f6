"""Savepoints: megabytes a second, out and in.

    python benchmarks/savepoint.py                    1 GB of keyed state, about two minutes
    python benchmarks/savepoint.py --megabytes 100

Values of 1,000 random bytes, which do not compress, under int keys. All of it is done by the code that jobs use; no
Spark takes part.

- *write*: the state of four subtasks as files of a checkpoint, one process for each of two at a time. Not a figure of
  savepoints, but what they begin with.
- *savepoint*: the copy that a savepoint of a running job is, each file synced to the disk.
- *plain copy*: `shutil.copyfile` and a sync of the same files, one after the other, as a measure of the disk.
- *restore*: local stores of the same number of subtasks, and of twice as many, two processes at a time; until each has
  all of its state. Page cache is warm.
- *read*: `penstock.savepoint` iterates all entries. *bootstrap*: it writes a savepoint of the same size.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from checkpoints import write_snapshot
from entries import JOB, MAX_PARALLELISM, UID, entry_of
from figures import Figures

from penstock._engine.protocol.key_groups import key_group, key_group_range
from penstock._engine.protocol.metadata import ChainEntry, ChainEntryKind
from penstock._engine.protocol.metadata_document import encode_chain_entry
from penstock._engine.protocol.paths import METADATA, shared_path
from penstock._engine.protocol.state_handle import rescale
from penstock._engine.state.keyed_state import KeyedState
from penstock._engine.state.local.local_backend import LocalBackend
from penstock._engine.storage.checkpoint_storage import copy_files
from penstock._engine.storage.opening import open_storage
from penstock.savepoint import Savepoint, SavepointWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.protocol.state_handle import Lineage, StateHandle

VALUE_BYTES = 1_000
SUBTASKS, PROCESSES = 4, 2
STATE_MEMORY = 256 << 20
BAR = 100


@contextmanager
def timed(seconds: list[float]) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds.append(time.perf_counter() - start)


def fill(directory: Path, subtask: int, keys: int) -> Lineage:
    """Write the files of one subtask: those of the keys that are in its key groups."""
    storage = open_storage(str(directory / "checkpoints"))
    store = opened(directory / f"fill-{subtask}", subtask, SUBTASKS, directory)
    store.catch_up(())
    pane = store.table("state", kind="value").pane()
    rng, groups = random.Random(subtask), key_group_range(subtask, SUBTASKS, MAX_PARALLELISM)
    for key in range(keys):
        if key_group(key, MAX_PARALLELISM) in groups:
            pane.hot[key] = rng.randbytes(VALUE_BYTES)
            pane.dirty.add(key)
    return write_snapshot(store, 1, shared_path(JOB, UID, subtask, 1, subtask + 1), storage.put, subtask + 1)


def opened(place: Path, subtask: int, parallelism: int, directory: Path) -> KeyedState:
    storage = open_storage(str(directory / "checkpoints"))

    def read(handle: StateHandle) -> bytes:
        assert handle.path is not None
        return storage.read(handle.path)

    groups = key_group_range(subtask, parallelism, MAX_PARALLELISM)
    return KeyedState(LocalBackend(place, groups, MAX_PARALLELISM, STATE_MEMORY), read)


def restore(directory: Path, subtask: int, parallelism: int, lineage: Lineage) -> int:
    """Bring one subtask's local store to the savepoint; return its entries."""
    store = opened(directory / f"restore-{parallelism}-{subtask}", subtask, parallelism, directory)
    store.catch_up(lineage)
    return sum(1 for _ in store.table("state").pane().items())


def record_of(lineages: list[Lineage]) -> ChainEntry:
    moved = [tuple(replace(handle, path=name(handle)) for handle in lineage) for lineage in lineages]
    return entry_of(ChainEntryKind.SAVEPOINT, 1, moved)


def name(handle: StateHandle) -> str:
    assert handle.path is not None
    return handle.path.rpartition("/")[2]


def measure(directory: Path, megabytes: int, figures: Figures) -> None:
    keys = megabytes * 1_000_000 // VALUE_BYTES
    pool = ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn"))
    written: list[float] = []
    with pool, timed(written):
        lineages = list(pool.map(fill, *zip(*((directory, subtask, keys) for subtask in range(SUBTASKS)), strict=True)))
    handles = [handle for lineage in lineages for handle in lineage]
    size = sum(handle.size for handle in handles)

    def rate(seconds: list[float]) -> float:
        return size / 1e6 / seconds[-1]

    figures.add(f"Written as a checkpoint, {size / 1e6:,.0f} MB", f"{rate(written):,.0f} MB/s")
    storage = open_storage(str(directory / "checkpoints"))
    target = open_storage(str(directory / "savepoint"))
    copied: list[float] = []
    with timed(copied):
        copy_files(storage, target, [(str(handle.path), name(handle)) for handle in handles])
        target.put_if_absent(METADATA, encode_chain_entry(record_of(lineages)))
    figures.add("Savepoint", f"{rate(copied):,.0f} MB/s", f"{BAR} MB/s", met=rate(copied) >= BAR)

    plain: list[float] = []
    (directory / "plain").mkdir()
    with timed(plain):
        for handle in handles:
            shutil.copyfile(directory / "checkpoints" / str(handle.path), directory / "plain" / name(handle))
            with (directory / "plain" / name(handle)).open("rb") as file:
                os.fsync(file.fileno())
    figures.add("Plain copy of the same files", f"{rate(plain):,.0f} MB/s")
    shutil.rmtree(directory / "plain")
    measure_restore(directory, lineages, figures)

    read: list[float] = []
    state = Savepoint.open(str(directory / "savepoint")).keyed_state(UID, "state")
    with timed(read):
        entries = sum(1 for _ in state)
    figures.add(f"penstock.savepoint reads {entries:,} entries", f"{rate(read):,.0f} MB/s")
    made: list[float] = []
    writer = SavepointWriter.new(parallelism=SUBTASKS).set_keyed_state(UID, "state", state)
    with timed(made):
        writer.write(str(directory / "bootstrapped"))
    figures.add("penstock.savepoint reads and writes them again", f"{rate(made):,.0f} MB/s")


def measure_restore(directory: Path, lineages: list[Lineage], figures: Figures) -> None:
    size = sum(handle.size for lineage in lineages for handle in lineage)
    for parallelism, word in ((SUBTASKS, "the same"), (2 * SUBTASKS, "twice the")):
        work = [
            (
                directory,
                subtask,
                parallelism,
                lineages[subtask]
                if parallelism == SUBTASKS
                else rescale(lineages, key_group_range(subtask, parallelism, MAX_PARALLELISM)),
            )
            for subtask in range(parallelism)
        ]
        with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
            list(pool.map(abs, range(PROCESSES)))  # the processes are there
            seconds: list[float] = []
            with timed(seconds):
                entries = sum(pool.map(restore, *zip(*work, strict=True)))
        figures.add(
            f"Restored to {word} parallelism ({parallelism}), {entries:,} entries",
            f"{size / 1e6 / seconds[-1]:,.0f} MB/s",
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1_000, help="of values (1,000)")
    parser.add_argument("--directory", help="on the disk to measure; the temporary directory when left out")
    arguments = parser.parse_args()
    figures = Figures("Savepoints")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=arguments.directory) as directory:
        measure(Path(directory), arguments.megabytes, figures)
    return figures.show()


if __name__ == "__main__":
    sys.exit(main())
