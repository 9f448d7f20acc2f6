"""The cache of a Python worker between epochs: loaded programs, and subtasks with opened operators.

An entry is valid for an epoch when its last epoch was accepted: the dispatch names the accepted tokens. Any other entry
is dropped and its functions are closed. Decision 4 says when that happens.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.operators.clocks import TaskClock
from penstock._engine.operators.head import never
from penstock._engine.plan.levels import ExecutionPlan, build_plan
from penstock._engine.protocol.control import HISTORY
from penstock._engine.protocol.signing import check_digest
from penstock._engine.runtime.driver_link import DriverLink
from penstock._engine.runtime.environment import TaskEnvironment
from penstock._engine.runtime.failures import OperatorError
from penstock._engine.storage.local_state import LocalStateDirectory
from penstock._engine.storage.opening import open_storage
from penstock.common.redaction import hiding
from penstock.errors import CheckpointStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.operators.head import EarlyEnd
    from penstock._engine.protocol.control import JobDispatch, LevelDispatch, SubtaskDispatch, TaskDispatch
    from penstock._engine.runtime.subtask import SubtaskRuntime
    from penstock._engine.storage.checkpoint_storage import FileStorage

_log = hiding(logging.getLogger(__name__))

#: The working directory at the start of this process, and the one that jobs have changed it to.
_START_DIRECTORY: Final = str(Path.cwd())
_directory = [_START_DIRECTORY]


class WorkerCache:
    """The entries of this process; tests simulate several processes with several caches.

    Args:
        clock: The clocks of the subtasks; by default those of the machine.
        state_directory: The directory of local state; by default that of this process's user on its host.
    """

    def __init__(self, clock: TaskClock | None = None, state_directory: Path | None = None) -> None:
        self.clock = clock or TaskClock()
        self.state_directory = state_directory
        #: By run: a worker may serve several jobs in turn.
        self._local_states: dict[str, LocalStateDirectory] = {}
        self._plans: dict[str, ExecutionPlan] = {}
        #: The subtasks of one run and attempt, by vertex and subtask.
        self._subtasks: dict[tuple[int, int], SubtaskRuntime] = {}
        #: The storages of one run, by URL.
        self._storages: dict[str, FileStorage] = {}
        self._storage_options: Mapping[str, str] = {}
        #: The id of the process that has used the cache.
        self.process: int | None = None
        self._run, self._job_attempt = "", 0
        self._link: DriverLink | None = None

    def turn_to_run(self, job: JobDispatch, storage_options: Mapping[str, str] | None = None) -> None:
        """Drop the entries of any other run.

        Args:
            job: The run.
            storage_options: The options of its checkpoint storage.
        """
        if job.run_id != self._run:
            self.close()
            self._drop_link()
            self._plans.clear()
            self._storages.clear()
            self.process = os.getpid()
            self._run, self._storage_options = job.run_id, storage_options or {}

    def turn_to(self, task: TaskDispatch) -> ExecutionPlan:
        """Drop entries that no epoch can use any more, and return the plan of the task's program."""
        job = task.job
        self.turn_to_run(job)
        if task.level.job_attempt != self._job_attempt:
            self.close()
            self._job_attempt = task.level.job_attempt
        _turn_to_places(job)
        program = job.program
        name = job.program_path or hashlib.sha256(program or b"").hexdigest()
        plan = self._plans.get(name)
        if plan is None:
            if program is None:
                storage, path = self.storage(job), job.program_path or ""
                program = storage.read(path)
                check_digest(program, job.program_digest, storage.full_path(path))
            plan = self._plans[name] = load_program(program)
        self._sweep(task)
        return plan

    def _sweep(self, task: TaskDispatch) -> None:
        """Close the entries that no epoch can use any more, as far as this task knows."""
        own = {(part.vertex, part.subtask): part for part in task.subtasks}
        for place, runtime in list(self._subtasks.items()):
            if not task.level.releases and _is_leftover(runtime, own.get(place), task.level):
                del self._subtasks[place]
                close_idle(runtime)

    def storage(self, job: JobDispatch) -> FileStorage:
        """Return the job's checkpoint storage.

        Raises:
            CheckpointStorageError: It cannot be opened, or this host does not have it.
        """
        return self._storage(job.storage_url)

    def results(self, job: JobDispatch) -> FileStorage:
        """Return the storage of the job's results, which `storage` explains."""
        return self._storage(job.results_url or job.storage_url)

    def _storage(self, url: str) -> FileStorage:
        storage = self._storages.get(url)
        if storage is None:
            storage = open_storage(url, self._storage_options)
            if (reason := storage.why_absent()) is not None:
                raise CheckpointStorageError(storage.full_path(""), reason)
            storage.wait_for_answers()
            self._storages[url] = storage
        return storage

    def local_state(self, run_id: str) -> LocalStateDirectory:
        """Return the directory in which a run keeps state on this host."""
        if run_id not in self._local_states:
            self._local_states[run_id] = LocalStateDirectory(run_id, self.state_directory)
        return self._local_states[run_id]

    def environment(self, job: JobDispatch) -> TaskEnvironment:
        """Return what the job's subtasks work with.

        Raises:
            CheckpointStorageError: The storage cannot be opened, or this host does not have it.
        """
        return TaskEnvironment(self.clock, self.storage(job), self.local_state(job.run_id))

    def early_end(self, task: TaskDispatch) -> EarlyEnd:
        """Return what tells whether the epoch of a task is to end now, by what the driver says."""
        link = self._link_for(task)
        return never if link is None else link.ends

    def tell_failure(self, task: TaskDispatch) -> None:
        """Tell the driver that a function of a task has failed: the sources of the epoch need not read on."""
        if (link := self._link_for(task)) is not None:
            link.fails()

    def _link_for(self, task: TaskDispatch) -> DriverLink | None:
        if not task.job.signals:
            return None
        if self._link is None:
            self._link = DriverLink(task.job.signals, task.job.dispatch_key)
        self._link.begin(task.level.epoch)
        return self._link

    def take(self, subtask: SubtaskDispatch) -> SubtaskRuntime | None:
        """Remove and return a subtask's entry; None when the epoch cannot continue with it."""
        runtime = self._subtasks.pop((subtask.vertex, subtask.subtask), None)
        if runtime is not None and not _is_accepted(runtime, subtask):
            close_idle(runtime)
            return None
        return runtime

    def put(self, runtime: SubtaskRuntime) -> None:
        """Keep a subtask for the next epoch."""
        self._subtasks[runtime.place] = runtime

    def release(self, run_id: str, turn_to: Callable[[SubtaskRuntime], None] = lambda _: None) -> None:
        """Close all subtasks of a run that has ended.

        Args:
            run_id: The run.
            turn_to: Called with each subtask before it is closed.
        """
        if self._run == run_id:
            self.close(turn_to)
            self._plans.clear()
            self._storages.clear()
            self._drop_link()
            self._run = ""
        if (local_state := self._local_states.pop(run_id, None)) is not None:
            local_state.leave()

    def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def close(self, turn_to: Callable[[SubtaskRuntime], None] = lambda _: None) -> None:
        """Close all subtasks in the cache."""
        runtimes = list(self._subtasks.values())
        self._subtasks.clear()
        for runtime in runtimes:
            turn_to(runtime)
            close_idle(runtime)


