"""Runs epochs on their own thread: completes their dispatches, and reports their outcomes."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.driver.failures import state_damage
from penstock._engine.plan.epoch_plan import EpochPlan
from penstock._engine.plan.levels import build_plan, plan_epoch, plan_release
from penstock._engine.protocol.control import LevelDispatch
from penstock._engine.protocol.paths import blob_path
from penstock.errors import EpochCancelledError, EpochInfrastructureError

if TYPE_CHECKING:
    from penstock._engine.coordinator import instructions as do
    from penstock._engine.coordinator.checkpoints.chain import ChainWriter
    from penstock._engine.driver.background import BackgroundExecutor
    from penstock._engine.driver.client.results import Results
    from penstock._engine.driver.epochs.local_state import LocalStateDirectory
    from penstock._engine.driver.mailbox import Mailbox
    from penstock._engine.plan.epoch_plan import EpochRunner
    from penstock._engine.plan.levels import ExecutionPlan
    from penstock._engine.storage.checkpoint_storage import CheckpointStorage

#: A larger program is stored as a file, which dispatches name.
MAX_INLINE_PROGRAM: Final = 256 << 10


@dataclass(frozen=True, slots=True)
class EpochPlanner:
    """Makes the dispatches of an epoch's levels from those of its subtasks."""

    plan: ExecutionPlan
    job_name: str
    run_id: str
    slots: int
    storage_url: str
    #: The local directory of tasks for state.
    local_directory: str
    python_path: tuple[str, ...]
    configuration: dict[str, str]

    def levels(
        self,
        instruction: do.RunEpoch,
        chain: ChainWriter,
        program: bytes | None,
        program_path: str | None,
        *,
        releases: bool = False,
    ) -> tuple[LevelDispatch, ...]:
        """Return one dispatch for each level; the last notifications of a job are one level."""
        common = LevelDispatch(
            job_id=chain.job_id,
            job_name=self.job_name,
            run_id=self.run_id,
            earlier_runs=chain.runs[:-1],
            job_attempt=instruction.job_attempt,
            checkpoint_id=instruction.checkpoint_id,
            level=0,
            slots=(),
            widths=(),
            placement={},
            program=program,
            program_path=program_path,
            storage_url=self.storage_url,
            local_directory=self.local_directory,
            python_path=self.python_path,
            configuration=self.configuration,
            stop=instruction.stop,
            attempt=instruction.attempt,
        )
        if releases:
            return plan_release(common, instruction.dispatches, self.slots)
        return plan_epoch(self.plan, common, instruction.dispatches, self.slots, instruction.rotation)


class Epochs:
    """Performs the instructions about epochs.

    Args:
        planner: Makes the dispatches.
        main_classes: The pickled classes of the main script, for the tasks; None without any.
        runner: Runs epochs.
        storage: Stores a large program.
        storage_options: The options with which tasks open it.
        mailbox: Passes the outcomes to the loop.
        background: Has the thread of the epochs.
        results: Blocks a job while the program does not take its results.
        local_state: The directory in which tasks on this machine keep state.
    """

    def __init__(
        self,
        planner: EpochPlanner,
        *,
        main_classes: bytes | None,
        runner: EpochRunner,
        storage: CheckpointStorage,
        storage_options: dict[str, str],
        mailbox: Mailbox,
        background: BackgroundExecutor,
        results: Results,
        local_state: LocalStateDirectory,
    ) -> None:
        self._planner = planner
        self._local_state = local_state
        self._main_classes = main_classes
        self._program = self._pickled()
        self._runner = runner
        self._storage = storage
        self._storage_options = storage_options
        self._mailbox = mailbox
        self._background = background
        self._results = results
        #: The path of the stored program, once it is stored.
        self.program_path: str | None = None

    def adopt(self, instruction: do.AdoptGraph) -> None:
        """Run the job with another graph; called before its first epoch."""
        if instruction.graph != self._planner.plan.graph:
            self._planner = replace(self._planner, plan=build_plan(instruction.graph))
            self._program = self._pickled()

    def _pickled(self) -> bytes:
        return pickle.dumps((self._planner.plan.graph, self._main_classes))

    def run(self, instruction: do.RunEpoch, chain: ChainWriter) -> None:
        """Start an epoch; its outcome is an event."""
        self._local_state.hold()
        self._background.run_epoch(lambda: self._mailbox.post(self._run(instruction, chain)))

    def notify(self, instruction: do.NotifyListeners, chain: ChainWriter) -> None:
        """Start the last Spark job of a run, which notifies checkpoint listeners and closes all functions."""
        self._background.run_epoch(lambda: self._mailbox.post(self._run(instruction.epoch, chain, releases=True)))

    def observe(self, _: do.ObserveEpoch) -> ev.Event:
        """Observe the running epoch."""
        progress, vertices = self._runner.progress(), self._planner.plan.graph.vertices
        names = [f"{vertices[vertex].name} ({subtask})" for vertex, subtask in progress.running]
        return ev.EpochObserved(progress.tasks_done, tuple(names))

    def cancel(self) -> None:
        """Interrupt the running epoch, even if it waits for the program to take results."""
        self._runner.cancel()
        self._results.interrupt()

    def _run(self, instruction: do.RunEpoch, chain: ChainWriter, *, releases: bool = False) -> ev.Event:
        try:
            if not releases:
                self._results.wait_for_room()
            if len(self._program) <= MAX_INLINE_PROGRAM:
                levels = self._planner.levels(instruction, chain, self._program, None, releases=releases)
            else:
                path = self._stored_program(chain.job_id)
                levels = self._planner.levels(instruction, chain, None, path, releases=releases)
            started = self._mailbox.clock.now()
            plan = EpochPlan(instruction.checkpoint_id, instruction.attempt, levels, self._storage_options)
            outcome = self._runner.run(plan)
            damage = state_damage(outcome.failures, self._storage, chain.job_id)
            if damage is not None:
                return ev.EpochFailed(damage)
            return ev.EpochEnded(outcome, self._mailbox.clock.now().since(started))
        except (EpochInfrastructureError, EpochCancelledError) as error:
            return ev.EpochLost(error)
        except Exception as error:  # noqa: BLE001 - the job fails with it, whatever it is
            return ev.EpochFailed(error)

    def _stored_program(self, job_id: str) -> str:
        if self.program_path is None:
            path = blob_path(job_id, self._planner.run_id)
            self._storage.put(path, self._program)
            self.program_path = path
        return self.program_path
