"""What a sink adds to the job: operators before its writers, between them and the committer, and behind that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock._api.connectors.sink import WriterInitContext

T = TypeVar("T")
OutT = TypeVar("OutT")
CommittableT = TypeVar("CommittableT")


class StreamTransformer(ABC):
    """Transforms the stream before a sink's writers.

    Source: ``pyflink.datastream.connectors.base.StreamTransformer``.
    """

    @abstractmethod
    def apply(self, ds: Any) -> Any:
        """Return the DataStream that the writers read in place of ``ds``."""


class SupportsPreprocessing(ABC):
    """A sink with a pre-write topology: its input is transformed first, by any operators of the DataStream API.

    Source: ``pyflink.datastream.connectors.base.SupportsPreprocessing``; Flink's SupportsPreWriteTopology.
    """

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """Return the transformer of the input; None leaves the input as it is."""


@dataclass(frozen=True)  # no slots: with them Python 3.11 cannot make a subscripted generic class
class CommittableWithLineage(Generic[CommittableT]):
    """A committable on its way from a writer to the committer.

    Source: org.apache.flink.streaming.api.connector.sink2.CommittableWithLineage.

    Args:
        committable: The committable.
        checkpoint_id: The checkpoint in which it was made.
        subtask_id: The subtask that made it, from 0.
    """

    committable: CommittableT
    checkpoint_id: int
    subtask_id: int


class SupportsPreCommitTopology(ABC, Generic[CommittableT]):
    """A sink with operators between its writers and its committer, for example to merge small files.

    They run in the epoch of the writers, and what comes out of them is committed with its checkpoint. What they stage
    must have the attempt's token in its name, so that an epoch that does not count leaves nothing visible.

    Source: org.apache.flink.streaming.api.connector.sink2.SupportsPreCommitTopology.
    """

    @abstractmethod
    def add_pre_commit_topology(self, committables: Any) -> Any:
        """Return the DataStream of CommittableWithLineage that the committer gets in place of the writers' one.

        ``DataStream.process_checkpoint`` is the operator that sees all committables of a checkpoint together. An
        operator without a name or uid gets one that is made of the sink's.

        Args:
            committables: The DataStream of the writers' committables, each with its lineage.
        """


class SupportsPostCommitTopology(ABC, Generic[CommittableT]):
    """A sink with operators behind its committer, for example to tell others what is published.

    They get each committable once, with its lineage, in an epoch after its commit. A checkpoint comes as a whole; what
    the committer gave up is left out. A job that ends or is drained runs further epochs, or stages in a batch job,
    until all is passed on.

    Source: org.apache.flink.streaming.api.connector.sink2.SupportsPostCommitTopology.
    """

    @abstractmethod
    def add_post_commit_topology(self, committables: Any) -> None:
        """Add operators, and sinks, to the stream of what was committed.

        The stream has no timestamps and watermarks; assign some where the operators need event time. An operator
        without a name or uid gets one that is made of the sink's.

        Args:
            committables: The DataStream of CommittableWithLineage, with the parallelism of the sink.
        """


class CheckpointFunction(ABC, Generic[T, OutT]):
    """Gets all records that came to its subtask in a checkpoint in one call, at the checkpoint's end; ours.

    Its state is a list of items, which are kept pickled in the checkpoint. At another parallelism they are
    redistributed among the subtasks. The function object may be kept from checkpoint to checkpoint, or be made anew.

    Example:
        >>> class Total(CheckpointFunction[int, int]):
        ...     def process_checkpoint(self, records, state, context, end_of_input):
        ...         yield sum(records)
    """

    @abstractmethod
    def process_checkpoint(
        self, records: Sequence[T], state: list[Any], context: WriterInitContext, end_of_input: bool
    ) -> Iterable[OutT] | None:
        """Return the records to pass on.

        Runs once for each attempt at a checkpoint, also without any record.

        Args:
            records: The records of this checkpoint.
            state: The items of the state, to be changed in place.
            context: The checkpoint, the attempt and the subtask, as a sink's writer sees them.
            end_of_input: Whether no checkpoint follows, so that nothing may be held back.
        """


show(
    "penstock.datastream.connectors.base",
    CheckpointFunction,
    CommittableWithLineage,
    StreamTransformer,
    SupportsPostCommitTopology,
    SupportsPreCommitTopology,
    SupportsPreprocessing,
)
