"""The Kafka sink's committer: one transaction for each checkpoint, which also says that it was made.

The transaction commits the checkpoint's id as an offset of a consumer group that nobody else has, the marker. It is
read before, behind `init_transactions`, by which Kafka ends or aborts what an earlier producer of the same
transactional id had open. So whether a checkpoint was committed, and committing it, is one atomic step.
"""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock._api.connectors.committer import Committer
from penstock._connectors.kafka.blocks import decoded, digest_of, readable
from penstock._connectors.kafka.clients import REQUEST_S, Connection, Tries, connector_error, library, make_consumer
from penstock._connectors.kafka.marks import committer_name, is_begun
from penstock._connectors.kafka.producing import RecordProducer
from penstock._connectors.kafka.topics import Topics, smallest_batch
from penstock.common.redaction import hiding, shown_text
from penstock.errors import CommitOutcomeUnknownError, KafkaTransactionError, LostCommittableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from penstock._api.connectors.committer import CommitRequest, CommitterInitContext
    from penstock._connectors.kafka.blocks import KafkaBlock
    from penstock._connectors.kafka.serializing import OutRecord

_log = hiding(logging.getLogger("penstock.kafka"))

#: Errors of a producer whose name another one has taken.
_FENCED: Final = frozenset({"_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"})
#: What Kafka says of a marker that is pending; librdkafka tries until its time is over.
_PENDING: Final = frozenset({"_TIMED_OUT", "UNSTABLE_OFFSET_COMMIT"})
_READING: Final = "Reading which checkpoint is committed"
#: Seconds that an abort may take.
_ABORT_S: Final = 10.0
#: Seconds until a marker that Kafka does not tell counts as held by a transaction that has ended.
_STABLE_S: Final = 5.0
#: After how long a connection that nobody uses is closed; the one to the transactions' coordinator is opened again.
#: librdkafka asks where the marker's coordinator is when a connection comes or goes, and at no other time, and this
#: call of it has no timeout (its issues 5456 and 5511). After an outage a commit would wait until the broker closes an
#: idle connection, ten minutes by default.
_IDLE_MS: Final = "10000"


class KafkaCommitter(Committer["KafkaBlock"]):
    """Publishes the blocks of a checkpoint in one transaction.

    Args:
        context: The committer's context.
        properties: Of the clients.
        prefix: How transactional ids and markers begin.
        timeout_ms: The timeout of a transaction.
    """

    def __init__(
        self, context: CommitterInitContext, properties: Mapping[str, str], prefix: str, timeout_ms: int
    ) -> None:
        self._context, self._properties, self._prefix = context, dict(properties), prefix
        self._timeout_ms = timeout_ms
        self._topics = Topics(properties)
        #: By the name of the committer, which is the run that staged.
        self._publishers: dict[str, _Publisher] = {}

    def commit(self, requests: Collection[CommitRequest[KafkaBlock]]) -> None:
        """Publish a checkpoint.

        Raises:
            KafkaConnectorError: Kafka does not take it; the job starts again and tries again.
            LostCommittableError: A staged block is gone or damaged, and was not published.

        Where Kafka no longer knows what was committed, the requests get a CommitOutcomeUnknownError.
        """
        by_run: dict[tuple[str, str, str], list[CommitRequest[KafkaBlock]]] = {}
        for request in requests:
            block = request.get_committable()
            by_run.setdefault((block.job_id, block.sink, block.run_id), []).append(request)
        for origin, group in by_run.items():
            name = committer_name(self._prefix, *origin)
            publisher = self._publishers.get(name)
            if publisher is None:
                publisher = self._publishers[name] = _Publisher(name, self._properties, self._timeout_ms)
            try:
                self._publish(publisher, group)
            except BaseException:
                self._drop(name)
                raise
            if origin[2] != self._context.run_id:  # it commits no more
                self._drop(name)

    def _publish(self, publisher: _Publisher, requests: Sequence[CommitRequest[KafkaBlock]]) -> None:
        checkpoint_id = requests[0].checkpoint_id
        blocks = [request.get_committable() for request in requests]
        names = hashlib.sha256(b"".join(block.token.encode() + block.digest for block in blocks)).hexdigest()[:32]
        staged = {pair for block in blocks for pair in block.topics}
        topics = sorted({topic for topic, _ in staged})
        publisher.begin()
        marked = publisher.marker(topics[0])
        undecided = [request for request in requests if request.may_be_committed]
        if marked is not None and _is_done(marked, checkpoint_id, names, may_be=bool(undecided)):
            for request in requests:
                request.signal_already_committed()
            return
        rules = self._topics.rules(topics)
        has_old = any(rules[topic].topic_id == topic_id for topic, topic_id in staged)  # what is in others is gone
        if marked is None and undecided and has_old and not publisher.is_begun(topics[0]):
            for request in undecided:
                request.signal_failed_with_unknown_reason(_unknown(checkpoint_id, topics[0]))
            return
        publisher.limit(smallest_batch(rules.values()))
        publisher.publish((self._records(block) for block in blocks), topics, checkpoint_id, names)

    def _records(self, block: KafkaBlock) -> list[OutRecord]:
        data = block.data if block.name is None else self._context.read_staged(block.name)
        what = f"A block of records for {', '.join(topic for topic, _ in block.topics[:5])}"
        if data is None:
            raise LostCommittableError(what, f"what was staged as {block.name} is gone")
        if digest_of(data) != block.digest:
            raise LostCommittableError(what, f"what was staged as {block.name} has been changed")
        try:
            return decoded(data)
        except msgspec.DecodeError as error:
            raise LostCommittableError(what, f"what was staged cannot be read: {error}") from None

    def describe(self, committable: KafkaBlock) -> str:
        """Return which topics a block has records for."""
        return f"records for {', '.join(topic for topic, _ in committable.topics)}"

    def read_records(self, committable: KafkaBlock) -> Iterator[dict[str, Any]]:
        """Return the records of a block; bytes that are no text are Base64."""
        return map(readable, self._records(committable))

    def _drop(self, name: str) -> None:
        self._publishers.pop(name).close()

    def close(self) -> None:
        """Close all clients; no transaction is open."""
        for name in list(self._publishers):
            self._drop(name)
        self._topics.let_go()


