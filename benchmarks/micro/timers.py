"""Timers of one subtask in one process, without Spark: what one costs, and what they hold in memory.

    python benchmarks/micro/timers.py TIMERS [state memory in MiB]

Each epoch sets timers for 50,000 keys; in the end a fifth of all fire, 50,000 an epoch. Each step prints nanoseconds a
timer (processor time) and private memory in MiB: RssAnon, so without the mapped pages of the local store.
"""

from __future__ import annotations

import gc
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._engine.coordinator.checkpoints.snapshots import needs_snapshot
from penstock._engine.state.keyed_store import KeyedStore

if TYPE_CHECKING:
    from penstock._engine.protocol.state_handle import Lineage, StateHandle

EPOCH, FIRED = 50_000, 50_000


def private_mib() -> float:
    """Return the private memory of this process: without mapped files."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) / 1024


class Subtask:
    """The store of one subtask, and its files on the disk."""

    def __init__(self, directory: Path, memory_bytes: int) -> None:
        self.directory = directory
        self.lineage: Lineage = ()
        self.checkpoint_id = 0
        self.store = KeyedStore(directory / "local", range(128), 128, self._read, memory_bytes)
        self.base = private_mib()
        self.peak = 0.0

    def _read(self, handle: StateHandle) -> bytes:
        return (self.directory / (handle.path or "")).read_bytes()

    def checkpoint(self) -> None:
        """End the epoch, and begin the next one."""
        self.checkpoint_id += 1
        kind: Any = "snapshot" if needs_snapshot(self.lineage) else "delta"
        pieces: Any = getattr(self.store, kind)(self.checkpoint_id, self.checkpoint_id)
        data = pieces if kind == "delta" else b"".join(pieces)
        if data is None:
            self.store.catch_up(self.lineage)
            return
        name = f"{kind}-{self.checkpoint_id}"
        (self.directory / name).write_bytes(data)
        handle = self.store.describe(data, kind, self.checkpoint_id, self.checkpoint_id, name)
        self.lineage = (handle,) if kind == "snapshot" else (*self.lineage, handle)
        del data, pieces
        self.peak = max(self.peak, private_mib())
        self.store.catch_up(self.lineage)

    def tell(self, what: str, count: int, start: float) -> None:
        took = (time.process_time() - start) / count * 1e9
        gc.collect()
        held, peak = private_mib() - self.base, self.peak - self.base
        print(f"{what:24} {took:7.0f} ns a timer   {held:6.0f} MiB, peak {peak:6.0f}")


def main() -> None:
    count = int(sys.argv[1])
    memory_bytes = int(sys.argv[2] if len(sys.argv) > 2 else 256) << 20
    with tempfile.TemporaryDirectory() as directory:
        subtask = Subtask(Path(directory), memory_bytes)
        store, choose = subtask.store, random.Random(7)
        store.catch_up(())
        timers = store.timers("event-time")
        start = time.process_time()
        for first in range(0, count, EPOCH):
            for number in range(first, min(first + EPOCH, count)):
                timers.register(choose.randrange(count * 10), f"session-{number}", (number, number + 7))
            subtask.checkpoint()
        subtask.tell("set", count, start)
        for _ in range(3):
            subtask.checkpoint()
        subtask.tell("set, some epochs later", count, start)
        start, fired, last = time.process_time(), 0, -1
        for timestamp, *_ in timers.pop_due(count * 10):
            assert timestamp >= last
            last, fired = timestamp, fired + 1
            if fired % FIRED == 0 and fired < count // 5:
                subtask.checkpoint()
            if fired >= count // 5:
                break
        subtask.tell("fired, a fifth of them", fired, start)


if __name__ == "__main__":
    main()
