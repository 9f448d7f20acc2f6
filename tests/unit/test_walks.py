"""The walks in docs/architecture.md are those that the program takes, file by file."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.world import World, numbers_job
from tests.unit.rest.test_real_driver import Steered

import penstock
from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

ROOT = Path(__file__).parents[2]
SOURCE = f"{Path(penstock.__file__).parent}/"
#: The most files of the engine that a checkpoint, and a stop beside it, may enter.
MOST_OF_A_CHECKPOINT = 22
MOST_OF_A_STOP = 20


class Trace:
    """Notes the files of Penstock whose functions are called, while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.files: set[str] = set()
        #: Files that called a function of the job's coordinator.
        self.into_the_coordinator: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        name = _file(frame)
        if not self.on or event != "call" or name is None:
            return
        self.files.add(name)
        caller = frame.f_back
        while caller is not None and _file(caller) is None:
            caller = caller.f_back
        if name == "coordinator/job" and caller is not None:
            self.into_the_coordinator.add(str(_file(caller)))

    @contextmanager
    def paused(self) -> Iterator[None]:
        on, self.on = self.on, False
        yield
        self.on = on


def _file(frame: FrameType) -> str | None:
    path = frame.f_code.co_filename
    if not path.startswith(SOURCE):
        return None
    return path.removeprefix(SOURCE).removeprefix("_engine/").removesuffix(".py")


@pytest.fixture
def trace() -> Iterator[Trace]:
    """A trace of this thread, which is on when a test says so."""
    before, trace = sys.getprofile(), Trace()
    sys.setprofile(trace)
    yield trace
    sys.setprofile(before)


def without_tasks(world: World, trace: Trace) -> None:
    """Leave out what the world does in place of Spark."""
    outcome = world._outcome

    def traced(epoch: Any) -> Any:
        with trace.paused():
            return outcome(epoch)

    world._outcome = traced  # type: ignore[method-assign]


def listed(title: str) -> tuple[list[str], set[str]]:
    """Return a walk as the docs have it: the engine's files in their order, and those outside of the walk."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = re.split(r"^##", text.split(f"### {title}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]
    steps = [name for line in re.findall(r"^\d+\. (.*?):", section, re.MULTILINE) for name in _names(line)]
    outside = {name for line in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in _names(line)}
    return steps, outside


def check(files: set[str], title: str, most: int) -> None:
    """Compare the files that were entered with those of the docs."""
    steps, outside = listed(title)
    engine = {name for name in files if _is_counted(name)}
    assert set(steps) == engine
    assert outside == files - engine
    assert len(steps) == len(engine) <= most


def _is_counted(name: str) -> bool:
    """Whether a file counts: all of the engine do but formats, whatever they are entered for."""
    return (Path(SOURCE) / "_engine" / f"{name}.py").exists() and not name.startswith("protocol/")


def _names(text: str) -> list[str]:
    return re.findall(r"`([a-z_0-9/]+)`", text)


def test_a_checkpoint_commits(tmp_path: Path, trace: Trace) -> None:
    world = World(numbers_job("walk"), patience=3)
    without_tasks(world, trace)
    driver, loop = world.driver(str(tmp_path), interval="1 s")
    handle, perform, epochs = loop.coordinator.handle, loop.perform, 0

    def handled(event: ev.Event, now: Any) -> list[do.Instruction]:
        nonlocal epochs
        epochs += isinstance(event, ev.EpochEnded)
        trace.on = trace.on or (epochs == 2 and isinstance(event, (ev.EpochEnded, ev.Committed, ev.OutputsDelivered)))
        return handle(event, now)

    def performed(instruction: do.Instruction) -> None:
        if isinstance(instruction, do.RunEpoch):
            trace.on = False
        perform(instruction)

    loop.coordinator.handle = handled  # type: ignore[method-assign]
    loop.perform = performed  # type: ignore[method-assign]
    driver.run(loop)
    check(trace.files, "A checkpoint commits", MOST_OF_A_CHECKPOINT)
    assert trace.into_the_coordinator == {"coordinator/job", "driver/loop", "driver/monitor/job_monitor"}


def test_a_stop_by_rest(tmp_path: Path, trace: Trace) -> None:
    run = Steered(tmp_path)
    without_tasks(run.world, trace)

    def stop() -> str:
        trace.on = True
        return run.post("stop")

    run.run({2: stop})
    trace.on = False
    steps, outside = listed("A checkpoint commits")
    check(trace.files - {*steps, *outside}, "A stop by REST", MOST_OF_A_STOP)
