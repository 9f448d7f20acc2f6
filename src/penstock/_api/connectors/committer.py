"""The half of a sink that runs on the driver: the committer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from penstock._api.connectors.serializer import PickleSerializer
from penstock._shelf import show
from penstock.common.user_values import short_repr

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock._api.connectors.serializer import SimpleVersionedSerializer
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

    def read_staged(self, name: str) -> bytes | None:
        """Return the data that a writer staged with ``WriterInitContext.stage``; None if it is gone; not in Flink.

        Once ``Committer.commit`` has returned and the committables count as committed, the engine deletes what was read
        for them, unless a run has staged it that this one does not continue.
        """
        ...


class CommitRequest(Protocol[CommittableT]):
    """A committable that the committer has to publish; it counts as committed unless the committer signals otherwise.

    Source: org.apache.flink.api.connector.sink2.Committer.CommitRequest.
    """

    @property
    def checkpoint_id(self) -> int:
        """The checkpoint that the committable was made in."""
        ...

    @property
    def subtask_id(self) -> int:
        """The subtask whose writer made the committable, or the last operator of a pre-commit topology; from 0."""
        ...

    def get_committable(self) -> CommittableT:
        """Return the committable."""
        ...

    @property
    def may_be_committed(self) -> bool:
        """Whether an earlier try may have committed it already.

        False as well where the user has decided at the start that it is to be published (``penstock.committables``).
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


class ReadsCommittables(Generic[CommittableT]):
    """What a committer may tell of a committable that cannot be committed; not in Flink.

    Only called after a commit has failed, and at a start at which the user gives a committable up.
    """

    def describe(self, committable: CommittableT) -> str:
        """Return what a committable holds as a short text, for errors; by default its repr."""
        return short_repr(committable)

    def read_records(self, committable: CommittableT) -> Iterable[Any] | None:
        """Return the records of a committable; None where they cannot be read, which is the default."""
        return None


class Committer(ReadsCommittables[CommittableT], ABC):
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
            LostCommittableError: The staged data of a committable is missing, and it was never published; the job ends.
            CommitOutcomeUnknownError: ``may_be_committed`` is true, and nothing can tell any more whether it was. The
                job ends; the user looks into the target, and the next start publishes the committable, or skips it.
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


class GlobalCommitter(ReadsCommittables[CommittableT], ABC):
    """Publishes a whole checkpoint after the committer has run, for example as a table's new version.

    There is one, on the driver. One call gets the committables of all subtasks of a checkpoint, except those that the
    committer gave up. If the committer postpones any, the global committer waits: both then get the whole checkpoint
    again, with ``may_be_committed``. What the global committer postpones is the whole checkpoint, too.

    Source: item 4 of FLIP-143, the GlobalCommitter.
    """

    @abstractmethod
    def commit(self, requests: Collection[CommitRequest[CommittableT]]) -> None:
        """Publish one checkpoint, under the same rules as ``Committer.commit``."""

    def close(self) -> None:
        """Let go of everything; may be called twice, and is not called when the driver is killed."""


class HasCommittables(ABC, Generic[CommittableT]):
    """A sink whose writers are CommittingSinkWriters: the common base of both kinds of committing sinks."""

    def get_committable_serializer(self) -> SimpleVersionedSerializer[CommittableT]:
        """Return the serializer of committables; pickle, unless a sink overrides this."""
        return PickleSerializer()


class SupportsGlobalCommitter(HasCommittables[CommittableT], Generic[CommittableT]):
    """A sink with a global committer, beside a committer or in place of one.

    In Flink a sink adds one by ``StandardSinkTopologies.addGlobalCommitter``.

    Example:
        >>> class Versions(GlobalCommitter[str]):
        ...     def commit(self, requests):
        ...         files = [request.get_committable() for request in requests]
        ...         print("one version of", files)
    """

    @abstractmethod
    def create_global_committer(self, context: CommitterInitContext) -> GlobalCommitter[CommittableT]:
        """Make the global committer; runs on the driver, once for each start of the job."""


show(
    "penstock.datastream.connectors.base",
    CommitRequest,
    Committer,
    CommitterInitContext,
    GlobalCommitter,
    SupportsGlobalCommitter,
)
