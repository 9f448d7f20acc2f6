"""A job with its real driver: what runs its epochs in this process, and what looks at its steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from tests.kit.clock import CLOCK, Threads, measure_by_the_clock, wait
from tests.kit.exchange import with_exchange

from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.assembly import RuntimeEnvironment, assemble
from penstock._engine.driver.mailbox import SystemClock
from penstock._engine.graph.chaining import build_job_graph
from penstock.common.configuration import Configuration
from penstock.common.interrupts import _Noted
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.driver.loop import JobLoop
    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.plan.epoch_plan import EpochOutcome, EpochPlan
    from penstock._engine.protocol.control import SubtaskAck
    from penstock.datastream import StreamExecutionEnvironment

InstructionT = TypeVar("InstructionT")


class CrashError(KeyboardInterrupt):
    """Stands for SIGKILL: nothing may catch it."""

    def __init__(self) -> None:
        super().__init__()
        _Noted.came = True  # as Ctrl-C, which no guard takes for an error of user code


class EnoughError(Exception):
    """The test has seen all epochs that it wants to see."""


def shares(plan: EpochPlan, records: int) -> EpochPlan:
    """Return an epoch in which each source subtask reads so many records, whatever time and bytes they take."""
    first, *others = plan.levels
    time_ms = 40 if first.pipelined else 600_000  # it reads all that time, where there is nothing as well
    slots = tuple(
        tuple(replace(part, max_records=records, max_bytes=1 << 30, max_time_ms=time_ms) for part in slot)
        for slot in first.slots
    )
    return replace(plan, levels=(replace(first, slots=slots), *others))


class Epochs(InProcessEpochRunner):
    """Runs epochs on the clock of the tests, and notes what they were.

    Args:
        records: What each source subtask reads in an epoch; by default what its budget says.
        most: After so many epochs the job is broken off.
        fixed_ms: What an epoch takes beside its records.
        options: Those of the runner.
    """

    def __init__(self, records: int | None = None, most: int | None = None, fixed_ms: int = 0, **options: Any) -> None:
        super().__init__(**{"clock": CLOCK.now_ms, "passed": CLOCK.passed_ms, "sleep": wait, **options})
        self._records, self._most, self._fixed_ms = records, most, fixed_ms
        self.plans: list[EpochPlan] = []
        self.lengths_ms: list[int] = []
        self.acks: list[tuple[SubtaskAck, ...]] = []

    def run(self, plan: EpochPlan) -> EpochOutcome:
        if len(self.plans) == self._most:
            raise EnoughError
        self.plans.append(plan)
        start_ms = CLOCK.passed_ms()
        CLOCK.advance(self._fixed_ms)
        outcome = super().run(plan if self._records is None else shares(plan, self._records))
        self.lengths_ms.append(CLOCK.passed_ms() - start_ms)
        self.acks.append(outcome.acks)
        return outcome

    def records(self, vertex: int) -> list[int]:
        """Return how many records a vertex took in each epoch."""
        return [sum(ack.io.records_in for ack in acks if ack.vertex == vertex) for acks in self.acks]


def assembled(
    graph: JobGraph,
    configuration: Configuration,
    place: Path,
    runner: Any,
    threads: Any = None,
    *,
    slots: int = 2,
    modules: tuple[str, ...] = (),
) -> tuple[JobDriver, JobLoop]:
    """Return the driver of a job and its loop.

    Args:
        graph: The job.
        configuration: Its settings.
        place: Where its subtasks have their local state.
        runner: Runs its epochs.
        threads: Time and threads of the driver, those of tests by default; a system's clock stands for real threads.
        slots: How many tasks run side by side.
        modules: Where tasks find modules of tests.
    """
    threads = threads or Threads()
    background = None if isinstance(threads, SystemClock) else threads
    environment = RuntimeEnvironment(runner, slots, place, modules, threads, background)
    return assemble(graph, with_exchange(configuration), None, environment)


class Driven:
    """One job with its driver: each step is noted, and what watches is called before it.

    Args:
        env: The environment that the job was built in.
        place: Where its subtasks have their local state.
        runner: Runs its epochs.
        threads: Time and threads of its driver.
        name: The job's.
        options: Those of ``assembled``.
    """

    def __init__(
        self,
        env: StreamExecutionEnvironment,
        place: Path,
        runner: Any = None,
        threads: Any = None,
        *,
        name: str = "test",
        **options: Any,
    ) -> None:
        self.graph, self.runner = build_job_graph(env._stream_graph(name)), runner or Epochs()
        configuration = Configuration(env._configuration)
        self.driver, self.loop = assembled(self.graph, configuration, place, self.runner, threads, **options)
        self.steps: list[do.Instruction] = []
        #: Called before each step.
        self.watchers: list[Callable[[do.Instruction], None]] = []
        #: Performs a step; another may take its place.
        self.perform = self.loop.perform
        self.loop.perform = self._step  # type: ignore[method-assign]

    def _step(self, instruction: do.Instruction) -> None:
        self.steps.append(instruction)
        for watcher in self.watchers:
            watcher(instruction)
        self.perform(instruction)

    def at_epoch(self, number: int, act: Callable[[], object]) -> None:
        """Do something when an epoch begins, counted from one."""

        def look(instruction: do.Instruction) -> None:
            if isinstance(instruction, do.RunEpoch) and len(self.of(do.RunEpoch)) == number:
                act()

        self.watchers.append(look)

    def of(self, kind: type[InstructionT]) -> list[InstructionT]:
        """Return the steps of one kind."""
        return [step for step in self.steps if isinstance(step, kind)]

    def run(self) -> None:
        """Run the job to its end; a driver that is killed on the way closes nothing."""
        self.driver.run(self.loop)
        self.runner.close()


def run_on_the_clock(
    env: StreamExecutionEnvironment,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    most_epochs: int,
    fixed_ms: int = 300,
    slots: int = 2,
) -> Epochs:
    """Run a job to its end, or for some epochs; return what was seen of them."""
    measure_by_the_clock(monkeypatch)
    runner = Epochs(None, most_epochs, fixed_ms)
    driven = Driven(env, place / "state", runner, slots=slots)
    driven.run()
    error = driven.driver.result.exception()
    if error is not None and not isinstance(error.__cause__, EnoughError):
        raise error
    return runner
