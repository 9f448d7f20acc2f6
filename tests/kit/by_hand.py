"""Runs jobs in this process, with real operators and a time that only moves when somebody says so."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from penstock._engine.driver.assembly import RuntimeEnvironment, assemble
from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.protocol.clocks import Moment
from penstock.common.configuration import Configuration
from penstock.testing.clock import ManualClock
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from penstock._engine.plan.epoch_plan import EpochOutcome, EpochPlan
    from penstock._engine.protocol.control import SubtaskAck
    from penstock.datastream import StreamExecutionEnvironment

#: The time of all that runs here; functions of a job name it by this module, so that they turn this one.
CLOCK = ManualClock(1_000_000)


def wait(duration_ms: float) -> None:
    """Let time pass while a source waits for input."""
    CLOCK.advance(math.ceil(duration_ms))


class EnoughError(Exception):
    """The test has seen all epochs that it wants to see."""


class Runner(InProcessEpochRunner):
    """Takes note of all epochs, and breaks the job off after some.

    Args:
        most_epochs: After how many.
        fixed_ms: What an epoch takes beside its records.
    """

    def __init__(self, most_epochs: int, fixed_ms: int) -> None:
        super().__init__(clock=CLOCK.now_ms, passed=CLOCK.passed_ms, sleep=wait)
        self._most_epochs, self._fixed_ms = most_epochs, fixed_ms
        self.plans: list[EpochPlan] = []
        self.lengths_ms: list[int] = []
        self.acks: list[tuple[SubtaskAck, ...]] = []

    def run(self, plan: EpochPlan) -> EpochOutcome:
        if len(self.plans) == self._most_epochs:
            raise EnoughError
        self.plans.append(plan)
        start_ms = CLOCK.passed_ms()
        CLOCK.advance(self._fixed_ms)
        outcome = super().run(plan)
        self.lengths_ms.append(CLOCK.passed_ms() - start_ms)
        self.acks.append(outcome.acks)
        return outcome

    def records(self, vertex: int) -> list[int]:
        """Return how many records a vertex took in each epoch."""
        return [sum(ack.records_in for ack in acks if ack.vertex == vertex) for acks in self.acks]


class Threads:
    """Clock and threads of a driver: what is to run beside the loop runs when the loop waits."""

    def __init__(self) -> None:
        self._work: list[Any] = []

    def now(self) -> Moment:
        return Moment(CLOCK.now_ms(), CLOCK.passed_ms())

    def receive(self, letters: Any, until_ms: int | None) -> Any:
        while letters.empty():
            if self._work:
                self._work.pop(0)()
            else:
                assert until_ms is not None, "the driver waits for something that nobody will send"
                CLOCK.advance(max(0, until_ms - CLOCK.passed_ms()))
                return None
        return letters.get()

    def run(self, work: Any) -> None:
        self._work.append(work)

    run_epoch = run

    def later(self, delay_ms: int, work: Any) -> None:
        raise AssertionError("nothing here does that")

    def close(self, *, wait: bool) -> None:
        while self._work and wait:
            self._work.pop(0)()
        self._work.clear()


def run(
    env: StreamExecutionEnvironment,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    most_epochs: int,
    fixed_ms: int = 300,
    slots: int = 2,
) -> Runner:
    """Run a job to its end, or for some epochs; return what was seen of them."""
    for name in ("monotonic", "perf_counter"):  # by which operators and subtasks measure how long they take
        monkeypatch.setattr(time, name, lambda: CLOCK.passed_ms() / 1000)
    runner, threads = Runner(most_epochs, fixed_ms), Threads()
    graph = build_job_graph(env._stream_graph("by hand"))
    environment = RuntimeEnvironment(runner, slots, place / "state", (), threads, threads)
    driver, loop = assemble(graph, Configuration(env._configuration), None, environment)
    driver.run(loop)
    error = driver.result.exception()
    runner.close()
    if error is not None and not isinstance(error.__cause__, EnoughError):
        raise error
    return runner
