"""The store of one subtask with its checkpoints on the disk, and private memory, for measurements in one process."""

from __future__ import annotations

import sys
import threading
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._engine.protocol.state_handle import rescale
from penstock._engine.state.keyed_state import KeyedState
from penstock._engine.state.local.local_backend import LocalBackend

sys.path.append(str(Path(__file__).parents[1]))

from checkpoints import end_epoch

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
        self.store = KeyedState(LocalBackend(local, groups, MAX_PARALLELISM, memory_mib << 20), self._read)

    def _read(self, handle: StateHandle) -> bytes:
        return (self.directory / (handle.path or "")).read_bytes()

    def catch_up(self) -> None:
        self.store.catch_up(self.lineage)

    def checkpoint(self) -> None:
        """End the epoch, and begin the next one."""
        number = self.checkpoint_id = next(self.names)
        self.lineage = end_epoch(self.store, number, self.lineage, self._put)
        self.catch_up()

    def _put(self, name: str, data: bytes) -> None:
        (self.directory / name).write_bytes(data)
