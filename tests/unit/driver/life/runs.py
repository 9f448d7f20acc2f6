"""Runs of a job in a world of its own, with the list of its instructions."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from tests.kit.world import TARGETS, TargetCommitter, TargetSink, World, numbers_job

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import TaskFailure

if TYPE_CHECKING:
    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.driver.loop import JobLoop
    from penstock._engine.plan.epoch_plan import EpochOutcome


InstructionT = TypeVar("InstructionT")

JOB_ID = "0123456789abcdef" * 2
ALL = dict.fromkeys(range(40), 1)


def start(name: str, world: World, **settings: str) -> tuple[JobDriver, JobLoop, list[do.Instruction]]:
    """Return a driver, its loop, and the list that its instructions go to."""
    driver, loop = world.driver(f"memory://{name}", **settings)
    seen: list[do.Instruction] = []
    perform = loop.perform

    def watched(instruction: do.Instruction) -> None:
        seen.append(instruction)
        perform(instruction)

    loop.perform = watched
    return driver, loop, seen


def run(name: str, world: World, **settings: str) -> tuple[JobDriver, list[do.Instruction]]:
    driver, loop, seen = start(name, world, **settings)
    driver.run(loop)
    return driver, seen


def of(kind: type[InstructionT], seen: list[do.Instruction]) -> list[InstructionT]:
    return [instruction for instruction in seen if isinstance(instruction, kind)]


def failure(error: Exception) -> TaskFailure:
    return TaskFailure(
        "ratio", "ratio-1", 1, 0, "prices.py:12", "(7, 0)", repr(error), "Traceback…", pickle.dumps(error)
    )


def failing(outcome: EpochOutcome, error: Exception | None = None) -> EpochOutcome:
    return replace(outcome, acks=(), failures=(failure(error or ZeroDivisionError("division by zero")),))


def statuses(seen: list[do.Instruction]) -> list[str]:
    return [instruction.status.name for instruction in of(do.ChangeStatus, seen)]


def cancel_at(loop: JobLoop, position: int, *, before: bool = False) -> None:
    perform, steps = loop.perform, itertools.count()

    def watched(instruction: do.Instruction) -> None:
        perform(instruction)
        if next(steps) == position:
            loop._mailbox.post(ev.CancelRequested())

    loop.perform = watched


class Moody(TargetSink):
    """A sink whose committer does what a list says, call by call, and then what is right."""

    def __init__(self, target: str, moods: list[str]) -> None:
        super().__init__(target)
        self.moods = moods

    def create_committer(self, context: Any) -> TargetCommitter:
        return MoodyCommitter(TARGETS.setdefault(self.target, {}), list(self.moods))


class MoodyCommitter(TargetCommitter):
    def __init__(self, published: dict[str, tuple[int, ...]], moods: list[str]) -> None:
        super().__init__(published)
        self.moods = moods

    def commit(self, requests: Any) -> None:
        mood = self.moods.pop(0) if self.moods else "well"
        if mood == "raise before":
            raise OSError("the target is gone")
        for request in requests:
            if mood == "later":
                request.retry_later()
            elif mood == "known":
                request.signal_failed_with_known_reason(ValueError("too old"))
            elif mood == "unknown":
                request.signal_failed_with_unknown_reason(ValueError("why"))
            else:
                super().commit([request])
        if mood == "raise":
            raise OSError("the target is gone")


def moody(name: str, *moods: str) -> World:
    return World(numbers_job(name, sink=Moody(name, list(moods)), writers=1), patience=3)
