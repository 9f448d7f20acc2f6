"""The Kafka sink's writers: one sends records at once, the other stages them for the committer."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from penstock._api.connectors.sink import CommittingSinkWriter, SinkWriter
from penstock._connectors.kafka.blocks import KafkaBlock, digest_of, encoded
from penstock._connectors.kafka.broker import Broker
from penstock._connectors.kafka.clients import REQUEST_S, Connection, admin_library, library, make_admin
from penstock._connectors.kafka.producing import RecordProducer
from penstock._connectors.kafka.properties import for_producer
from penstock.errors import KafkaRecordError, KafkaTopicError, KafkaTransactionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock._api.connectors.sink import SinkWriterContext, WriterInitContext
    from penstock._connectors.kafka.serializing import KafkaRecordSerializationSchema, OutRecord

#: Bytes of records in one staged block, and up to which a block is in its committable.
BLOCK_BYTES: Final = 8 << 20
INLINE_BYTES: Final = 16 << 10
#: How long the partitions of a topic are not asked for again, in seconds.
_KNOWN_S: Final = 300.0
#: librdkafka's default of `message.max.bytes`, and what a record takes beside key, value and headers.
_LARGEST_BYTES: Final = 1_000_000
_FRAME_BYTES: Final = 100
_MAX_TIMEOUT: Final = "transaction.max.timeout.ms"


class Partitions:
    """The partitions of topics, for partitioners; asked for again from time to time, as partitions are added."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._broker: Broker | None = None
        self._known: dict[str, tuple[float, range]] = {}

    def of(self, topic: str) -> Sequence[int]:
        """Return the partitions of a topic.

        Raises:
            KafkaTopicError: There is no such topic.
        """
        asked, found = self._known.get(topic, (0.0, range(0)))
        now = time.monotonic()
        if not found or now - asked > _KNOWN_S:
            self._broker = self._broker or Broker(self._properties, "penstock")
            count = self._broker.partitions(topic)
            if count is None:
                raise KafkaTopicError(f"Writing into {topic}", "there is no such topic; make it first")
            found = range(count)
            self._known[topic] = now, found
        return found

    def close(self) -> None:
        """Close the connection."""
        if self._broker is not None:
            self._broker.close()


class KafkaWriter(SinkWriter[Any]):
    """Sends records at once.

    Args:
        properties: Of the client.
        schema: Makes the records.
        waits: Whether a checkpoint waits until all are delivered.
    """

    def __init__(self, properties: Mapping[str, str], schema: KafkaRecordSerializationSchema, *, waits: bool) -> None:
        self._schema, self._waits = schema, waits
        self._partitions = Partitions(properties)
        self._producer = RecordProducer(properties, "Writing into Kafka")

    def write(self, element: Any, context: SinkWriterContext) -> None:
        """Send one record."""
        self.write_all([element], [context.timestamp()])

    def write_all(self, elements: list[Any], timestamps: Sequence[int | None] | None = None) -> None:
        """Send a block of records."""
        self._producer.send(self._schema.records(elements, timestamps, self._partitions.of))

    def flush(self, end_of_input: bool) -> None:
        """Wait for the delivery of all records, unless nothing is guaranteed."""
        if self._waits or end_of_input:
            self._producer.flush()

    def close(self) -> None:
        """Let go of the client."""
        self._producer.close()
        self._partitions.close()


class StagingKafkaWriter(CommittingSinkWriter[Any, KafkaBlock]):
    """Stages records in blocks; a committer sends them.

    Args:
        context: The writer's context.
        properties: Of the client.
        schema: Makes the records.
    """

    def __init__(
        self, context: WriterInitContext, properties: Mapping[str, str], schema: KafkaRecordSerializationSchema
    ) -> None:
        self._context, self._schema = context, schema
        self._partitions = Partitions(properties)
        self._largest = int(for_producer(properties).get("message.max.bytes", _LARGEST_BYTES))
        self._records: list[OutRecord] = []
        self._bytes = 0
        self._blocks: list[KafkaBlock] = []

    def write(self, element: Any, context: SinkWriterContext) -> None:
        """Stage one record."""
        self.write_all([element], [context.timestamp()])

    def write_all(self, elements: list[Any], timestamps: Sequence[int | None] | None = None) -> None:
        """Stage a block of records.

        Raises:
            KafkaRecordError: A record is too large for the client; the committer could never send it.
        """
        for record in self._schema.records(elements, timestamps, self._partitions.of):
            size = _FRAME_BYTES + len(record.value or b"") + len(record.key or b"")
            if record.headers:
                size += sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
            if size > self._largest:
                reason = f"it takes {size} bytes, and the property message.max.bytes allows {self._largest}"
                raise KafkaRecordError(f"Writing a record into {record.topic}", reason)
            self._records.append(record)
            self._bytes += size
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
        self._blocks.append(
            KafkaBlock(
                context.job_id,
                context.run_id,
                context.operator_uid,
                context.attempt_token,
                digest_of(data),
                records[0].topic,
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
        self._partitions.close()


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
