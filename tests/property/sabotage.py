"""Gets in the way of drivers: what goes wrong with the instructions of one, and who asks it for what."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.kit.driving import CrashError
from tests.kit.world import TARGETS, TargetCommitter, TargetSink

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import TaskFailure
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.storage.opening import open_storage
from penstock.common.job_status import JobStatus
from penstock.errors import CheckpointStorageError, EpochInfrastructureError, StopIncompleteError

if TYPE_CHECKING:
    from penstock._engine.driver.loop import JobLoop
    from penstock._engine.plan.epoch_plan import EpochOutcome
    from penstock._engine.protocol.metadata import ChainEntry

#: No job of so few records takes more of them, whatever goes wrong.
MOST_STEPS: Final = 5_000
#: The statuses that may follow each other, as users of Flink know them; the last ones have none behind them.
STATUS_MOVES: Final = {
    JobStatus.INITIALIZING: "CREATED FINISHED FAILED CANCELED SUSPENDED",
    JobStatus.CREATED: "RUNNING RESTARTING FAILING CANCELLING",
    JobStatus.RUNNING: "FINISHED CANCELLING FAILING RESTARTING SUSPENDED",
    JobStatus.RESTARTING: "RUNNING CANCELLING SUSPENDED",
    JobStatus.FAILING: "FAILED CANCELLING SUSPENDED",
    JobStatus.CANCELLING: "CANCELED SUSPENDED",
}


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
        last = max(map(checkpoint_of, self.published), default=0)
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


def checkpoint_of(committable: str) -> int:
    """Return the checkpoint that a committable of the world's sink is of, by its name."""
    return int(committable.split("-")[1])


def lost(_: EpochOutcome) -> EpochOutcome:
    raise EpochInfrastructureError("an executor is gone")


def failed(_: EpochOutcome) -> EpochOutcome:
    failure = TaskFailure("map", "map", 1, 0, "job.py:3", "7", "ValueError: bad", "Traceback", None)
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


class Lines:
    """What a sink holds along the line of checkpoints that a job stems from.

    A start from an older checkpoint forks off. Users who do that remove the output that was published after it from the
    target; here, that happens with the claim.

    Args:
        target: The world's target.
    """

    def __init__(self, target: str) -> None:
        self._published = TARGETS.setdefault(target, {})
        self._ever: dict[str, tuple[int, ...]] = {}
        #: By checkpoint: it and all those before it.
        self._lines: dict[int, frozenset[int]] = {0: frozenset()}

    def stored(self, record: ChainEntry) -> None:
        """Note a record that is on the chain."""
        line = self._lines[record.parent.checkpoint_id if record.parent else 0]
        if record.kind is ChainEntryKind.CHECKPOINT:
            self._lines[record.checkpoint_id] = line | {record.checkpoint_id}
        elif record.kind is ChainEntryKind.TAKEOVER:
            self._ever.update(self._published)
            self._published.clear()
            self._published.update({name: self._ever[name] for name in self._ever if checkpoint_of(name) in line})


