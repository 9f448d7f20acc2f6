"""The Kafka sink and its builder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from penstock._api.connectors.sink import DeliveryGuarantee, Sink, SupportsCommitter
from penstock._api.connectors.topology import SupportsPreprocessing
from penstock._connectors.kafka.properties import for_producer, require_servers
from penstock._connectors.kafka.serializing import KafkaRecordSerializationSchema
from penstock._shelf import show
from penstock.common.arguments import instance, text
from penstock.errors import KafkaPropertyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._api.connectors.committer import CommitterInitContext
    from penstock._api.connectors.sink import SinkWriter, WriterInitContext
    from penstock._connectors.kafka.blocks import KafkaBlock  # noqa: F401 - named among the bases
    from penstock._connectors.kafka.committer import KafkaCommitter
    from penstock._connectors.kafka.writer import StagingKafkaWriter

_TIMEOUT: Final = "transaction.timeout.ms"
#: The brokers' own default of the longest transaction (decision 52).
_TIMEOUT_MS: Final = 900_000


@dataclass(frozen=True, slots=True)
class KafkaSinkOptions:
    """What a builder has gathered."""

    properties: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    schema: KafkaRecordSerializationSchema | None = None
    guarantee: DeliveryGuarantee = DeliveryGuarantee.NONE
    prefix: str = "penstock"


class KafkaSink(Sink[Any], SupportsPreprocessing):
    """Writes into topics of Kafka; ``KafkaSink.builder()`` begins one.

    Source: org.apache.flink.connector.kafka.sink.KafkaSink.

    Example:
        >>> from penstock.common import SimpleStringSchema
        >>> from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
        >>> schema = KafkaRecordSerializationSchema.builder().set_topic("words")
        >>> sink = (
        ...     KafkaSink.builder()
        ...     .set_bootstrap_servers("localhost:9092")
        ...     .set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build())
        ...     .build()
        ... )
    """

    def __init__(self, options: KafkaSinkOptions) -> None:
        self._options = options

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Begin a sink."""
        return KafkaSinkBuilder()

    def get_transformer(self) -> None:
        """Return None: topics are chosen by the writers, so no stream has to be transformed before."""
        return

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Make a writer that sends records at once."""
        from penstock._connectors.kafka.topics import Topics
        from penstock._connectors.kafka.writer import KafkaWriter

        options = self._options
        assert options.schema is not None
        waits = options.guarantee is not DeliveryGuarantee.NONE
        return KafkaWriter(options.properties, options.schema, Topics.shared(options.properties), waits=waits)


class ExactlyOnceKafkaSink(KafkaSink, SupportsCommitter["KafkaBlock"]):
    """Writes each record once, with the checkpoint that it belongs to."""

    def create_writer(self, context: WriterInitContext) -> StagingKafkaWriter:
        """Make a writer that stages records.

        Raises:
            KafkaTransactionError: The brokers allow no transactions of the configured length.
        """
        from penstock._connectors.kafka.topics import Topics
        from penstock._connectors.kafka.writer import StagingKafkaWriter, check_timeout

        options = self._options
        assert options.schema is not None
        if context.subtask_id == 0:  # before any record is written
            check_timeout(tuple(sorted(options.properties.items())), self._timeout_ms)
        return StagingKafkaWriter(context, options.schema, Topics.shared(options.properties), options.prefix)

    def create_committer(self, context: CommitterInitContext) -> KafkaCommitter:
        """Make the committer, which connects with its first commit."""
        from penstock._connectors.kafka.committer import KafkaCommitter

        options = self._options
        given = {key: value for key, value in options.properties.items() if key != _TIMEOUT}
        return KafkaCommitter(context, given, options.prefix, self._timeout_ms)

    @property
    def _timeout_ms(self) -> int:
        return int(self._options.properties.get(_TIMEOUT, _TIMEOUT_MS))


class KafkaSinkBuilder:
    """Builds a Kafka sink; needed are the servers and a record serializer.

    Source: org.apache.flink.connector.kafka.sink.KafkaSinkBuilder.
    """

    def __init__(self) -> None:
        self._options = KafkaSinkOptions()

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Set where the cluster is.

        Args:
            bootstrap_servers: Hosts with ports, with commas between.

        Raises:
            TypeError: It is no text.
        """
        return self.set_property("bootstrap.servers", text("bootstrap_servers", bootstrap_servers))

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Set how often each record is written; by default nothing is guaranteed, as in Flink.

        Args:
            delivery_guarantee: NONE sends and does not wait. AT_LEAST_ONCE waits at each checkpoint until all records
                are delivered. EXACTLY_ONCE publishes the records of a checkpoint in one transaction.

        Raises:
            TypeError: It is no DeliveryGuarantee.
        """
        guarantee = instance("delivery_guarantee", delivery_guarantee, DeliveryGuarantee)
        self._options = replace(self._options, guarantee=guarantee)
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Set how transactional ids begin; the job, the sink and the run follow, so no two jobs need to differ in it.

        Args:
            transactional_id_prefix: At most 64,000 bytes; for rules of access (ACLs) of the cluster.

        Raises:
            ValueError: It is empty or too long.
        """
        if not 0 < len(transactional_id_prefix.encode()) <= 64_000:
            msg = "transactional_id_prefix must have 1 to 64,000 bytes."
            raise ValueError(msg)
        self._options = replace(self._options, prefix=transactional_id_prefix)
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """Set what makes Kafka's records of the job's.

        Args:
            record_serializer: The serializer.

        Raises:
            TypeError: It is no KafkaRecordSerializationSchema.
        """
        otherwise = "KafkaRecordSerializationSchema.builder() makes one of a topic and a schema of values"
        schema = instance("record_serializer", record_serializer, KafkaRecordSerializationSchema, otherwise)
        self._options = replace(self._options, schema=schema)
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Set a property of the client, by Java's or librdkafka's name.

        Args:
            key: Its name.
            value: Its value.
        """
        self._options = replace(self._options, properties={**self._options.properties, key: str(value)})
        return self

    def build(self) -> KafkaSink:
        """Return the sink.

        Raises:
            ValueError: Something is missing.
            KafkaPropertyError: A property cannot be used.
        """
        options = self._options
        if options.schema is None:
            msg = "The Kafka sink has no record serializer: call set_record_serializer."
            raise ValueError(msg)
        require_servers(options.properties)
        given = options.properties.get(_TIMEOUT, "1")
        if not given.isdigit() or not int(given):
            raise KafkaPropertyError(_TIMEOUT, f"{given!r} is no number of milliseconds")
        for_producer(options.properties)
        if options.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return ExactlyOnceKafkaSink(options)
        return KafkaSink(options)


show("penstock.datastream.connectors.kafka", KafkaSink, KafkaSinkBuilder)
