"""The Kafka sink's writers: one sends records at once, the other stages them for the committer."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from penstock._api.connectors.sink import CommittingSinkWriter, SinkWriter
from penstock._connectors.kafka.blocks import KafkaBlock, digest_of, encoded
from penstock._connectors.kafka.clients import REQUEST_S, Connection, admin_library, library, make_admin
from penstock._connectors.kafka.marks import committer_name
from penstock._connectors.kafka.producing import RecordProducer
from penstock.errors import KafkaTransactionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock._api.connectors.sink import SinkWriterContext, WriterInitContext
    from penstock._connectors.kafka.serializing import KafkaRecordSerializationSchema, OutRecord
    from penstock._connectors.kafka.topics import Topics

#: Bytes of records in one staged block, and up to which a block is in its committable.
BLOCK_BYTES: Final = 8 << 20
INLINE_BYTES: Final = 16 << 10
_MAX_TIMEOUT: Final = "transaction.max.timeout.ms"


class KafkaWriter(SinkWriter[Any]):
    """Sends records at once.

    Args:
        properties: Of the client.
        schema: Makes the records.
        topics: Tells what the topics take; closed with the writer.
        waits: Whether a checkpoint waits until all are delivered.
    """

    def __init__(
        self, properties: Mapping[str, str], schema: KafkaRecordSerializationSchema, topics: Topics, *, waits: bool
    ) -> None:
        self._schema, self._topics, self._waits = schema, topics, waits
        self._producer = RecordProducer(properties, "Writing into Kafka")

    def write(self, element: Any, context: SinkWriterContext) -> None:
        """Send one record."""
        self.write_all([element], [context.timestamp()])

    def write_all(self, elements: list[Any], timestamps: Sequence[int | None] | None = None) -> None:
        """Send a block of records.

        Raises:
            KafkaRecordError: A topic would refuse one.
        """
        records = self._schema.records(elements, timestamps, self._topics.partitions)
        admitted = self._topics.admitted(records)
        if admitted.most_bytes is not None and self._producer.needs_smaller_batches(admitted.most_bytes):
            self._producer.flush()
            self._producer.make_again(admitted.most_bytes)
        self._producer.send(admitted.records)

    def flush(self, end_of_input: bool) -> None:
        """Wait for the delivery of all records, unless nothing is guaranteed."""
        if self._waits or end_of_input:
            self._producer.flush()

    def close(self) -> None:
        """Let go of the client."""
        self._producer.close()
        self._topics.let_go()


class StagingKafkaWriter(CommittingSinkWriter[Any, KafkaBlock]):
    """Stages records in blocks; a committer sends them.

    Args:
        context: The writer's context.
        schema: Makes the records.
        topics: Tells what the topics take; closed with the writer.
        prefix: How the names of committers begin.
    """

    def __init__(
        self, context: WriterInitContext, schema: KafkaRecordSerializationSchema, topics: Topics, prefix: str
    ) -> None:
        self._context, self._schema, self._topics = context, schema, topics
        self._name = committer_name(prefix, context.job_id, context.operator_uid, context.run_id)
        self._records: list[OutRecord] = []
        self._bytes = 0
        self._blocks: list[KafkaBlock] = []

    def write(self, element: Any, context: SinkWriterContext) -> None:
        """Stage one record."""
        self.write_all([element], [context.timestamp()])

    def write_all(self, elements: list[Any], timestamps: Sequence[int | None] | None = None) -> None:
        """Stage a block of records.

        Raises:
            KafkaRecordError: A topic would refuse a record; the committer could never send it.
        """
        records = self._schema.records(elements, timestamps, self._topics.partitions)
        admitted = self._topics.admitted(records)
        if self._bytes and self._bytes + admitted.size > BLOCK_BYTES:
            self._stage()
        self._records += admitted.records
        self._bytes += admitted.size
        if self._bytes >= BLOCK_BYTES:
            self._stage()

    def flush(self, end_of_input: bool) -> None:
        """Stage what is left."""
        del end_of_input
        if self._records:
            self._stage()

    def _stage(self) -> None:
        records, self._records, self._bytes = self._records, [], 0
        context, data = self._context, encoded(records)
        is_small = len(data) <= INLINE_BYTES
        rules = self._topics.rules({record.topic for record in records})
        self._topics.note_begun(self._name, rules)
        self._blocks.append(
            KafkaBlock(
                context.job_id,
                context.run_id,
                context.operator_uid,
                context.attempt_token,
                digest_of(data),
                tuple(sorted((topic, one.topic_id) for topic, one in rules.items())),
                None if is_small else context.stage(data),
                data if is_small else None,
            )
        )

    def prepare_commit(self) -> list[KafkaBlock]:
        """Return the blocks of this checkpoint."""
        blocks, self._blocks = self._blocks, []
        return blocks

    def close(self) -> None:
        """Let go of the connection, if there is one."""
        self._topics.let_go()


@lru_cache(maxsize=16)
def check_timeout(properties: tuple[tuple[str, str], ...], timeout_ms: int) -> None:
    """Check that brokers allow transactions of a length; asked once in each process.

    Raises:
        KafkaTransactionError: They do not.
    """
    connection = Connection("Asking the brokers for the longest transaction")
    admin = make_admin(dict(properties), connection)
    try:
        broker = next(iter(admin.list_topics(timeout=REQUEST_S).brokers.values()))
        kinds = admin_library().ConfigResource
        resource = kinds(kinds.Type.BROKER, str(broker.id))
        asked = admin.describe_configs([resource], request_timeout=REQUEST_S)
        most = int(asked[resource].result()[_MAX_TIMEOUT].value)
    except (library().KafkaException, KeyError, TypeError, StopIteration):
        return  # without the right to look, the first transaction tells
    if timeout_ms > most:
        reason = (
            f"transaction.timeout.ms is {timeout_ms}, and the brokers allow {most} ({_MAX_TIMEOUT}); set it to at most "
            "that, or raise theirs"
        )
        raise KafkaTransactionError("Starting the exactly-once Kafka sink", reason)
