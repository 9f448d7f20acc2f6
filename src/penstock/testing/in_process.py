"""Runs the epochs of a job in this process, without Spark, one task after the other.

It can also simulate faults of Spark: a subtask in another Python worker, a task that runs twice, readers that see
different attempts of one task, a lost epoch. All faults follow from one seed, so a run can be repeated.
"""

from __future__ import annotations

import gc
import random
import threading
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from penstock._engine.operators.clocks import TaskClock
from penstock._engine.plan.dispatches import pack
from penstock._engine.plan.epoch_plan import EpochOutcome, EpochProgress
from penstock._engine.protocol.control import encode
from penstock._engine.runtime.level import run_level
from penstock._engine.runtime.row_buffer import record_batch, rows_of
from penstock._engine.runtime.worker_cache import WorkerCache
from penstock.errors import EpochCancelledError, EpochInfrastructureError
from penstock.testing.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.plan.epoch_plan import EpochPlan
    from penstock._engine.runtime.row_buffer import ExchangeRow

__all__ = ["Chaos", "InProcessEpochRunner"]


@dataclass(frozen=True, slots=True)
class Chaos:
    """The probabilities of faults.

    Args:
        retries: That a task runs twice and its second output is taken.
        mixtures: That of a task which runs twice some readers get the first output and others the second, as when Spark
            repeats a stage of which it lost a part. The epoch is void then; its acknowledgements tell.
        losses: That Spark loses the epoch while one of its levels runs.

    Example:
        >>> Chaos(retries=0.1)
        Chaos(retries=0.1, mixtures=0.0, losses=0.0)
    """

    retries: float = 0.0
    mixtures: float = 0.0
    losses: float = 0.0


@dataclass(frozen=True, slots=True)
class _Task:
    """One task of an epoch."""

    plan: EpochPlan
    dispatches: str
    #: Its position in the plan.
    level: int
    slot: int


class InProcessEpochRunner:
    """Runs epochs in this process; takes the place of the runner on Spark.

    Each simulated worker keeps what a Python worker of Spark would keep between epochs: opened functions, readers,
    state in memory. Each task runs in a worker chosen at random.

    Args:
        workers: The number of simulated Python workers.
        hosts: The number of simulated machines over which they are spread, each with a local disk of its own.
        chaos: The faults.
        seed: The seed of all random choices.
        clock: A ManualClock, or what returns the time in milliseconds since the epoch, for all that depends on time in
            tasks; the machine's clocks when left out.
        passed: Returns milliseconds that only ever grow, for how long something takes, where ``clock`` is one that may
            jump; ``clock`` when left out.
        sleep: Lets milliseconds pass by ``clock``, for sources that wait for input; they do not wait when left out. A
            ManualClock brings both.

    Example:
        >>> runner = InProcessEpochRunner(workers=3, chaos=Chaos(retries=0.1), seed=7)
        >>> len(runner.workers)
        3
        >>> runner.close()
    """

    def __init__(
        self,
        *,
        workers: int = 1,
        hosts: int = 1,
        chaos: Chaos | None = None,
        seed: int = 0,
        clock: ManualClock | Callable[[], int] | None = None,
        passed: Callable[[], float] | None = None,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        if isinstance(clock, ManualClock):
            clock, passed, sleep = clock.now_ms, clock.passed_ms, partial(_pass, clock)
        clocks = TaskClock() if clock is None else TaskClock.by_hand(clock, passed, sleep)
        self.workers: list[WorkerCache] = [WorkerCache(clocks) for _ in range(workers)]
        self.chaos: Chaos = chaos or Chaos()
        self._hosts = hosts
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._cancelled = threading.Event()
        self._tasks_done = 0

    def __repr__(self) -> str:
        return f"<InProcessEpochRunner with {len(self.workers)} workers: {self._tasks_done} tasks done>"

    def run(self, plan: EpochPlan) -> EpochOutcome:
        """Run one epoch to its end and return the acks of its subtasks.

        Raises:
            EpochInfrastructureError: The epoch was lost, by chance.
            EpochCancelledError: ``cancel`` was called.
        """
        thresholds = gc.get_threshold()
        try:
            outcome = self._run(plan)
            if plan.releases:
                self.release(plan.job.run_id)
            return outcome
        finally:
            gc.set_threshold(*thresholds)

    def cancel(self) -> None:
        """Interrupt the running epoch at its next task; without one, the next ``run`` raises at once."""
        self._cancelled.set()

    def progress(self) -> EpochProgress:
        """Return the number of tasks that came to their end in the running epoch."""
        return EpochProgress(self._tasks_done)

    def release(self, run_id: str) -> None:
        """Close the functions that a run has left open, after its last epoch."""
        for worker in self.workers:
            worker.release(run_id)

    def close(self) -> None:
        """End the simulated workers: all opened functions are closed."""
        for worker in self.workers:
            worker.close()

    def _run(self, plan: EpochPlan) -> EpochOutcome:
        self._tasks_done = 0
        dispatches = pack(plan)
        inputs: list[list[ExchangeRow]] = [[] for _ in range(plan.levels[0].widths[0])]
        for number, level in enumerate(plan.levels):
            tasks = [_Task(plan, dispatches, number, slot) for slot in range(len(inputs))]
            outputs = [self._run_task(task, rows) for task, rows in zip(tasks, inputs, strict=True)]
            # The last level has one reader: the driver.
            width = (*level.widths, 1)[number + 1]
            inputs = [[row for attempts in outputs for row in self._read(attempts, slot)] for slot in range(width)]
        return EpochOutcome.of_rows((row.kind, row.payload) for row in inputs[0])

    def _run_task(self, task: _Task, rows: list[ExchangeRow]) -> list[list[ExchangeRow]]:
        """Return the outputs that readers may get: one, or those of two attempts."""
        if self._cancelled.is_set():
            self._cancelled.clear()
            raise EpochCancelledError(task.plan.checkpoint_id)
        if self._happens(self.chaos.losses):
            raise EpochInfrastructureError("an executor was lost (simulated)")
        if self._happens(self.chaos.mixtures):
            return [self._attempt(task, rows) for _ in range(2)]
        if self._happens(self.chaos.retries):
            self._attempt(task, rows)
        return [self._attempt(task, rows)]

    def _attempt(self, task: _Task, rows: list[ExchangeRow]) -> list[ExchangeRow]:
        number = self._random.randrange(len(self.workers))
        job, options = encode(task.plan.job), task.plan.storage_options
        batches, worker = iter([record_batch(rows)]), self.workers[number]
        if task.plan.state_directory is not None:
            worker.state_directory = task.plan.state_directory / f"host-{number % self._hosts}"
        place = task.level, task.slot
        run = run_level(job, task.dispatches, place, batches, cache=worker, storage_options=options)
        output = list(rows_of(run))
        self._tasks_done += 1
        return output

    def _read(self, attempts: list[list[ExchangeRow]], slot: int) -> list[ExchangeRow]:
        """Return the part of a task's output for one slot of the next level."""
        return [row for row in self._random.choice(attempts) if row.slot == slot]

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self._random.random() < probability


def _pass(clock: ManualClock, by_ms: float) -> None:
    clock.advance(ceil(by_ms))
