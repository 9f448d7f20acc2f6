"""A checkpoint store that is away, full, slow, or lies, for requests by their number."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.clock import CLOCK

from penstock._engine.storage.opening import open_storage
from penstock.errors import CheckpointStorageError, CorruptCheckpointError
from penstock.testing.failing_storage import FailingStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.chaos.chapters import Trouble

#: What opens stores for jobs.
USERS = (
    "driver.assembly",
    "driver.checkpoints.claimants",
    "driver.checkpoints.savepoints",
    "driver.checkpoints.start_lookups",
    "driver.epochs.committers",
    "driver.stages.files",
    "runtime.worker_cache",
    "storage.run_files",
)
WRITES = {"put", "put_if_absent"}
READS = {"find", "read_range"}
#: Which calls each trouble is about.
CALLS: dict[str, set[str]] = {
    "store away": {"find", "read_range", "put", "put_if_absent", "move", "delete", "names", "files"},
    "store lost between state files": {"put"},
    "full disk": WRITES,
    "lost answer": {*WRITES, "move", "delete"},
    "store slow": {*WRITES, *READS},
    "torn read": READS,
    "late listing": {"names", "files"},
}


class Weather:
    """What happens to the requests of all stores of a life: a trouble comes with a request, and stays for some."""

    def __init__(self) -> None:
        self.requests = 0
        self.met: set[str] = set()
        self.has_refused_deletions = False
        #: The files that were written after the caller had been told that this had failed, in full.
        self.written_late: set[str] = set()
        self._coming: list[Trouble] = []
        #: By kind: for how many more requests of its calls.
        self._left: dict[str, int] = {}
        self._written: list[str] = []

    def forecast(self, troubles: list[Trouble]) -> None:
        """Say what comes from now on; what there was is over."""
        self.requests, self._coming, self._left = 0, troubles, {}

    def on(self, storage: Stormy, call: str, paths: list[str], work: Callable[[], Any]) -> Any:
        """Perform a request, or not."""
        if not paths:  # nothing is asked
            return work()
        self.requests += 1
        for trouble in self._coming:
            if trouble.at == self.requests:
                self._left[trouble.kind] = trouble.size
        kind = next((kind for kind, left in self._left.items() if left and call in CALLS[kind]), None)
        if kind == "store lost between state files":
            kind = kind if self._is_second_state_file(paths[0]) else None
        if kind is None:
            return self._noted(call, paths, work())
        self._left[kind] -= 1
        self.met.add(kind)
        is_error = kind in {"store away", "lost answer"}  # behind which nothing further is deleted
        self.has_refused_deletions |= is_error and call in {"delete", "names", "files", "find"}
        return self._troubled(kind, storage, call, paths, work)

    def _is_second_state_file(self, path: str) -> bool:
        """Tell whether it is a file of state behind another one."""
        return "/shared/" in path and bool(self._written) and "/shared/" in self._written[-1]

    def _noted(self, call: str, paths: list[str], result: Any) -> Any:
        if call in WRITES:
            self._written.append(paths[0])
        return result

    def _troubled(self, kind: str, storage: Stormy, call: str, paths: list[str], work: Callable[[], Any]) -> Any:
        path = storage.full_path(paths[0])
        match kind:
            case "lost answer":
                work()
                raise CheckpointStorageError(path, "the answer is lost")
            case "store slow":
                CLOCK.advance(20_000)
                return work()
            case "torn read" if call == "find":
                data = work()
                return data and data[: len(data) // 2]
            case "torn read":
                raise CorruptCheckpointError(path, "it was cut off")
            case "late listing":
                late = self._written[-1].rpartition("/")[2] if self._written else None
                return [one for one in work() if late is None or not str(getattr(one, "path", one)).endswith(late)]
            case _:
                raise CheckpointStorageError(path, "the disk is full" if kind == "full disk" else "the store is away")


class Stormy(FailingStorage):
    """A store under the weather."""

    def __init__(self, storage: Any, weather: Weather) -> None:
        super().__init__(storage)
        self.options, self._weather = storage.options, weather

    def _call(self, call: Any, paths: list[str], work: Callable[[], Any]) -> Any:
        return self._weather.on(self, call, paths, work)


@contextmanager
def stormy(weather: Weather) -> Iterator[None]:
    """Let all stores of jobs be under the weather."""

    def opened(url: str, options: Any = None) -> Stormy:
        return Stormy(open_storage(url, options), weather)

    with pytest.MonkeyPatch.context() as patch:
        for user in USERS:
            patch.setattr(import_module(f"penstock._engine.{user}"), "open_storage", opened)
        for module in ("storage.checkpoint_storage", "driver.checkpoints.savepoints"):
            patch.setattr(f"penstock._engine.{module}._THREADS", 1)  # requests have an order
        yield
