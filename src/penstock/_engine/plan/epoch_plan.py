"""One epoch as data: the dispatches of its levels, and its outcome. The driver makes it, `spark` runs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from penstock._engine.protocol.control import LogLine, SubtaskAck, TaskFailure, decode
from penstock._engine.protocol.rows import PayloadKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from penstock._engine.protocol.control import JobDispatch, LevelDispatch
    from penstock.errors import TaskRetriedError


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """The dispatch of one epoch, level by level, and the other data that its tasks need; see `dispatches.pack`."""

    checkpoint_id: int
    #: The number of the attempt at this checkpoint, from 1.
    attempt: int
    job: JobDispatch
    levels: tuple[LevelDispatch, ...]
    #: The options of the checkpoint storage. They may contain secrets, so they are not in dispatches, which Spark may
    #: log.
    storage_options: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    #: Stores dispatches that are too large for a property of a Spark job, and returns their path.
    store: Callable[[bytes], str] | None = field(default=None, repr=False)
    #: The directory of local state where tasks run in the driver's process; any other process has its own.
    state_directory: Path | None = None

    @property
    def releases(self) -> bool:
        """Whether it is the last Spark job, which notifies listeners of the last checkpoint and closes functions."""
        return self.levels[0].releases

    def subtasks(self, level: int, slot: int) -> tuple[tuple[int, int], ...]:
        """Return vertex and subtask of what a task runs."""
        return tuple((part.vertex, part.subtask) for part in self.levels[level].slots[slot])


@dataclass(frozen=True, slots=True)
class EpochOutcome:
    """The answers of an epoch's tasks, neither checked nor committed yet."""

    acks: tuple[SubtaskAck, ...]
    #: Errors of user functions; with any, the epoch is void.
    failures: tuple[TaskFailure, ...]
    #: The log lines of user functions.
    log: tuple[LogLine, ...] = ()
    #: What Spark says about tasks of the epoch that it has run again.
    retries: tuple[TaskRetriedError, ...] = ()

    @staticmethod
    def of_rows(rows: Iterable[tuple[int, bytes]]) -> EpochOutcome:
        """Sort the rows of the last level, pairs of kind and payload."""
        acks: list[SubtaskAck] = []
        failures: list[TaskFailure] = []
        log: list[LogLine] = []
        for kind, payload in rows:
            match PayloadKind(kind):
                case PayloadKind.ACK:
                    acks.append(decode(bytes(payload), SubtaskAck))
                case PayloadKind.FAILURE:
                    failures.append(decode(bytes(payload), TaskFailure))
                case PayloadKind.LOG:
                    log += decode(bytes(payload), list[LogLine])
                case _:
                    pass
        return EpochOutcome(tuple(acks), tuple(failures), tuple(log))


@dataclass(frozen=True, slots=True)
class EpochProgress:
    """The progress of a running epoch, as its runner sees it."""

    tasks_done: int = 0
    #: Vertex and subtask of all subtasks whose tasks run.
    running: tuple[tuple[int, int], ...] = ()


class EpochRunner(Protocol):
    """Runs epochs one at a time; implemented on Spark, and by a fake in the driver's tests."""

    def run(self, plan: EpochPlan) -> EpochOutcome:
        """Run one epoch to its end and return what its subtasks acknowledged; one that releases closes functions.

        Raises:
            EpochInfrastructureError: Spark lost the job (an executor, the context); run it again.
            SparkGoneError: Spark is gone; this process can run no epoch any more.
            EpochCancelledError: `cancel` was called while it ran.
            InternalError: A task failed in the engine's own code.
        """
        ...

    def progress(self) -> EpochProgress:
        """Look at the running epoch from another thread; never raises."""
        ...

    def cancel(self) -> None:
        """Interrupt the running epoch from another thread; without one, the next `run` raises at once."""
        ...

    def release(self, run_id: str) -> None:
        """Close the open functions of a run after its last epoch, unless that epoch has closed them; never raises."""
        ...