@dataclass
class Saboteur:
    """Gets in the way of a driver's steps, and checks the rules after each of them."""

    loop: JobLoop
    directory: str
    lines: Lines
    chance: Random
    crash_at: int | None
    cancel_at: int | None
    #: Requests for savepoints, by the step.
    asks: dict[int, do.SavepointRequest]
    #: The steps with a request for a checkpoint.
    checkpoints: frozenset[int]
    #: The steps at which an instruction fails that the job waits for, or else something that answers none.
    failures: frozenset[int]
    #: The requests for a savepoint, and for a checkpoint, that the coordinator got, and how often each was answered.
    requests: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    #: The savepoints that are said to be complete.
    savepoints: list[str] = field(default_factory=list)
    #: Those that are said not to be.
    refused: list[str] = field(default_factory=list)
    #: Those whose place takes nothing any more.
    gone: set[str] = field(default_factory=set)
    claimed: bool = False
    #: By subtask: the last completed checkpoint that it took part in since the start or restart.
    last: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    status: JobStatus | None = None
    steps: int = 0

    def __post_init__(self) -> None:
        self.storage = open_storage(self.directory)
        self.perform = self.loop.perform
        self.loop.perform = self.sabotage  # type: ignore[method-assign]
        self.monitored = self.loop._watch.on_event
        self.loop._watch.on_event = self.on_event  # type: ignore[method-assign]

    def on_event(self, event: ev.Event) -> None:
        """Note a request to the coordinator."""
        self.monitored(event)
        match event:
            case ev.SavepointRequested(request):
                self.requests.add(("savepoint", request.id))
            case ev.CheckpointRequested(id):
                self.requests.add(("checkpoint", id))
            case _:
                pass

    def sabotage(self, instruction: do.Instruction) -> None:
        self.loop.coordinator.validate()
        self.steps += 1
        assert self.steps < MOST_STEPS, "the job does not come to its end"
        if self.steps == self.crash_at:
            raise CrashError
        self._ask()
        match instruction:
            case do.AnswerCheckpoint() | do.AnswerSavepoint():
                self._answered(instruction)
                return
            case do.WriteSavepoint() | do.CompleteSavepoint() if self._fails(instruction):
                error = CheckpointStorageError("memory://", "full")
                self.loop._mailbox.post(ev.SavepointFailed(instruction.path, error))
                return
            case do.ChangeStatus():
                self._status_changed(instruction.status)
            case do.PublishProgress(progress, acks, _):
                self.last |= {(ack.vertex, ack.subtask): progress.checkpoint_id for ack in acks}
            case do.RunEpoch():
                self._check_state(instruction)
            case do.PutChainEntry():
                self._put(instruction)
                return
            case _ if self.steps in self.failures:
                error = CheckpointStorageError("memory://", "the line is dead")
                if isinstance(instruction, do.ANSWERED):
                    self.loop._mailbox.post(ev.InstructionFailed(error))
                    return
                self.loop._mailbox.post(ev.DriverFailed(error))
            case _:
                pass
        self.perform(instruction)

    def _fails(self, instruction: do.WriteSavepoint | do.CompleteSavepoint) -> bool:
        """Tell whether the place of a savepoint fails at a write; it may lose what is there, or be gone for good."""
        if self.chance.random() < 0.2 and isinstance(instruction, do.CompleteSavepoint):
            shutil.rmtree(instruction.path, ignore_errors=True)
        if self.chance.random() < 0.1:
            self.gone.add(instruction.path)
        return instruction.path in self.gone or self.chance.random() < 0.15

    def _status_changed(self, status: JobStatus) -> None:
        first = status is JobStatus.INITIALIZING and self.status is None
        assert first or status.name in STATUS_MOVES.get(self.status, "").split(), (self.status, status)
        self.status = status
        if status is JobStatus.RUNNING:
            self.last.clear()

    def _answered(self, instruction: do.AnswerCheckpoint | do.AnswerSavepoint) -> None:
        if isinstance(instruction, do.AnswerCheckpoint):
            self.answers["checkpoint", instruction.request_id] += 1
            assert instruction.checkpoint_id or instruction.error
            return
        self.answers["savepoint", instruction.request.id] += 1
        path = instruction.request.path
        if instruction.error is None:
            self.savepoints.append(path)
        elif isinstance(instruction.error, StopIncompleteError):
            assert Path(path, "_metadata").is_file(), "said to be complete"
        else:
            self.refused.append(path)

    def _put(self, instruction: do.PutChainEntry) -> None:
        """Put a record; its answer may be lost, and it with that."""
        answer = ev.ChainEntryUncertain(CheckpointStorageError("memory://", "the line is dead"))
        is_lost = self.chance.random() < 0.15
        if not is_lost or self.chance.random() < 0.5:
            stored = self.loop._handlers[do.PutChainEntry](instruction)
            if isinstance(stored, ev.ChainEntryStored):
                self.lines.stored(instruction.entry)
                self.claimed = True
            answer = answer if is_lost else stored
        self.loop._mailbox.post(answer)

    def _check_state(self, instruction: do.RunEpoch) -> None:
        """Look whether all files are there that an epoch starts from."""
        for dispatch in instruction.dispatches.values():
            for part in dispatch.operators.values():
                for handle in part.lineage:
                    assert handle.path is None or self.storage.find(handle.path) is not None, handle.path

    def _ask(self) -> None:
        """Make the requests of this step."""
        if self.steps == self.cancel_at:
            self.loop._mailbox.post(ev.CancelRequested())
        if self.steps in self.asks:
            self.loop._mailbox.post(ev.SavepointRequested(self.asks[self.steps]))
        if self.steps in self.checkpoints:
            self.loop._mailbox.post(ev.CheckpointRequested(self.steps))
