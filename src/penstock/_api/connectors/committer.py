"""The half of a sink that runs on the driver: the committer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.metrics.metricbase import MetricGroup

CommittableT = TypeVar("CommittableT")


class CommitterInitContext(Protocol):
    """What a committer can see; given to it by the engine.

    Source: org.apache.flink.api.connector.sink2.CommitterInitContext.
    """

    @property
    def metric_group(self) -> MetricGroup:
        """Where the committer's metrics go."""
        ...

    @property
    def job_id(self) -> str:
        """The job, 32 hexadecimal digits."""
        ...

    @property
    def run_id(self) -> str:
        """This run of the job, which is one driver: what its writers stage has that name."""
        ...

    @property
    def earlier_runs(self) -> tuple[str, ...]:
        """The runs that this one goes on from, oldest first.

        They commit nothing any more that this one does not commit, too. So a committer may remove what they, or this
        run, have staged for a checkpoint that is committed, and that no committable of it needs. Anything else at the
        target belongs to another job, perhaps to one of the same name or id that is running now.
        """
        ...

    @property
    def operator_uid(self) -> str:
        """The sink's uid: with the job id, the name under which a target can keep a marker of what was committed."""
        ...

    @property
    def restored_checkpoint_id(self) -> int | None:
        """The checkpoint that the job starts from; None when it started without one."""
        ...


class CommitRequest(Protocol[CommittableT]):
    """One committable, and what the committer may say about it; left alone it counts as committed.

    Source: org.apache.flink.api.connector.sink2.Committer.CommitRequest.
    """

    @property
    def checkpoint_id(self) -> int:
        """The checkpoint that the committable was made in."""
        ...

    def get_committable(self) -> CommittableT:
        """Return the committable."""
        ...

    @property
    def may_be_committed(self) -> bool:
        """Whether an earlier try may have committed it already.

        True when it was put off, when its commit failed before, and when the job started from a checkpoint that lists
        it. Where it is False this is the first try of all: what the committable names has to be there, and a committer
        that misses any of it raises ``LostCommittableError``, which ends the job.
        """
        ...

    def get_number_of_retries(self) -> int:
        """Return how often it was put off, 0 at the first try."""
        ...

    def signal_failed_with_known_reason(self, error: BaseException) -> None:
        """Give it up: it is dropped with a log line and a metric, and the job keeps running."""
        ...

    def signal_failed_with_unknown_reason(self, error: BaseException) -> None:
        """Fail the job; after the restart it is committed again."""
        ...

    def retry_later(self) -> None:
        """Put it off; the job fails after ``sink.committer.retries`` tries."""
        ...

    def update_and_retry_later(self, committable: CommittableT) -> None:
        """Put off the part of it that could not be committed."""
        ...

    def signal_already_committed(self) -> None:
        """Say that an earlier try had committed it; counts as success."""
        ...


class Committer(ABC, Generic[CommittableT]):
    """Publishes, after a checkpoint, what sink writers staged before it.

    Source: org.apache.flink.api.connector.sink2.Committer.
    """

    @abstractmethod
    def commit(self, requests: Collection[CommitRequest[CommittableT]]) -> None:
        """Publish the committables of one checkpoint.

        Runs on the driver once the checkpoint is durable, for the checkpoints of one sink in their order and never
        for two at the same time. After a crash between the two it runs again with the same committables, so
        committing twice must equal committing once. What is missing may only count as committed where
        ``may_be_committed`` says that there was an earlier try; else records are lost, and nobody hears of it. A
        driver that was replaced may still be inside this method: looking whether something was committed and
        committing it must be one step in the target.

        Args:
            requests: The checkpoint's committables by subtask, each subtask's in the order of ``prepare_commit``.

        Raises:
            LostCommittableError: What a committable names is gone before its first try; the job ends.
            Exception: Any other error fails the job; it restarts from this checkpoint and commits again.

        Example:
            >>> from pathlib import Path
            >>> from penstock.errors import LostCommittableError
            >>> class RenameCommitter(Committer[Path]):
            ...     def commit(self, requests):
            ...         for request in requests:
            ...             staged = request.get_committable()
            ...             try:
            ...                 staged.rename(staged.with_suffix(""))
            ...             except FileNotFoundError:
            ...                 if not request.may_be_committed:  # no earlier try can have renamed it
            ...                     raise LostCommittableError(str(staged), "it is gone") from None
            ...                 request.signal_already_committed()
        """

    def close(self) -> None:
        """Let go of everything; may be called twice, and is not called when the driver is killed."""


class GlobalCommitter(ABC, Generic[CommittableT]):
    """Publishes something for a whole checkpoint after the committer has run, such as a table's new snapshot.

    There is one, on the driver; it sees the committables of all subtasks of a checkpoint in one call.

    Source: item 4 of FLIP-143, the GlobalCommitter.
    """

    @abstractmethod
    def commit(self, requests: Collection[CommitRequest[CommittableT]]) -> None:
        """Publish one checkpoint; the promises and duties are those of ``Committer.commit``."""

    def close(self) -> None:
        """Let go of everything; may be called twice, and is not called when the driver is killed."""


show("penstock.datastream.connectors.base", CommitRequest, Committer, CommitterInitContext, GlobalCommitter)
