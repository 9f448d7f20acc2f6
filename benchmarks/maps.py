"""Map state in one process, as one subtask has it: python benchmarks/maps.py one|many ENTRIES DIRECTORY

*one* has all entries under one key, *many* one entry under each key. Each step prints a line of JSON: what was done,
nanoseconds an entry (processor time), and private memory in MiB. Epochs end with a checkpoint as those of a job do,
with the driver's rule for the chain of files. Private memory is that of the whole process, libraries included,
without pages of mapped files.
"""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoints import end_epoch, write_snapshot

from penstock._engine.coordinator.checkpoints.snapshots import needs_snapshot
from penstock._engine.state.key_context import KeyContext
from penstock._engine.state.keyed_state import KeyedState
from penstock._engine.state.kinds.kind import StateScope
from penstock._engine.state.kinds.maps import StoredMapState
from penstock._engine.state.local.local_backend import LocalBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._engine.protocol.state_handle import Lineage, StateHandle

STATE_MEMORY = 256 << 20
#: What an epoch changes while the map is filled, and what a batch has.
EPOCH, BATCH = 250_000, 2_048
KEY = "the key"


class Memory:
    """Looks at the private memory of this process, time and again."""

    def __init__(self) -> None:
        self.peak = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.look()
            time.sleep(0.02)

    def look(self) -> float:
        fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        now = int(fields["RssAnon"].split()[0]) / 1024
        self.peak = max(self.peak, now)
        return now


class Subtask:
    """The store of one subtask, its map, and its files on the disk."""

    def __init__(self, directory: Path, *, many: bool, name: str = "0") -> None:
        self.directory, self.many = directory, many
        self.lineage: Lineage = ()
        self.number = 0
        self.begin(name)

    def begin(self, name: str) -> None:
        """Start with a new local directory, as another machine does, which has nothing else in memory."""
        for name_of_old in ("map", "store"):
            vars(self).pop(name_of_old, None)
        self.store = KeyedState(
            LocalBackend(self.directory / f"local-{name}", range(128), 128, STATE_MEMORY), self._read
        )
        self.key = KeyContext()
        self.key.normal = self.key.key = KEY
        self.store.catch_up(self.lineage)
        self.map: Any = StoredMapState(StateScope(self.store.table("map", kind="map"), self.key, "op"))

    def _read(self, handle: StateHandle) -> bytes:
        return (self.directory / (handle.path or "")).read_bytes()

    def batches(self, entries: Iterable[int], call: Callable[[int], Any]) -> None:
        """Call a function for each entry, with room made between batches."""
        key, many = self.key, self.many
        for place, entry in enumerate(entries):
            if place % BATCH == 0:
                self.store.free_memory()
            if many:
                key.normal = key.key = entry
            call(0 if many else entry)

    def end_epoch(self) -> int:
        """Write the checkpoint, begin the next epoch, and return the bytes that were written."""
        self.number += 1
        self.lineage = end_epoch(self.store, self.number, self.lineage, self.put)
        self.store.catch_up(self.lineage)
        return sum(handle.size for handle in self.lineage if handle.checkpoint_id == self.number)

    def put(self, name: str, data: bytes) -> None:
        (self.directory / name).write_bytes(data)


