"""Map state in one process, as one subtask has it: python benchmarks/maps.py one|many ENTRIES DIRECTORY

*one* has all entries under one key, *many* one entry under each key. Each step prints a line of JSON: what was done,
nanoseconds an entry (processor time), and private memory in MiB. Epochs end with a checkpoint as those of a job do,
with the driver's rule for the chain of files. Private memory is that of the whole process, libraries included,
without pages of mapped files.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._engine.coordinator.checkpoints.snapshots import needs_snapshot
from penstock._engine.state.key_context import KeyContext
from penstock._engine.state.keyed_store import KeyedStore
from penstock._engine.state.kinds.kind import StateScope
from penstock._engine.state.kinds.maps import StoredMapState

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
        self.store = KeyedStore(self.directory / f"local-{name}", range(128), 128, self._read, STATE_MEMORY)
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
                self.store.make_room()
            if many:
                key.normal = key.key = entry
            call(0 if many else entry)

    def end_epoch(self) -> int:
        """Write the checkpoint, begin the next epoch, and return the bytes that were written."""
        self.number += 1
        cut = needs_snapshot(self.lineage)
        store, number = self.store, self.number
        data = b"".join(store.snapshot(number, number)) if cut else store.delta(number, number)
        if data is None:
            return 0
        kind = "snapshot" if cut else "delta"
        path = f"{kind}-{number}"
        (self.directory / path).write_bytes(data)
        handle = store.describe(data, kind, number, number, path)
        self.lineage = (handle,) if cut else (*self.lineage, handle)
        size = len(data)
        del data
        store.catch_up(self.lineage)
        return size


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
        self.measure("restore of the snapshot, another machine", entries, lambda: subtask.begin("1"))
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
        data = b"".join(subtask.store.snapshot(subtask.number, subtask.number))
        path = f"snapshot-{subtask.number}"
        (subtask.directory / path).write_bytes(data)
        subtask.lineage = (subtask.store.describe(data, "snapshot", subtask.number, subtask.number, path),)
        return len(data)


if __name__ == "__main__":
    Steps(Path(sys.argv[3]), int(sys.argv[2]), many=sys.argv[1] == "many").run()
