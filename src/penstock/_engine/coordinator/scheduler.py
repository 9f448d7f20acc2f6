"""The interface between the life of a job and its way of progress.

The life of a job is its start, its failures, its savepoints and its end. Progress is what a running job does in
between. Source: Flink's ``SchedulerNG``, which a ``JobMaster`` drives without knowing whether the job is a stream.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol, TypeAlias

from penstock._engine.protocol.control import TaskFailure

if TYPE_CHECKING:
    from penstock._engine.protocol.metadata import ChainEntry

#: The failure: an error of a user's function in a task, or an exception on the driver.
Cause: TypeAlias = TaskFailure | Exception


class JobLife(Protocol):
    """The calls from a scheduler to the life of its job."""

    def fail(self, cause: Cause) -> None:
        """Fail the job because of an error: it restarts or ends."""

    def restart(self) -> None:
        """Restart from the last completed checkpoint at once, without a failure."""

    def check_stopped(self) -> None:
        """Continue the teardown, if the job is being torn down and no answer is due any more."""

    def terminate(self) -> None:
        """End the job: everything is committed and delivered, and checkpoint listeners are notified."""


class Scheduler(ABC):
    """Makes the progress of one job.

    Each implementation has a table of the events that it handles (`reactions`); these methods are the calls from the
    life of the job.
    """

    @abstractmethod
    def recover(self) -> None:
        """Continue from the last completed checkpoint."""

    @abstractmethod
    def trigger_now(self) -> None:
        """Make the next checkpoint without a pause, because it was requested."""

    @abstractmethod
    def interrupt(self) -> None:
        """Abandon what is under way; a checkpoint whose chain entry is being stored may still complete."""

    @abstractmethod
    def reset(self) -> None:
        """Forget what was under way; no answer of it is due any more."""

    @property
    @abstractmethod
    def has_pending_checkpoint(self) -> bool:
        """Whether a checkpoint is between its last input and its commit point."""

    # -------------------------------------------------------------------------------- the entries of its checkpoints

    @abstractmethod
    def entry_stored(self, entry: ChainEntry) -> None:
        """Continue after the commit point of a checkpoint."""

    @abstractmethod
    def entry_lost(self) -> None:
        """Abandon a checkpoint whose chain entry has no known outcome; it may turn out to be stored."""

    @abstractmethod
    def entry_found(self, entry: ChainEntry) -> None:
        """Complete the abandoned checkpoint if this entry of this driver, which was found on the chain, is its own."""

    @abstractmethod
    def commits_moved(self) -> None:
        """Continue with what waited for a commit."""

    # ------------------------------------------------------------------------------------------------ a stop, the end

    @abstractmethod
    def exported(self) -> None:
        """Put the chain entry of the checkpoint that the job stops with: its savepoint is written, but not named."""

    @abstractmethod
    def go_on(self) -> None:
        """Complete the checkpoint of the stop as a normal one, because the stop was given up."""

    @abstractmethod
    def saved(self) -> None:
        """Continue to the end: the savepoint that the job stops with exists."""

    @abstractmethod
    def check_finished(self) -> None:
        """End the job once everything is committed and delivered."""
