"""Whole programs without Spark: `execute` and `execute_and_collect` run their jobs in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._engine import launch
from penstock._engine.driver.assembly import RuntimeEnvironment, assemble
from penstock._engine.driver.client.job_client import JobHandle
from penstock.testing.in_process import Chaos, InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.driver.loop import JobLoop
    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.graph.job_graph import JobGraph
    from penstock.common.configuration import Configuration


class Cluster:
    """Runs the jobs of programs; `patch` lets all programs of a test use it.

    Args:
        place: For local state.
        workers: The number of simulated workers.
        chaos: The faults.
        seed: Of what is left to chance.
    """

    def __init__(self, place: Path, *, workers: int = 2, chaos: Chaos | None = None, seed: int = 0) -> None:
        self.place = place
        self.runner = InProcessEpochRunner(workers=workers, chaos=chaos, seed=seed)
        #: The loops of the jobs, and their drivers, in their order.
        self.loops: list[JobLoop] = []
        self.drivers: list[JobDriver] = []

    def submit(
        self,
        graph: JobGraph,
        configuration: Configuration,
        main_classes: bytes | None,
        on_end: Callable[[JobView], None] | None = None,
    ) -> JobHandle:
        """Start a job, as `launch.submit` does."""
        environment = RuntimeEnvironment(self.runner, 2, self.place / "state")
        driver, loop = assemble(graph, configuration, main_classes, environment)
        if on_end is not None:
            driver.watch.on_end.append(on_end)
        self.loops.append(loop)
        self.drivers.append(driver)
        self.watch(loop)
        driver.start(loop)
        return JobHandle(driver)

    def watch(self, loop: JobLoop) -> None:
        """Look at a job before it starts; tests replace it."""

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Take the place of Spark for the programs of a test."""
        monkeypatch.setattr(launch, "submit", self.submit)


def instructions(loop: JobLoop) -> list[Any]:
    """Return a list to which the instructions of a job are added as they are performed."""
    perform, seen = loop.perform, list[Any]()

    def noting(instruction: Any) -> None:
        seen.append(instruction)
        perform(instruction)

    loop.perform = noting  # type: ignore[method-assign]
    return seen
