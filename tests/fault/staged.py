"""Lives of the batch job of six vertices: starts its drivers, and reckons what a killed one may have cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.fault.staged_job import FLUSH_S, TRUTH, WHOLE, attempts, environment, graph_of, published

from penstock._engine.coordinator.stages.replay import replay
from penstock._engine.protocol.job_events import decode_segment, read_log
from penstock._engine.protocol.paths import is_job_directory
from penstock._engine.storage.opening import open_storage

if TYPE_CHECKING:
    from tests.fault.staged_drivers import Orders

    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.storage.checkpoint_storage import FileStorage

ROOT = Path(__file__).parents[2]
KILLED = -9


class StagedDrivers:
    """Starts drivers by forks, see ``staged_drivers``."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fault.staged_drivers"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(60)

    def start(self, directory: Path, /, **orders: Any) -> int:
        """Start a driver with some of its orders; return its process."""
        whole: Orders = {"directory": str(directory), **orders}  # type: ignore[typeddict-item]
        return self._ask("start", whole)

    def wait(self, pid: int) -> int | None:
        """Wait until a driver has ended, or has stopped itself: then None."""
        return self._ask("wait", pid)

    def run(self, directory: Path, /, **orders: Any) -> int | None:
        """Run a driver until it has ended or has stopped."""
        return self.wait(self.start(directory, **orders))

    def _ask(self, command: str, argument: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps([command, argument])}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@dataclass
class StagedLife:
    """The life of one job over several drivers."""

    directory: Path
    #: Where its checkpoints are, and how that is reached; below the directory by default.
    checkpoints: str = ""
    options: dict[str, str] = field(default_factory=dict[str, str])
    #: The names of attempts that were killed, or had ended so shortly before that no event says so.
    lost: set[str] = field(default_factory=set[str])
    _judged: set[str] = field(default_factory=set[str])

    def killed(self, killed_s: float) -> None:
        """Reckon after a kill: what had ended earlier than an interval before is in the events."""
        if published(self.directory):
            return  # it has ended for good, and its events are being deleted
        recorded = self.recorded()
        for attempt in attempts(self.directory):
            if attempt.name in self._judged:
                continue
            self._judged.add(attempt.name)
            if (attempt.vertex, attempt.subtask) not in recorded:
                assert attempt.ended_s is None or attempt.ended_s > killed_s - FLUSH_S, attempt
                self.lost.add(attempt.name)

    def recorded(self) -> set[tuple[str, int]]:
        """Return the subtasks that have finished by the events that are stored, by the names of their vertices."""
        names = {vertex.id: _name(vertex.operators) for vertex in _graph().vertices}
        return {(names[vertex], subtask) for vertex, subtask in self.finished}

    @property
    def finished(self) -> set[tuple[int, int]]:
        """The same by the numbers of the vertices."""
        storage = self.storage
        paths = [path for path in self.left("events") if path.rpartition("/")[2].isdecimal()]
        segments = [(int(path.rpartition("/")[2]), decode_segment(storage.read(path), path)) for path in paths]
        return set(replay(read_log(segments, 0).events, _graph()).finished)

    @property
    def storage(self) -> FileStorage:
        """Where its checkpoints are."""
        return open_storage(self.checkpoints or str(self.directory / "checkpoints"), self.options)

    def left(self, *kinds: str) -> list[str]:
        """Return what is stored of some kinds, in the order of the names."""
        storage = self.storage
        jobs = [name for name in storage.names("") if is_job_directory(name)]
        return [file.path for job in jobs for kind in kinds for file in storage.files(f"{job}/{kind}")]

    def check_end(self) -> None:
        """Look at what a job has left that has finished: the truth, nothing else, and no record read without need."""
        assert published(self.directory) == TRUTH
        assert self.left("results", "finished", "events") == []
        read, wanted = Counter[str](), Counter(WHOLE)
        for attempt in attempts(self.directory):
            read[attempt.vertex] += attempt.records
            wanted[attempt.vertex] += attempt.records * (attempt.name in self.lost)
        assert not read - wanted, (read, wanted, self.lost)


def now_s() -> float:
    """Return the time by which files are dated."""
    return time.time()


def _graph() -> JobGraph:
    return graph_of(environment(Path()))


def _name(operators: Any) -> str:
    return next(name for name in WHOLE if any(node.uid == name for node in operators))
