"""Runs epochs on their own thread: completes their dispatches, and reports their outcomes."""

from __future__ import annotations

import contextlib
import logging
import pickle
import secrets
import threading
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.driver.failures import lost_results, state_damage
from penstock._engine.plan.epoch_plan import EpochPlan
from penstock._engine.plan.homes import Homes
from penstock._engine.plan.levels import build_plan, plan_epoch, plan_release, plan_stage
from penstock._engine.protocol.control import JobDispatch, LevelDispatch
from penstock._engine.protocol.epoch_signals import epoch_name
from penstock._engine.protocol.paths import blob_path, dispatches_path
from penstock._engine.protocol.signing import file_digest
from penstock._engine.storage.opening import options_for_tasks
from penstock.errors import CheckpointStorageError, EpochCancelledError, EpochInfrastructureError, LocalStateError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from penstock._engine.coordinator import instructions as do
    from penstock._engine.coordinator.checkpoints.chain import ChainWriter
    from penstock._engine.driver.background import BackgroundExecutor
    from penstock._engine.driver.client.results import Results
    from penstock._engine.driver.epochs.signals import EpochSignals
    from penstock._engine.driver.mailbox import Mailbox
    from penstock._engine.driver.stages.partitions import SubtaskAnnouncements
    from penstock._engine.plan.epoch_plan import EpochOutcome, EpochRunner
    from penstock._engine.plan.levels import ExecutionPlan
    from penstock._engine.storage.checkpoint_storage import FileStorage
    from penstock._engine.storage.local_state import LocalStateDirectory

#: A larger program becomes an object in storage, because each task would get it anew.
MAX_INLINE_PROGRAM: Final = 32 << 10
#: For an epoch that is to be interrupted, to end by itself.
_ENDING_S: Final = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EpochPlanner:
    """Makes the dispatches of an epoch from those of its subtasks."""

    plan: ExecutionPlan
    job_name: str
    run_id: str
    #: Tells the hosts of the tasks that run at the same time now: one for each.
    hosts: Callable[[], tuple[str, ...]]
    storage_url: str
    python_path: tuple[str, ...]
    configuration: dict[str, str]
    working_directory: str = ""
    #: Whether all levels of an epoch run at the same time.
    pipelined: bool = False
    #: The storage of results, where that is not the checkpoint storage; and whether tasks announce finished subtasks.
    results_url: str = ""
    announces: bool = False
    #: Makes, by the key of the run, what ends a running epoch early; None where nothing does.
    listen: Callable[[bytes], EpochSignals | None] = lambda _: None
    #: A secret of the run, which is not in the checkpoint storage: others who can write there do not know it.
    dispatch_key: bytes = field(default_factory=partial(secrets.token_bytes, 32), repr=False)
    homes: Homes = field(default_factory=Homes)
    #: The pickled classes of the main script, for the tasks; None without any.
    main_classes: bytes | None = None

    def program(self) -> bytes:
        """Return what tasks run."""
        return pickle.dumps((self.plan.graph, self.main_classes))

    def job(
        self,
        chain: ChainWriter,
        program: bytes | None,
        program_path: str | None,
        program_digest: bytes | None,
        signals: str,
    ) -> JobDispatch:
        """Return the part of a dispatch that is the same for all tasks of the run."""
        return JobDispatch(
            job_id=chain.job_id,
            job_name=self.job_name,
            run_id=self.run_id,
            # What earlier runs of a batch job with recovery have staged is needed until the job commits.
            earlier_runs=() if self.announces else chain.runs[:-1],
            program=program,
            program_path=program_path,
            program_digest=program_digest,
            storage_url=self.storage_url,
            dispatch_key=self.dispatch_key,
            python_path=self.python_path,
            working_directory=self.working_directory,
            configuration=self.configuration,
            results_url=self.results_url,
            announces=self.announces,
            signals=signals,
        )

    def levels(
        self, instruction: do.RunEpoch, hosts: tuple[str, ...], *, releases: bool = False
    ) -> tuple[LevelDispatch, ...]:
        """Return one dispatch for each level; the last Spark job of a run has a single level."""
        common = LevelDispatch(
            job_attempt=instruction.job_attempt,
            checkpoint_id=instruction.checkpoint_id,
            level=0,
            stop=instruction.stop,
            attempt=instruction.attempt,
            inputs=dict(instruction.inputs),
            results=instruction.results,
            bounds=dict(instruction.bounds),
            pipelined=self.pipelined,
            inline_bytes=instruction.inline_bytes,
        )
        if instruction.results is not None:
            return plan_stage(self.plan, common, instruction.dispatches, len(hosts))
        if releases:
            return plan_release(common, instruction.dispatches, len(hosts))
        return plan_epoch(self.plan, common, instruction.dispatches, hosts, instruction.rotation, homes=self.homes)


