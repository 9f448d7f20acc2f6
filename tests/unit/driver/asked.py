"""A run with requests for savepoints, and faults that may prevent them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.world import World, numbers_job

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock.errors import SavepointError

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.driver.loop import JobLoop
    from penstock._engine.protocol.metadata import ChainEntryKind

ALL = dict.fromkeys(range(40), 1)
STOPS = pytest.mark.parametrize("stop", [StopMode.SUSPEND, StopMode.DRAIN])
_names = itertools.count()


def new_name() -> str:
    """Return a name that no other run has."""
    return f"savepoints-{next(_names)}"


class Asked:
    """A run with requests for savepoints while certain epochs begin."""

    def __init__(
        self,
        name: str,
        directory: Path,
        world: World | None = None,
        *,
        checkpoints: str | None = "",
        **settings: str,
    ) -> None:
        self.world = world or World(numbers_job(name), patience=3)
        settings = {"savepoints": str(directory / "savepoints"), **settings}
        if checkpoints is not None:
            settings = {"interval": "1 s", **settings}
            checkpoints = checkpoints or str(directory / "checkpoints")
        self.driver, self.loop = self.world.driver(checkpoints, **settings)
        self.answers: list[Future[str]] = []
        #: How long a stop may take.
        self.timeout_ms: int | None = None
        self.steps: list[do.Instruction] = []
        self.asks: dict[int, list[StopMode]] = {}
        self._perform = self.loop.perform
        self.loop.perform = self._watched  # type: ignore[method-assign]

    def _watched(self, instruction: do.Instruction) -> None:
        self.steps.append(instruction)
        if isinstance(instruction, do.RunEpoch):
            for stop in self.asks.get(len(self.epochs), []):
                self.answers.append(self.driver.savepoint(None, stop, self.timeout_ms))
        self._perform(instruction)

    def run(self, asks: dict[int, list[StopMode]]) -> Asked:
        """Run the job; asks are the savepoints to ask for, by the number of the epoch that begins then."""
        self.asks = asks
        self.driver.run(self.loop)
        return self

    @property
    def epochs(self) -> list[do.RunEpoch]:
        return [step for step in self.steps if isinstance(step, do.RunEpoch)]

    @property
    def path(self) -> str:
        return self.answers[0].result(0)

    @property
    def error(self) -> SavepointError:
        error = self.answers[0].exception(0)
        assert isinstance(error, SavepointError)
        return error

    @property
    def kinds(self) -> list[ChainEntryKind]:
        return [step.entry.kind for step in self.steps if isinstance(step, do.PutChainEntry)]


def resumed(name: str, directory: Path, path: str) -> JobDriver:
    world = World(numbers_job(name), patience=3)
    driver, loop = world.driver(str(directory / "resumed"), recover=path)
    driver.run(loop)
    return driver


class Unwritable:
    """Lets a savepoint not be written, some times in a row, or a stop's savepoint not get its name."""

    def __init__(self, loop: JobLoop, *, name: bool = False, times: int = 1) -> None:
        self.times = times
        kind = do.CompleteSavepoint if name else do.WriteSavepoint
        self.write = loop._handlers[kind]
        loop._handlers[kind] = self

    def __call__(self, instruction: Any) -> ev.Event | None:
        if self.times:
            self.times -= 1
            return ev.SavepointFailed(instruction.path, OSError("disk full"))
        return self.write(instruction)
