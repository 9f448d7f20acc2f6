"""A sink that writes each checkpoint in one transaction of its target, for targets that have transactions."""

from __future__ import annotations

import hashlib
import pickle
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._api.connectors.committer import GlobalCommitter, SupportsGlobalCommitter
from penstock._api.connectors.serializer import PickleSerializer
from penstock._api.connectors.sink import CommittingSinkWriter, Sink
from penstock._shelf import show
from penstock.errors import LostCommittableError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from penstock._api.connectors.committer import CommitRequest, CommitterInitContext
    from penstock._api.connectors.sink import SinkWriterContext, WriterInitContext

T = TypeVar("T")

#: Records are staged once their pickles have so many bytes.
_STAGED_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class CheckpointTransaction:
    """The transaction of one checkpoint.

    Args:
        id: Its name, 32 hexadecimal digits; no other checkpoint of any job ever has it.
        job_id: The job.
        sink_uid: The sink.
        checkpoint_id: The checkpoint.
    """

    id: str
    job_id: str
    sink_uid: str
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class StagedRecords:
    """The records of one writer in one checkpoint: the attempt, and the names of what it staged."""

    attempt: str
    names: tuple[str, ...]


class TransactionalSink(Sink[T], SupportsGlobalCommitter[StagedRecords], Generic[T]):
    """Writes the records of each checkpoint in one transaction, which also records the transaction's id.

    The base of exactly-once sinks for databases. Writers stage their records in the checkpoint storage. Once the
    checkpoint is durable, the driver calls ``write_transaction``, again after a crash. In Flink each connector has
    separate classes for this.

    Example:
        >>> class Bank(TransactionalSink[str]):
        ...     def write_transaction(self, transaction, records):
        ...         if transaction.id not in DONE:  # in a database, one transaction has both
        ...             DONE[transaction.id] = list(records)
    """

    @abstractmethod
    def write_transaction(self, transaction: CheckpointTransaction, records: Iterable[T]) -> None:
        """Write all records and the transaction's id in one transaction; if the target has the id, do nothing.

        Runs on the driver, for one checkpoint after the other. A replaced driver may still be inside this method, so
        the target has to refuse a second record of an id, for example by a primary key.

        Args:
            transaction: The transaction. Its id has to stay in the target as long as the job's checkpoints.
            records: The records of all writers, by subtask; they are read from the checkpoint storage on the way.

        Raises:
            Exception: Any error fails the job, which restarts from this checkpoint and tries again.
        """

    def create_writer(self, context: WriterInitContext) -> CommittingSinkWriter[T, StagedRecords]:
        """Make a writer that stages records."""
        return StagingWriter(context)

    def create_global_committer(self, context: CommitterInitContext) -> GlobalCommitter[StagedRecords]:
        """Make the committer."""
        return _TransactionCommitter(self, context)


class StagingWriter(CommittingSinkWriter[T, StagedRecords], Generic[T]):
    """Stages records in the checkpoint storage, for a committer that reads them by ``staged_records``.

    Args:
        context: The writer's context.
    """

    def __init__(self, context: WriterInitContext) -> None:
        self._context = context
        self._blocks: list[bytes] = []
        self._bytes = 0
        self._names: list[str] = []
        self._attempt = ""

    def write(self, element: T, context: SinkWriterContext) -> None:
        """Stage one record."""
        del context
        self.write_all([element])

    def write_all(self, elements: list[T], timestamps: Sequence[int | None] | None = None) -> None:
        """Stage a block of records."""
        del timestamps
        self._begin()
        block = PickleSerializer().serialize(elements)
        self._blocks.append(block)
        self._bytes += len(block)
        if self._bytes >= _STAGED_BYTES:
            self._stage()

    def _begin(self) -> None:
        """Forget the records of an epoch that did not count."""
        if self._attempt != self._context.attempt_token:
            self._attempt = self._context.attempt_token
            self._blocks, self._bytes, self._names = [], 0, []

    def _stage(self) -> None:
        if self._blocks:
            self._names.append(self._context.stage(pickle.dumps(self._blocks)))
            self._blocks, self._bytes = [], 0

    def flush(self, end_of_input: bool) -> None:
        """Stage what is left."""
        del end_of_input
        self._begin()
        self._stage()

    def prepare_commit(self) -> list[StagedRecords]:
        """Return what was staged in this checkpoint."""
        names, self._names = tuple(self._names), []
        context = self._context
        attempt = f"{context.run_id} {context.checkpoint_id} {context.attempt_token}"
        return [StagedRecords(attempt, names)] if names else []


def staged_records(data: bytes) -> Iterator[Any]:
    """Return the records that a StagingWriter has staged under one name.

    Args:
        data: What the storage has under this name.
    """
    for block in pickle.loads(data):
        yield from pickle.loads(block)


class _TransactionCommitter(GlobalCommitter[StagedRecords]):
    def __init__(self, sink: TransactionalSink[Any], context: CommitterInitContext) -> None:
        self._sink, self._context = sink, context

    def commit(self, requests: Collection[CommitRequest[StagedRecords]]) -> None:
        """Write one checkpoint, unless an earlier try has done so: then the engine may have deleted its records."""
        parts = [request.get_committable() for request in requests]
        first = next(iter(requests))
        context = self._context
        if context.read_staged(parts[0].names[0]) is None and first.may_be_committed:
            for request in requests:
                request.signal_already_committed()
            return
        attempts = "\n".join(f"{request.subtask_id} {request.get_committable().attempt}" for request in requests)
        name = hashlib.blake2b(attempts.encode(), digest_size=16).hexdigest()
        transaction = CheckpointTransaction(name, context.job_id, context.operator_uid, first.checkpoint_id)
        self._sink.write_transaction(transaction, self._records(parts))

    def read_records(self, committable: StagedRecords) -> Iterable[Any]:
        """Return the records of one subtask."""
        return self._records([committable])

    def _records(self, parts: Sequence[StagedRecords]) -> Iterator[Any]:
        for name in (name for part in parts for name in part.names):
            data = self._context.read_staged(name)
            if data is None:
                raise LostCommittableError(f"A checkpoint of {self._context.operator_uid!r}", f"{name} is gone")
            yield from staged_records(data)


show("penstock.datastream.connectors.base", CheckpointTransaction, TransactionalSink)