def _is_done(marked: tuple[int, str], checkpoint_id: int, names: str, *, may_be: bool) -> bool:
    """Tell whether a marker says that a checkpoint was committed.

    A run commits its checkpoints in their order, each in one transaction. At a first try only the marker of this very
    id and with the same blocks counts, as checkpoints of a run that went back are others. At a later try some of its
    blocks may have been given up since (penstock.committables): the transaction had the others as well.
    """
    number, marked_names = marked
    return (number == checkpoint_id and marked_names == names) or (number >= checkpoint_id and may_be)


class _Publisher:
    """A transactional producer, and the marker of its committer."""

    def __init__(self, name: str, properties: Mapping[str, str], timeout_ms: int) -> None:
        self._name, self._properties, self._timeout_ms = name, properties, timeout_ms
        self._producer: RecordProducer | None = None
        self._connection = Connection("The Kafka sink's committer")
        self._marker: Any = None

    def begin(self) -> None:
        """Connect, and end what an earlier producer of this name has left open."""
        if self._producer is not None:
            return
        timeout = str(self._timeout_ms)
        self._marker = make_consumer(
            {**self._properties, "group.id": self._name, "isolation.level": "read_committed"},
            self._connection,
            **{"enable.auto.commit": "false", "allow.auto.create.topics": "false"},
        )
        names = {"transactional.id": self._name, "transaction.timeout.ms": timeout, "connections.max.idle.ms": _IDLE_MS}
        self._producer = RecordProducer(self._properties, "Publishing into Kafka", **names)
        self._call("Taking over the transactions of the committer", self._producer.client.init_transactions)

    def marker(self, topic: str) -> tuple[int, str] | None:
        """Return the last committed checkpoint, and the names of its blocks; None if there is none.

        A request that a broker carries out only after its transaction has ended, because the broker stood still, leaves
        the marker pending for ever. The end of any transaction of the same name ends that as well, so one is aborted.
        """
        found = self._committed(topic, _STABLE_S)
        if found is None:  # an outage may be why; new clients wait for its end, and find the coordinators anew
            self.close()
            self.begin()
            found = self._committed(topic, _STABLE_S)
        if found is None:
            self._end_what_is_pending(topic)
            found = self._committed(topic, REQUEST_S)
        if found is None:
            raise KafkaTransactionError(_READING, f"Kafka does not tell it within {REQUEST_S:.0f} s")
        return None if found.offset < 0 else (found.offset, found.metadata or "")

    def _committed(self, topic: str, timeout_s: float) -> Any:
        """Return the marker; None where Kafka does not tell it in time, or it is pending."""
        try:
            [found] = self._marker.committed([library().TopicPartition(topic, 0)], timeout=timeout_s)
            error = found.error
        except library().KafkaException as raised:
            found, error = None, raised.args[0]
        if error is None:
            return found
        if error.name() in _PENDING:
            return None
        raise connector_error(_READING, error, self._connection)

    def is_begun(self, topic: str) -> bool:
        """Tell whether Kafka still knows that this committer was about to begin."""
        return is_begun(self._properties, self._name, topic)

    def limit(self, most_bytes: int | None) -> None:
        """Let batches be no larger than all topics take."""
        assert self._producer is not None
        if most_bytes is not None and self._producer.needs_smaller_batches(most_bytes):
            self._producer.make_again(most_bytes)
            self._call("Taking over the transactions of the committer", self._producer.client.init_transactions)

    def _end_what_is_pending(self, topic: str) -> None:
        assert self._producer is not None
        client = self._producer.client
        self._call("Beginning a transaction", lambda timeout: client.begin_transaction())
        try:
            self._add([library().TopicPartition(topic, 0, 0)], _READING)
        finally:
            self._abort()

    def _add(self, markers: list[Any], what: str) -> None:
        """Add markers to the open transaction."""
        assert self._producer is not None
        client, group = self._producer.client, self._marker.consumer_group_metadata()
        self._call(what, lambda timeout: client.send_offsets_to_transaction(markers, group, timeout))

    def publish(self, blocks: Any, topics: Sequence[str], checkpoint_id: int, names: str) -> None:
        """Send blocks and the marker in one transaction; each topic has it, as some blocks may be given up later."""
        assert self._producer is not None
        producer, client = self._producer, self._producer.client
        self._call("Beginning a transaction", lambda timeout: client.begin_transaction())
        try:
            for records in blocks:
                producer.send(records)
            markers = [library().TopicPartition(topic, 0, checkpoint_id, names) for topic in topics]
            self._add(markers, f"Adding the checkpoint to the transaction, as an offset of {', '.join(topics[:5])}")
            self._call("Committing a transaction", client.commit_transaction)
        except BaseException:
            self._abort()
            raise
        producer.check_delivered()

    def _abort(self) -> None:
        """Abort, so that readers need not wait for the timeout; the next producer of this name does it, too."""
        assert self._producer is not None
        try:
            self._producer.client.abort_transaction(_ABORT_S)
        except library().KafkaException as error:
            _log.info("A transaction was not aborted: %s", shown_text(str(error.args[0].str())))

    def _call(self, what: str, call: Callable[[float], Any]) -> None:
        """Call again what Kafka could not do yet, up to the timeout of a transaction."""
        assert self._producer is not None
        tries = Tries(self._timeout_ms / 1000)
        while True:
            try:
                call(tries.timeout_s)
            except library().KafkaException as error:
                self._producer.serve()
                self._producer.connection.check()
                cause = error.args[0]
                if not cause.retriable() or not tries.go_on():
                    if cause.name() not in _FENCED:
                        self._producer.check()  # a record that was refused says more
                    raise _transaction_error(what, cause, self._producer.connection) from None
            else:
                return

    def close(self) -> None:
        """Close both clients."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()
        marker, self._marker = self._marker, None
        if marker is not None:
            marker.close()


def _unknown(checkpoint_id: int, topic: str) -> CommitOutcomeUnknownError:
    reason = (
        f"Kafka has dropped what the committer had noted on {topic}, which it does offsets.retention.minutes after it "
        "was written, and with the group or the topic"
    )
    return CommitOutcomeUnknownError(f"Checkpoint {checkpoint_id} of a Kafka sink", reason)


def _transaction_error(what: str, cause: Any, connection: Connection) -> KafkaTransactionError:
    name = cause.name()
    reason = connector_error(what, cause, connection).reason
    if name in _FENCED:
        reason = f"{reason}; another driver of this job has taken over, or a transaction took longer than its timeout"
    if name == "INVALID_TRANSACTION_TIMEOUT":
        reason = f"{reason}; set transaction.timeout.ms to at most the brokers' transaction.max.timeout.ms"
    return KafkaTransactionError(what, reason)
