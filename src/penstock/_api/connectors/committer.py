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
    """The context of a committer, provided by the engine.

    Source: org.apache.flink.api.connector.sink2.CommitterInitContext.
    """

    @property
    def metric_group(self) -> MetricGroup:
        """The group of the committer's metrics."""
        ...

    @property
    def job_id(self) -> str:
        """The job, 32 hexadecimal digits."""
        ...

    @property
    def run_id(self) -> str:
        """This run of the job, which is one driver; the names of staged data contain it."""
        ...

    @property
    def earlier_runs(self) -> tuple[str, ...]:
        """The runs that this one continues, oldest first.

        These runs commit nothing that this run does not commit as well. So a committer may remove data that they or
        this run have staged for a committed checkpoint, unless a committable needs the data. All other data at the
        target belongs to other jobs, perhaps to a running one of the same name or id.
        """
        ...

    @property
    def operator_uid(self) -> str:
        """The sink's uid; together with the job id a key for markers of committed checkpoints in the target."""
        ...

    @property
    def restored_checkpoint_id(self) -> int | None:
        """The checkpoint that the job started from; None if it started without one."""
        ...


class CommitRequest(Protocol[CommittableT]):
    """A committable that the committer has to publish; it counts as committed unless the committer signals otherwise.

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

        True after it was postponed, after its commit failed, and if the job started from a checkpoint that lists it.
        False means that this is the very first try: the staged data has to exist, and a committer that misses any of it
        raises ``LostCommittableError``, which ends the job.
        """
        ...

    def get_number_of_retries(self) -> int:
        """Return how often it was postponed, 0 at the first try."""
        ...

    def signal_failed_with_known_reason(self, error: BaseException) -> None:
        """Give the committable up: it is dropped with a log line and a metric, and the job keeps running."""
        ...

    def signal_failed_with_unknown_reason(self, error: BaseException) -> None:
        """Fail the job; the committable is committed again after the restart."""
        ...

    def retry_later(self) -> None:
        """Postpone the committable; the job fails after ``sink.committer.retries`` tries."""
        ...

    def update_and_retry_later(self, committable: CommittableT) -> None:
        """Replace the committable by the part that could not be committed, and postpone that."""
        ...

    def signal_already_committed(self) -> None:
        """Count the committable as committed, because an earlier try has published it."""
        ...


class Committer(ABC, Generic[CommittableT]):
    """Publishes, after a checkpoint, the data that sink writers staged before it.

    Source: org.apache.flink.api.connector.sink2.Committer.
    """

    @abstractmethod
    def commit(self, requests: Collection[CommitRequest[CommittableT]]) -> None:
        """Publish the committables of one checkpoint.

        Runs on the driver once the checkpoint is durable, for the checkpoints of one sink in their order and never
        for two at the same time. After a crash between the two it runs again with the same committables, so
        committing twice must equal committing once. Missing staged data may count as committed only if
        ``may_be_committed`` is true; else records would be lost silently. A replaced driver may still be inside this
        method, so checking whether data is committed and committing it must be one atomic step in the target.

        Args:
            requests: The checkpoint's committables by subtask, each subtask's in the order of ``prepare_commit``.

        Raises:
            LostCommittableError: The staged data of a committable is missing at its first try; the job ends.
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
    """Publishes a whole checkpoint after the committer has run, for example as a table's new snapshot.

    There is one, on the driver; it gets the committables of all subtasks of a checkpoint in one call.

    Source: item 4 of FLIP-143, the GlobalCommitter.
    """

    @abstractmethod
    def commit(self, requests: Collection[CommitRequest[CommittableT]]) -> None:
        """Publish one checkpoint, under the same rules as ``Committer.commit``."""

    def close(self) -> None:
        """Let go of everything; may be called twice, and is not called when the driver is killed."""


show("penstock.datastream.connectors.base", CommitRequest, Committer, CommitterInitContext, GlobalCommitter)
