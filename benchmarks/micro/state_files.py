"""The store of one subtask with its checkpoints on the disk, and private memory, for measurements in one process."""

from __future__ import annotations

import threading
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._engine.coordinator.checkpoints.snapshots import needs_snapshot
from penstock._engine.protocol.state_handle import rescale
from penstock._engine.state.keyed_store import KeyedStore

if TYPE_CHECKING:
    from penstock._engine.protocol.state_handle import Lineage, StateHandle

MAX_PARALLELISM = 128


class Memory(threading.Thread):
    """Looks at the private memory of this process from time to time, in MiB above what it was at first.

    This is what no file backs: the mapped pages of local stores, which the system can drop, are left out.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.base = self.now()
        self.peak = 0.0
        self.start()

    def run(self) -> None:
        while True:
            self.look()
            threading.Event().wait(0.05)

    def look(self) -> None:
        self.peak = max(self.peak, self.now() - self.base)

    @staticmethod
    def now() -> float:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
        return int(dict(line.split(":", 1) for line in lines)["Anonymous"].split()[0]) / 1024


class Checkpoints:
    """The chain of state files of one subtask."""

    names = count(1)

    def __init__(self, directory: Path, groups: range, memory_mib: int, roots: list[Lineage] | None = None) -> None:
        self.directory = directory
        self.lineage: Lineage = rescale(roots, groups) if roots else ()
        self.checkpoint_id = next(self.names)
        local = directory / f"local-{next(self.names)}"
        self.store = KeyedStore(local, groups, MAX_PARALLELISM, self._read, memory_mib << 20)

    def _read(self, handle: StateHandle) -> bytes:
        return (self.directory / (handle.path or "")).read_bytes()

    def catch_up(self) -> None:
        self.store.catch_up(self.lineage)

    def checkpoint(self) -> None:
        """End the epoch, and begin the next one."""
        number = self.checkpoint_id = next(self.names)
        kind: Any = "snapshot" if needs_snapshot(self.lineage) else "delta"
        if kind == "snapshot":
            file = BytesIO()
            file.writelines(self.store.snapshot(number, number))
            data: bytes | None = file.getvalue()
            del file
        else:
            data = self.store.delta(number, number)
        if data is not None:
            name = f"{kind}-{number}"
            (self.directory / name).write_bytes(data)
            handle = self.store.describe(data, kind, number, number, name)
            self.lineage = (handle,) if kind == "snapshot" else (*self.lineage, handle)
        del data
        self.catch_up()