class Steps:
    """What is measured, step by step."""

    def __init__(self, directory: Path, entries: int, *, many: bool) -> None:
        self.entries, self.many, self.rng = entries, many, random.Random(1)
        self.memory = Memory()
        self.idle = round(self.memory.look())
        self.subtask = Subtask(directory, many=many)

    def measure(self, what: str, count: int, action: Callable[[], Any], **more: Any) -> Any:
        self.memory.peak = 0.0
        start, began = time.process_time(), time.perf_counter()
        result = action()
        spent = (time.process_time() - start) / count * 1e9
        self.memory.look()
        line = {"what": what, "ns": round(spent), "seconds": round(time.perf_counter() - began, 1)}
        print(json.dumps(line | {"peak": round(self.memory.peak), **more}), flush=True)
        return result

    def run(self) -> None:
        subtask, entries = self.subtask, self.entries
        self.measure("put, with the checkpoint of each 250,000", entries, self.fill, idle=self.idle)
        sample = [self.rng.randrange(entries) for _ in range(min(entries, 500_000))]
        self.measure("get, scattered", len(sample), lambda: subtask.batches(sample, subtask.map.get))
        self.go_through(entries)
        self.measure("epoch that changes 1,000", 1_000, self.change)
        gone = self.rng.sample(range(entries), min(entries // 10, 500_000))
        self.measure("remove", len(gone), lambda: subtask.batches(gone, subtask.map.remove))
        subtask.end_epoch()
        size = self.measure("snapshot of all", entries, self.snapshot)
        print(json.dumps({"what": "bytes of the snapshot", "bytes": size}), flush=True)
        self.restore()
        self.measure("restore of the snapshot, another directory", entries, lambda: subtask.begin("1"))
        self.go_through(entries - len(gone))
        keys = range(entries) if self.many else [0]
        self.measure("clear", len(keys), lambda: subtask.batches(keys, lambda _: subtask.map.clear()))
        print(json.dumps({"what": "delta of that", "bytes": subtask.end_epoch()}), flush=True)

    def fill(self) -> None:
        for start in range(0, self.entries, EPOCH):
            some = range(start, min(start + EPOCH, self.entries))
            self.subtask.batches(some, lambda entry: self.subtask.map.put(entry, entry))
            self.subtask.end_epoch()

    def go_through(self, expected: int) -> None:
        found = 0

        def count(_: int) -> None:
            nonlocal found
            found += sum(1 for _ in self.subtask.map.items())

        keys = range(self.entries) if self.many else [0]
        self.measure("iterate over all", expected, lambda: self.subtask.batches(keys, count))
        if found != expected:
            sys.exit(f"{found:,} entries are there, not {expected:,}")

    def change(self) -> None:
        while needs_snapshot(self.subtask.lineage):
            self.subtask.batches([0], lambda entry: self.subtask.map.put(entry, 0))
            self.subtask.end_epoch()
        some = self.rng.sample(range(self.entries), 1_000)
        self.subtask.batches(some, lambda entry: self.subtask.map.put(entry, -1))
        size = self.subtask.end_epoch()
        print(json.dumps({"what": "delta of 1,000 changed entries", "bytes": size}), flush=True)

    def snapshot(self) -> int:
        """Write a snapshot beside the chain, as a savepoint does, and let the chain begin with it."""
        subtask = self.subtask
        subtask.number += 1
        name = f"snapshot-{subtask.number}"
        subtask.lineage = write_snapshot(subtask.store, subtask.number, name, subtask.put)
        return sum(handle.size for handle in subtask.lineage)

    def restore(self) -> None:
        """Restore in a process of its own, where nothing of the steps before is in memory."""
        begun = f"import sys; sys.path.append({str(Path(__file__).parent)!r}); from maps import restored; restored()"
        given = pickle.dumps((self.subtask.directory, self.subtask.lineage))
        subprocess.run([sys.executable, "-c", begun], input=given, check=True)


def restored() -> None:
    """Restore the lineage that stands in the standard input."""
    directory, lineage = pickle.load(sys.stdin.buffer)
    memory, start = Memory(), time.process_time()
    store = KeyedState(
        LocalBackend(directory / "local-alone", range(128), 128, STATE_MEMORY),
        lambda handle: (directory / (handle.path or "")).read_bytes(),
    )
    store.catch_up(lineage)
    memory.look()
    spent = (time.process_time() - start) / sum(handle.entries for handle in lineage) * 1e9
    line = {"what": "restore of the snapshot, a process of its own", "ns": round(spent), "peak": round(memory.peak)}
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    Steps(Path(sys.argv[3]), int(sys.argv[2]), many=sys.argv[1] == "many").run()
