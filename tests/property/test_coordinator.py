"""Whatever goes wrong and in whatever order, the coordinator keeps its rules and the output is right in the end."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.driver.world import TARGETS, TargetCommitter, TargetSink, World, numbers_job, published

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.phases import STATUS_MOVES
from penstock._engine.protocol.control import Failure, Stop
from penstock.common.job_status import JobStatus
from penstock.errors import CheckpointStorageError, EpochInfrastructureError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock._engine.driver.loop import JobLoop
    from penstock._engine.plan.epoch_plan import EpochOutcome

LIMIT = 24
_names = count()


class CrashError(BaseException):
    """Stands for SIGKILL."""


class UnreliableSink(TargetSink):
    """A sink whose commits sometimes fail, or are put off, before or after they are done."""

    def __init__(self, target: str, seed: int) -> None:
        super().__init__(target)
        self.seed = seed

    def create_committer(self, context: Any) -> UnreliableCommitter:
        return UnreliableCommitter(TARGETS.setdefault(self.target, {}), Random(self.seed))


class UnreliableCommitter(TargetCommitter):
    def __init__(self, published: dict[str, tuple[int, ...]], chance: Random) -> None:
        super().__init__(published)
        self.chance = chance

    def commit(self, requests: Any) -> None:
        last = max((int(name.split("-")[1]) for name in self.published), default=0)
        # A recovery commits again what is not known to be committed, also behind what came later: as the same things.
        fresh = [request for request in requests if request.get_committable()[0] not in self.published]
        assert all(request.checkpoint_id >= last for request in fresh), "an older checkpoint after a newer one"
        mood = self.chance.random()
        if mood < 0.1:
            raise ConnectionError("before")
        for request in requests:
            if self.chance.random() < 0.2:
                request.retry_later()
            else:
                super().commit([request])
        if mood > 0.9:
            raise ConnectionError("after")


def lost(_: EpochOutcome) -> EpochOutcome:
    raise EpochInfrastructureError("an executor is gone")


def failed(_: EpochOutcome) -> EpochOutcome:
    failure = Failure("map", "map", 1, 0, "job.py:3", "7", "ValueError: bad", "Traceback", None)
    return replace(_, acks=(), failures=(failure,))


def torn(outcome: EpochOutcome) -> EpochOutcome:
    """One subtask read an attempt of its sender that is not the one that answered."""
    if not outcome.acks:  # it had notices alone
        return outcome
    first, *rest = outcome.acks
    return replace(outcome, acks=(replace(first, token=first.token + 1_000_000), *rest))


def doubled(outcome: EpochOutcome) -> EpochOutcome:
    return replace(outcome, acks=(*outcome.acks, *outcome.acks[:1]))


def missing(outcome: EpochOutcome) -> EpochOutcome:
    return replace(outcome, acks=outcome.acks[1:])


TROUBLES = st.dictionaries(st.integers(1, 15), st.sampled_from([lost, failed, torn, doubled, missing]), max_size=5)
#: Savepoints that somebody asks for, by the driver's step.
ASKS = st.dictionaries(st.integers(10, 120), st.sampled_from(list(Stop)), max_size=3)
#: Checkpoints that somebody asks for, by the driver's step.
CHECKPOINTS = st.frozensets(st.integers(10, 120), max_size=3)
#: Epochs that come to no end before somebody gives them up.
STUCK = st.frozensets(st.integers(1, 20), max_size=4)


class Saboteur:
    """Gets in the way of a driver's steps, and checks the rules after each of them."""

    def __init__(self, loop: JobLoop, seed: int, crash_at: int | None, cancel_at: int | None) -> None:
        self.loop = loop
        self.chance = Random(seed)
        self.crash_at, self.cancel_at = crash_at, cancel_at
        #: Savepoints that somebody asks for, by the step.
        self.asks: dict[int, do.SavepointRequest] = {}
        self.answered: list[int] = []
        #: The same for checkpoints, which are asked for by the number of the step.
        self.checkpoints: frozenset[int] = frozenset()
        self.checkpoint_answers: list[do.AnswerCheckpoint] = []
        #: By subtask: the last completed checkpoint that it took part in since the start or restart.
        self.last: dict[tuple[int, int], int] = {}
        self.steps = 0
        self.status = JobStatus.INITIALIZING
        self.perform = loop.perform
        loop.perform = self.sabotage  # type: ignore[method-assign]

    def sabotage(self, instruction: do.Instruction) -> None:
        self.loop.coordinator.validate()
        self.steps += 1
        if self.steps == self.crash_at:
            raise CrashError
        self._ask()
        if isinstance(instruction, do.AnswerCheckpoint):
            self.checkpoint_answers.append(instruction)
            return
        if isinstance(instruction, do.AnswerSavepoint):
            self.answered.append(instruction.request.id)
            return
        if isinstance(instruction, do.WriteSavepoint) and self.chance.random() < 0.2:
            self.loop._mailbox.post(ev.SavepointFailed(instruction.path, CheckpointStorageError("memory://", "full")))
            return
        if isinstance(instruction, do.ChangeStatus) and instruction.status is not self.status:
            assert instruction.status in STATUS_MOVES[self.status], (self.status, instruction.status)
            self.status = instruction.status
            if instruction.status is JobStatus.RUNNING:
                self.last.clear()
        if isinstance(instruction, do.Publish):
            self.last |= {(ack.vertex, ack.subtask): instruction.progress.checkpoint_id for ack in instruction.acks}
        if isinstance(instruction, do.PutRecord) and self.chance.random() < 0.15:
            if self.chance.random() < 0.5:  # it arrives, but its answer is lost
                self.loop._handlers[do.PutRecord](instruction)
            self.loop._mailbox.post(ev.RecordUncertain(CheckpointStorageError("memory://", "the line is dead")))
            return
        self.perform(instruction)

    def _ask(self) -> None:
        """Ask for what somebody asks for at this step."""
        if self.steps == self.cancel_at:
            self.loop._mailbox.post(ev.CancelRequested())
        if self.steps in self.asks:
            self.loop._mailbox.post(ev.SavepointRequested(self.asks[self.steps]))
        if self.steps in self.checkpoints:
            self.loop._mailbox.post(ev.CheckpointRequested(self.steps))


