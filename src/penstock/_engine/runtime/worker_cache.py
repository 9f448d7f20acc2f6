"""What a Python worker keeps between epochs: loaded programs and subtasks with opened operators. All of it is a bonus.

An entry is good for an epoch when the epoch that it ran last was accepted: the dispatch names the accepted tokens.
Anything else is dropped and its functions closed.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import pickle
import sys
from typing import TYPE_CHECKING, Any

from penstock._engine.plan.levels import ExecutionPlan, build_plan
from penstock._engine.runtime.subtask import now_ms
from penstock._engine.storage.checkpoint_storage import CheckpointStorage, open_storage

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.protocol.control import LevelDispatch, SubtaskDispatch
    from penstock._engine.runtime.subtask import SubtaskRuntime

#: A subtask's entry: one start of a job, its attempt, vertex and subtask.
_Key = tuple[str, int, int, int]


class WorkerCache:
    """The entries of this process; tests simulate several processes with several caches.

    Args:
        clock: The time in milliseconds since the epoch, for the processing time of what runs here.
    """

    def __init__(self, clock: Callable[[], int] = now_ms) -> None:
        self.clock = clock
        self._plans: dict[str, ExecutionPlan] = {}
        self._subtasks: dict[_Key, SubtaskRuntime] = {}
        self._storages: dict[tuple[str, tuple[tuple[str, str], ...]], CheckpointStorage] = {}
        self._run: tuple[str, int] = ("", 0)

    def turn_to(self, dispatch: LevelDispatch) -> ExecutionPlan:
        """Let go of what other runs and attempts left, and return the program's plan."""
        run = dispatch.run_id, dispatch.job_attempt
        if run != self._run:
            self.close()
            if run[0] != self._run[0]:
                self._plans.clear()
                self._storages.clear()
            self._run = run
        for entry in dispatch.python_path:
            if entry not in sys.path:
                sys.path.append(entry)
        program = dispatch.program
        name = dispatch.program_path or hashlib.sha256(program or b"").hexdigest()
        plan = self._plans.get(name)
        if plan is None:
            if program is None:
                program = self.storage(dispatch).read(dispatch.program_path or "")
            plan = self._plans[name] = load_program(program)
        return plan

    def storage(self, dispatch: LevelDispatch) -> CheckpointStorage:
        """Return the job's checkpoint storage."""
        name = dispatch.storage_url, tuple(sorted(dispatch.storage_options.items()))
        storage = self._storages.get(name)
        if storage is None:
            storage = self._storages[name] = open_storage(dispatch.storage_url, dispatch.storage_options)
        return storage

    def take(self, dispatch: LevelDispatch, subtask: SubtaskDispatch) -> SubtaskRuntime | None:
        """Take a subtask's entry out; None when there is none that the epoch can go on with."""
        key = dispatch.run_id, dispatch.job_attempt, subtask.vertex, subtask.subtask
        runtime = self._subtasks.pop(key, None)
        if runtime is not None and (runtime.position is None or runtime.position not in subtask.history):
            runtime.close()
            return None
        return runtime

    def put(self, dispatch: LevelDispatch, runtime: SubtaskRuntime) -> None:
        """Keep a subtask for the next epoch."""
        self._subtasks[dispatch.run_id, dispatch.job_attempt, *runtime.place] = runtime

    def close(self) -> None:
        """Close what is kept."""
        for runtime in self._subtasks.values():
            with contextlib.suppress(Exception):  # nobody is left to tell
                runtime.close()
        self._subtasks.clear()


def load_program(program: bytes) -> ExecutionPlan:
    """Load a job's program, made by its own driver, and make the classes of its main script known here."""
    graph: JobGraph
    classes: bytes | None
    graph, classes = pickle.loads(program)
    if classes is not None:
        main: Any = sys.modules["__main__"]
        for name, defined in pickle.loads(classes).items():
            setattr(main, name, defined)
    return build_plan(graph)


CACHE = WorkerCache()
atexit.register(CACHE.close)
