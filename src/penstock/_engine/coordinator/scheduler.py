"""How a job makes progress, apart from its life: the interface between the two.

The life of a job is its start, its failures, its savepoints and its end. Progress is what a running job does in
between. Source: Flink's ``SchedulerNG``, which a ``JobMaster`` drives without knowing whether the job is a stream.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol, TypeAlias

from penstock._engine.protocol.control import TaskFailure

if TYPE_CHECKING:
    from penstock._engine.protocol.metadata import ChainEntry

#: What failed: a user's function in a task, or an exception on the driver.
Cause: TypeAlias = TaskFailure | Exception


class JobLife(Protocol):
    """What progress asks of the life of its job."""

    def fail(self, cause: Cause) -> None:
        """Break off because of an error."""

    def go_back(self) -> None:
        """Go on from the last completed checkpoint at once, though nothing has failed."""

    def check_stopped(self) -> None:
        """Go on with breaking off, if the job does and nothing is on its way any more."""

    def leave(self) -> None:
        """End the job: all is committed and handed over, and functions that listen have heard of it."""


class Scheduler(ABC):
    """The way in which one job makes progress.

    Each implementation brings a table of the events that it takes (`reactions`); here is what the life of the job asks
    of it.
    """

    @abstractmethod
    def recover(self) -> None:
        """Take up the last completed checkpoint, and go on from there."""

    @abstractmethod
    def hurry(self) -> None:
        """Make the next checkpoint without a pause: it was asked for."""

    @abstractmethod
    def interrupt(self) -> None:
        """Let go of what is under way; a checkpoint whose record is on its way may still complete."""

    @abstractmethod
    def reset(self) -> None:
        """Forget what is under way: nothing of it is on its way any more."""

    @property
    @abstractmethod
    def has_pending_checkpoint(self) -> bool:
        """Whether a checkpoint is between its last input and its commit point."""

    # -------------------------------------------------------------------------------- the records of its checkpoints

    @abstractmethod
    def entry_stored(self, entry: ChainEntry) -> None:
        """Go on after the commit point of a checkpoint."""

    @abstractmethod
    def entry_lost(self) -> None:
        """Let go of a checkpoint whose record was given up as uncertain; it may be found to have arrived."""

    @abstractmethod
    def entry_found(self, entry: ChainEntry) -> None:
        """Note that a record of this driver was in the place of the one that was put."""

    @abstractmethod
    def commits_moved(self) -> None:
        """Go on with what waited for a commit."""

    # ------------------------------------------------------------------------------------------------ a stop, the end

    @abstractmethod
    def exported(self) -> None:
        """Put the record of the checkpoint that the job stops with: its savepoint is safe, but for its name."""

    @abstractmethod
    def go_on(self) -> None:
        """Make a normal checkpoint of the one that the job was to stop with."""

    @abstractmethod
    def saved(self) -> None:
        """Go on to the end: the savepoint that the job stops with is there."""

    @abstractmethod
    def check_finished(self) -> None:
        """Go on with the end once all that the job has made is where it belongs."""