class Epochs:
    """Performs the instructions about epochs.

    Args:
        planner: Makes the dispatches.
        runner: Runs epochs.
        storage: Stores a large program.
        mailbox: Passes the outcomes to the loop.
        background: Has the thread of the epochs.
        results: Blocks a job while the program does not take its results.
        local_state: The run's directory on the driver's host, where tasks may run as well.
        finished: Looks for finished subtasks of a batch job with recovery; None without.
    """

    def __init__(
        self,
        planner: EpochPlanner,
        *,
        runner: EpochRunner,
        storage: FileStorage,
        mailbox: Mailbox,
        background: BackgroundExecutor,
        results: Results,
        local_state: LocalStateDirectory,
        finished: SubtaskAnnouncements | None = None,
    ) -> None:
        self._finished = finished
        self._listens = False
        self._signals: EpochSignals | None = None
        #: Interrupts an epoch that has been told to end.
        self._interruption: threading.Timer | None = None
        self._planner = planner
        self._local_state = local_state
        self._program = planner.program()
        self._runner = runner
        self._storage = storage
        self._mailbox = mailbox
        self._background = background
        self._results = results
        #: The path of the stored program, and whether anything was put into the storage.
        self._program_path: str | None = None
        self.has_stored = False

    def adopt(self, instruction: do.AdoptGraph) -> None:
        """Run the job with another graph; called before its first epoch."""
        if instruction.graph != self._planner.plan.graph:
            self._planner = replace(self._planner, plan=build_plan(instruction.graph))
            self._program = self._planner.program()

    def run(self, instruction: do.RunEpoch, chain: ChainWriter) -> None:
        """Start an epoch; its outcome is an event."""
        if not self._listens:  # not before: what fails until then closes nothing
            self._listens, self._signals = True, self._planner.listen(self._planner.dispatch_key)
        if self._signals is not None:
            name = epoch_name(instruction.checkpoint_id, instruction.attempt, instruction.job_attempt)
            self._signals.begin(name, instruction.least_ms)
        with contextlib.suppress(LocalStateError):  # if the directory is missing for tasks as well, their errors say so
            self._local_state.hold()
        self._start(instruction, chain)

    def notify(self, instruction: do.NotifyListeners, chain: ChainWriter) -> None:
        """Start the last Spark job of a run, which notifies checkpoint listeners and closes all functions."""
        self._start(instruction.epoch, chain, releases=True)

    def observe(self, _: do.ObserveEpoch) -> ev.Event:
        """Observe the running epoch."""
        progress, vertices = self._runner.progress(), self._planner.plan.graph.vertices
        names = [vertices[vertex].name_of(subtask) for vertex, subtask in progress.running]
        return ev.EpochObserved(progress.tasks_done, tuple(names))

    def end_early(self, instruction: do.EndEpoch) -> None:
        """Let the sources of the running epoch read no further."""
        if self._signals is not None:
            self._signals.end() if instruction.at_once else self._signals.want()

    def close(self) -> None:
        """Interrupt nothing any more, and end the connections to workers."""
        self._call_off()
        if self._signals is not None:
            self._signals.close()

    def cancel(self) -> None:
        """Interrupt the running epoch, even if it waits for the program to take results.

        One whose sources can be told to end is told, and has a second for it: Spark ends the Python processes of the
        tasks that it interrupts, and functions are to be closed before the job has its result.
        """
        self._results.interrupt()
        if self._signals is None:
            self._runner.cancel()
            return
        self._signals.end()
        self._interruption = threading.Timer(_ENDING_S, self._runner.cancel)
        self._interruption.daemon = True
        self._interruption.start()

    def _call_off(self) -> None:
        """Let no epoch be interrupted that comes behind the one that was to be."""
        if self._interruption is not None:
            self._interruption.cancel()

    def _start(self, instruction: do.RunEpoch, chain: ChainWriter, *, releases: bool = False) -> None:
        self._call_off()
        self._background.run_epoch(lambda: self._mailbox.post(self._run(instruction, chain, releases=releases)))

    def _run(self, instruction: do.RunEpoch, chain: ChainWriter, *, releases: bool = False) -> ev.Event:
        try:
            if not releases:
                self._results.wait_for_capacity()
            is_small = len(self._program) <= MAX_INLINE_PROGRAM
            path = None if is_small else self._stored_program(chain.job_id)
            digest = None if is_small else file_digest(self._program)
            signals = "" if self._signals is None else self._signals.address
            job = self._planner.job(chain, self._program if is_small else None, path, digest, signals)
            hosts = self._planner.hosts()
            levels = self._planner.levels(instruction, hosts, releases=releases)
            started = self._mailbox.clock.now()
            epoch = instruction.checkpoint_id, instruction.attempt
            with self._dispatches(chain.job_id, *epoch) as store, self._looking(chain.job_id, instruction.job_attempt):
                outcome = self._runner.run(
                    EpochPlan(
                        *epoch, job, levels, options_for_tasks(self._storage.options), store, self._local_state.parent
                    )
                )
            damage = self._damage(outcome, chain.job_id) if outcome.failures else None
            return damage or ev.EpochEnded(outcome, self._mailbox.clock.now().since(started), len(hosts))
        except (EpochInfrastructureError, EpochCancelledError, CheckpointStorageError) as error:
            return ev.EpochLost(error)  # the storage may answer again, as after a cut of the network
        except Exception as error:  # noqa: BLE001 - the job fails with it, whatever it is
            return ev.EpochFailed(error)
        finally:
            self._call_off()
            if self._signals is not None:
                self._signals.over()

    def _damage(self, outcome: EpochOutcome, job_id: str) -> ev.Event | None:
        """Return what failed tasks have found missing or damaged: stored results, or a state file; None for neither."""
        lost = lost_results(outcome.failures) if self._planner.announces else {}
        if lost:
            return ev.ResultsLost(outcome, tuple(lost), next(iter(lost.values())))
        damage = state_damage(outcome.failures, self._storage, job_id)
        return None if damage is None else ev.EpochFailed(damage)

    @contextlib.contextmanager
    def _looking(self, job_id: str, job_attempt: int) -> Generator[None]:
        """Look for finished subtasks while a stage runs."""
        if self._finished is not None:
            self._finished.begin(job_id, job_attempt)
        try:
            yield
        finally:
            if self._finished is not None:
                self._finished.end()

    @contextlib.contextmanager
    def _dispatches(self, job_id: str, checkpoint_id: int, attempt: int) -> Generator[Callable[[bytes], str]]:
        """Give what stores the dispatches of an epoch, and delete them when it has ended."""
        path = dispatches_path(job_id, self._planner.run_id, checkpoint_id, attempt)
        stored: list[str] = []

        def store(dispatches: bytes) -> str:
            self.has_stored = True
            self._storage.put(path, dispatches)
            stored.append(path)
            return path

        try:
            yield store
        finally:
            self._forget(stored)

    def _forget(self, paths: list[str]) -> None:
        try:
            if paths:
                self._storage.delete(paths)
        except CheckpointStorageError:
            _log.warning("%s could not be deleted, and is not needed any more", paths, exc_info=True)

    def _stored_program(self, job_id: str) -> str:
        if self._program_path is None:
            path = blob_path(job_id, self._planner.run_id)
            self.has_stored = True
            self._storage.put(path, self._program)
            self._program_path = path
        return self._program_path