def _is_accepted(runtime: SubtaskRuntime, part: SubtaskDispatch) -> bool:
    return runtime.position in part.history


def _is_leftover(runtime: SubtaskRuntime, part: SubtaskDispatch | None, level: LevelDispatch) -> bool:
    """Return whether no epoch can use an entry any more.

    Args:
        runtime: The entry.
        part: The subtask's part of this task; None where another task runs the subtask, or no task does.
        level: The part of the dispatch that all tasks of a level share.
    """
    if runtime.position is None:
        return True
    if part is not None and _is_accepted(runtime, part):
        return False
    checkpoint_id, _ = runtime.position
    if checkpoint_id == level.checkpoint_id:  # void, or of the running epoch, which is not accepted yet
        return runtime.attempt != level.attempt
    if part is not None:
        return True
    vertex, subtask = runtime.place
    has_finished = not any(start <= subtask < stop for start, stop in level.running.get(vertex, ()))
    return has_finished or checkpoint_id < level.checkpoint_id - HISTORY


def close_idle(runtime: SubtaskRuntime) -> None:
    """Close a subtask that is not needed any more; its errors fail no epoch."""
    try:
        runtime.close()
    except Exception as error:  # noqa: BLE001 - a function of the user's
        name = error.node.name if isinstance(error, OperatorError) else runtime.vertex.name
        _log.warning("%s (%d) failed to close; the job is not affected", name, runtime.place[1], exc_info=True)


def add_import_path(entries: Sequence[str]) -> None:
    """Let this process import from folders.

    Args:
        entries: Folders of this machine, which come last; shipped ones, which are relative to the working directory of
            the executor, come first, so that modules of the same names that are installed here do not hide them.
    """
    shipped = [str(Path(_START_DIRECTORY) / entry) for entry in entries if not Path(entry).is_absolute()]
    sys.path[1:1] = [entry for entry in shipped if entry not in sys.path]
    sys.path.extend(entry for entry in entries if Path(entry).is_absolute() and entry not in sys.path)


def _turn_to_places(job: JobDispatch) -> None:
    """Set the import path and the working directory of a job."""
    add_import_path(job.python_path)
    directory = job.working_directory or _START_DIRECTORY
    if _directory[0] != directory:
        os.chdir(directory)
        _directory[0] = directory


def load_program(program: bytes) -> ExecutionPlan:
    """Load a job's program from its own driver, and define the classes of its main script in this process."""
    graph: JobGraph
    classes: bytes | None
    graph, classes = pickle.loads(program)
    if classes is not None:
        main: Any = sys.modules["__main__"]
        for name, defined in pickle.loads(classes).items():
            setattr(main, name, defined)
    return build_plan(graph)


def _close_at_exit() -> None:
    """Close the functions of this process; a forked process has copies, which it must not close."""
    if CACHE.process in {None, os.getpid()}:
        CACHE.close()


CACHE = WorkerCache()
atexit.register(_close_at_exit)