@pytest.fixture(autouse=True)
def nothing_is_logged() -> Iterator[None]:
    """Keep thousands of expected failures with their tracebacks out of pytest's log, which has them all in memory."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def savepoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("savepoints")


@settings(max_examples=150, deadline=None)
@given(data=st.data(), seed=st.integers(0, 1_000_000))
@pytest.mark.behaviour(170)
def test_any_troubles_and_crashes_leave_the_right_output(savepoints: Path, data: st.DataObject, seed: int) -> None:
    name = f"property-{next(_names)}"
    drained = False
    for _ in range(data.draw(st.integers(1, 4))):
        graph = numbers_job(name, limit=LIMIT, split_size=4, sink=UnreliableSink(name, seed))
        trouble, stuck, listens = data.draw(TROUBLES), data.draw(STUCK), data.draw(st.booleans())
        world = World(graph, Random(seed), patience=3, trouble=trouble, stuck=stuck, listens=listens)
        tolerable = str(data.draw(st.integers(0, 2)))
        driver, loop = world.driver(
            f"memory://{name}", interval="1 s", recover="latest", timeout="1 min", tolerable=tolerable
        )
        stops = st.none() | st.integers(1, 150)
        saboteur = Saboteur(loop, seed, crash_at=data.draw(stops), cancel_at=data.draw(stops))
        for step, stop in data.draw(ASKS).items():
            number = next(_names)
            drained = drained or stop is Stop.DRAIN
            saboteur.asks[step] = do.SavepointRequest(number, f"{savepoints}/savepoint-{number}", stop)
        saboteur.checkpoints = data.draw(CHECKPOINTS)
        try:
            driver.run(loop)
        except CrashError:
            continue
        loop.coordinator.validate()
        answered = [answer.request_id for answer in saboteur.checkpoint_answers]
        assert len(set(answered)) == len(answered), "a request for a checkpoint got two answers"
        assert all(answer.checkpoint_id or answer.error for answer in saboteur.checkpoint_answers)
        assert len(set(saboteur.answered)) == len(saboteur.answered), "a request got two answers"
        if driver.status is JobStatus.FAILED:
            break
        assert driver.status in {JobStatus.FINISHED, JobStatus.CANCELED}
        assert all(told == sorted(told) for told in world.told.values())
        if listens and driver.status is JobStatus.FINISHED:
            assert saboteur.last == {subtask: world.told[subtask][-1] for subtask in saboteur.last}

    seen = published(name)
    assert all(times == 1 for times in seen.values())
    for _ in range(2):  # the first one may only bring a stop to its end
        world = World(numbers_job(name, limit=LIMIT, split_size=4))
        driver, loop = world.driver(f"memory://{name}", interval="1 s", recover="latest")
        driver.run(loop)
    if driver.status is JobStatus.FAILED:  # cancelled before there was a checkpoint: latest has nothing to go on from
        assert "before its first checkpoint" in str(driver.result.exception())
        assert not seen
    elif drained:  # then it may have ended before all was read
        assert all(times == 1 for times in published(name).values())
    else:
        assert published(name) == Counter(range(LIMIT))
