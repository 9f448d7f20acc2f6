"""The Kafka source and its builder."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from penstock._api.connectors.source import Boundedness, Source
from penstock._connectors.kafka.enumerator import Discovery
from penstock._connectors.kafka.positions import KafkaOffsetsInitializer, KafkaTopicPartition, Subscription
from penstock._connectors.kafka.properties import for_consumer, require_servers
from penstock._connectors.kafka.reader import EMIT, FAIL, SKIP
from penstock._connectors.kafka.records import KafkaRecordDeserializationSchema
from penstock._shelf import show
from penstock.common.arguments import instance, text, texts
from penstock.common.serialization import DeserializationSchema
from penstock.errors import KafkaPropertyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._api.connectors.reader import SourceReaderContext
    from penstock._api.connectors.source import SplitEnumeratorContext
    from penstock._connectors.kafka.enumerator import KafkaCheckpoint, KafkaEnumerator, KafkaPartitionSplit
    from penstock._connectors.kafka.reader import KafkaReader
    from penstock.common.typeinfo import TypeInformation

_DISCOVERY: Final = "partition.discovery.interval.ms"
_COMMITS: Final = "commit.offsets.on.checkpoint"
_CLIENT_PREFIX: Final = "client.id.prefix"
#: Of the connector, not of the client.
_OURS: Final = frozenset({_DISCOVERY, _COMMITS, _CLIENT_PREFIX, "auto.offset.reset"})
#: Flink's default of `partition.discovery.interval.ms`.
_DISCOVERY_MS: Final = 300_000


@dataclass(frozen=True, slots=True)
class KafkaSourceOptions:
    """What a builder has gathered."""

    properties: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    subscription: Subscription = field(default_factory=Subscription)
    starting: KafkaOffsetsInitializer = field(default_factory=KafkaOffsetsInitializer.earliest)
    stopping: KafkaOffsetsInitializer | None = None
    boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    schema: KafkaRecordDeserializationSchema | None = None
    bad_records: str = FAIL


class KafkaSource(Source[Any, "KafkaPartitionSplit", "KafkaCheckpoint"]):
    """Reads topics of Kafka; ``KafkaSource.builder()`` begins one.

    Each partition has a watermark of its own, and is read by one subtask. The positions are in the checkpoints; with a
    consumer group they are also committed to Kafka once a checkpoint is durable, for tools that show the lag.

    Source: org.apache.flink.connector.kafka.source.KafkaSource.

    Example:
        >>> from penstock.common import SimpleStringSchema
        >>> from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
        >>> source = (
        ...     KafkaSource.builder()
        ...     .set_bootstrap_servers("localhost:9092")
        ...     .set_topics("orders")
        ...     .set_bounded(KafkaOffsetsInitializer.latest())
        ...     .set_value_only_deserializer(SimpleStringSchema())
        ...     .build()
        ... )
        >>> source.get_boundedness()
        <Boundedness.BOUNDED: 'bounded'>
    """

    def __init__(self, options: KafkaSourceOptions) -> None:
        self._options = options

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Begin a source."""
        return KafkaSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED where ``set_bounded`` was called."""
        return self._options.boundedness

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the deserializer's records; None where bad records are among them."""
        schema = self._options.schema
        return None if schema is None or self._options.bad_records == EMIT else schema.get_produced_type()

    def create_enumerator(self, enum_context: SplitEnumeratorContext[KafkaPartitionSplit]) -> KafkaEnumerator:
        """Make the enumerator, which asks the cluster when it starts."""
        return self._enumerator(enum_context, None)

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[KafkaPartitionSplit], checkpoint: KafkaCheckpoint
    ) -> KafkaEnumerator:
        """Continue with the partitions that no reader has; all others have their positions."""
        return self._enumerator(enum_context, checkpoint)

    def _enumerator(
        self, context: SplitEnumeratorContext[KafkaPartitionSplit], checkpoint: KafkaCheckpoint | None
    ) -> KafkaEnumerator:
        from penstock._connectors.kafka.broker import Broker
        from penstock._connectors.kafka.enumerator import KafkaEnumerator

        options = self._options
        properties = self._client_properties("enumerator")
        group_id = options.properties.get("group.id", "")
        return KafkaEnumerator(
            context,
            Discovery(options.subscription, options.starting, options.stopping, self._discovery_ms()),
            lambda: Broker(properties, group_id or "penstock"),
            commits=bool(group_id) and options.properties.get(_COMMITS, "true").lower() != "false",
            checkpoint=checkpoint,
        )

    def _discovery_ms(self) -> int | None:
        """Return the time between two looks for partitions; None where all are known at the start."""
        options = self._options
        given = options.properties.get(_DISCOVERY)
        is_over = options.boundedness is Boundedness.BOUNDED or (options.stopping is not None and given is None)
        interval_ms = int(given or _DISCOVERY_MS)
        return None if is_over or interval_ms <= 0 else interval_ms

    def create_reader(self, reader_context: SourceReaderContext) -> KafkaReader:
        """Make a reader, which connects when it has a partition."""
        from penstock._connectors.kafka.reader import KafkaReader

        options = self._options
        assert options.schema is not None
        return KafkaReader(
            reader_context,
            self._client_properties(str(reader_context.index_of_subtask)),
            options.schema,
            bad_records=options.bad_records,
            reset=options.properties.get("auto.offset.reset", "none").replace("none", ""),
        )

    def _client_properties(self, who: str) -> dict[str, str]:
        given = self._options.properties
        properties = {key: value for key, value in given.items() if key not in _OURS}
        prefix = given.get(_CLIENT_PREFIX) or given.get("group.id")
        if prefix:
            properties["client.id"] = f"{prefix}-{who}"
        properties.setdefault("group.id", "penstock")  # the client wants one; nothing is committed to it
        return properties


class KafkaSourceBuilder:
    """Builds a Kafka source.

    Needed are the servers, what to read, and a deserializer.

    Source: org.apache.flink.connector.kafka.source.KafkaSourceBuilder.
    """

    def __init__(self) -> None:
        self._options = KafkaSourceOptions()

    def _with(self, **changes: Any) -> KafkaSourceBuilder:
        self._options = replace(self._options, **changes)
        return self

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Set where the cluster is.

        Args:
            bootstrap_servers: Hosts with ports, with commas between.

        Raises:
            TypeError: It is no text.
        """
        return self.set_property("bootstrap.servers", text("bootstrap_servers", bootstrap_servers))

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """Set the consumer group to which positions are committed with checkpoints.

        Args:
            group_id: The group.
        """
        return self.set_property("group.id", group_id)

    def _subscribe(self, subscription: Subscription) -> KafkaSourceBuilder:
        if self._options.subscription != Subscription():
            msg = (
                f"The source reads {self._options.subscription} already; call one of set_topics, set_topic_pattern and "
            )
            raise ValueError(f"{msg}set_partitions once.")
        return self._with(subscription=subscription)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Set the topics to read, all of which have to exist.

        Args:
            *topics: The topics.

        Raises:
            TypeError: One is no text.
            ValueError: None was given, or something else was set before.
        """
        if not topics:
            msg = "set_topics needs a topic."
            raise ValueError(msg)
        return self._subscribe(Subscription(topics=tuple(dict.fromkeys(texts("topics", topics)))))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Set the pattern of the topics to read; topics that are made later are found, too.

        Args:
            topic_pattern: A regular expression of Python for the whole name.

        Raises:
            ValueError: It is invalid, or something else was set before.
        """
        try:
            re.compile(topic_pattern)
        except re.error as error:
            msg = f"topic_pattern {topic_pattern!r} is no regular expression of Python: {error}."
            raise ValueError(msg) from None
        return self._subscribe(Subscription(pattern=topic_pattern))

    def set_partitions(self, partitions: Iterable[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Set the partitions to read.

        Args:
            partitions: The partitions.

        Raises:
            ValueError: None was given, or something else was set before.
        """
        chosen = frozenset(KafkaTopicPartition(*partition) for partition in partitions)
        if not chosen:
            msg = "set_partitions needs a partition."
            raise ValueError(msg)
        return self._subscribe(Subscription(chosen=chosen))

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Set where partitions begin that exist when the source starts; by default at their first record.

        Args:
            starting_offsets_initializer: Such as ``KafkaOffsetsInitializer.latest()``.

        Raises:
            TypeError: It is no KafkaOffsetsInitializer.
        """
        return self._with(starting=_checked("starting_offsets_initializer", starting_offsets_initializer))

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Set where the source ends, which counts as unbounded nevertheless.

        It looks for no new partitions then, unless ``partition.discovery.interval.ms`` is set.

        Args:
            stopping_offsets_initializer: The first offsets that are not read.

        Raises:
            TypeError: It is no KafkaOffsetsInitializer.
        """
        stopping = _checked("stopping_offsets_initializer", stopping_offsets_initializer)
        return self._with(stopping=stopping, boundedness=Boundedness.CONTINUOUS_UNBOUNDED)

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Set where the source ends, which is bounded by that.

        Args:
            stopping_offsets_initializer: The first offsets that are not read.

        Raises:
            TypeError: It is no KafkaOffsetsInitializer.
        """
        stopping = _checked("stopping_offsets_initializer", stopping_offsets_initializer)
        return self._with(stopping=stopping, boundedness=Boundedness.BOUNDED)

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> KafkaSourceBuilder:
        """Set the deserializer of values; keys and headers are not looked at.

        Args:
            deserialization_schema: The deserializer.

        Raises:
            TypeError: It is no DeserializationSchema.
        """
        otherwise = "SimpleStringSchema() is one"
        instance("deserialization_schema", deserialization_schema, DeserializationSchema, otherwise)
        return self.set_deserializer(KafkaRecordDeserializationSchema.value_only(deserialization_schema))

    def set_deserializer(self, record_deserializer: KafkaRecordDeserializationSchema) -> KafkaSourceBuilder:
        """Set the deserializer of whole records: keys, values, headers and positions.

        Source: KafkaSourceBuilder.setDeserializer of Flink; PyFlink does not have it.

        Args:
            record_deserializer: The deserializer.

        Raises:
            TypeError: It is no KafkaRecordDeserializationSchema.
        """
        otherwise = "set_value_only_deserializer() takes a schema of values"
        schema = instance("record_deserializer", record_deserializer, KafkaRecordDeserializationSchema, otherwise)
        return self._with(schema=schema)

    def set_bad_records(self, policy: Literal["fail", "skip", "emit"]) -> KafkaSourceBuilder:
        """Set what becomes of records that the deserializer raises at; not in Flink.

        Args:
            policy: ``fail`` fails the job, which is the default. ``skip`` counts them (``skippedRecords``) and logs
                each. ``emit`` emits a ``KafkaBadRecord`` for each, which a process function may
                send to a side output.

        Raises:
            ValueError: There is no such policy.
        """
        if policy not in {FAIL, SKIP, EMIT}:
            msg = f"policy must be fail, skip or emit, not {policy!r}."
            raise ValueError(msg)
        return self._with(bad_records=policy)

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """Set how the names begin by which brokers know the clients.

        Args:
            prefix: By default the consumer group.
        """
        return self.set_property(_CLIENT_PREFIX, prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """Set a property of the connector or of the client, by Java's or librdkafka's name.

        Args:
            key: Its name.
            value: Its value.
        """
        return self._with(properties={**self._options.properties, key: str(value)})

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder:
        """Set properties.

        Args:
            props: Values by name.
        """
        return self._with(properties={**self._options.properties, **{key: str(value) for key, value in props.items()}})

    def build(self) -> KafkaSource:
        """Return the source.

        Raises:
            ValueError: Something is missing.
            KafkaPropertyError: A property cannot be used.
        """
        options = self._options
        if options.subscription == Subscription():
            msg = "The Kafka source does not know what to read: call set_topics, set_topic_pattern or set_partitions."
            raise ValueError(msg)
        if options.schema is None:
            msg = "The Kafka source has no deserializer: call set_value_only_deserializer or set_deserializer."
            raise ValueError(msg)
        require_servers(options.properties)
        asked = [options.starting, *filter(None, [options.stopping])]
        if any(one.needs_group for one in asked) and "group.id" not in options.properties:
            raise KafkaPropertyError(
                "group.id", "it is not set, and committed offsets are a group's; call set_group_id"
            )
        _check(options.properties)
        return KafkaSource(options)


def _checked(name: str, initializer: object) -> KafkaOffsetsInitializer:
    return instance(name, initializer, KafkaOffsetsInitializer, "KafkaOffsetsInitializer.earliest() is one")


def _check(properties: Mapping[str, str]) -> None:
    """Check the values of the connector's properties, and that all others can be translated."""
    try:
        int(properties.get(_DISCOVERY, "0"))
    except ValueError:
        raise KafkaPropertyError(_DISCOVERY, f"{properties[_DISCOVERY]!r} is no number of milliseconds") from None
    if properties.get("auto.offset.reset", "none") not in {"none", "earliest", "latest"}:
        raise KafkaPropertyError("auto.offset.reset", "it must be none, earliest or latest")
    for_consumer({key: value for key, value in properties.items() if key not in _OURS})


show("penstock.datastream.connectors.kafka", KafkaSource, KafkaSourceBuilder)
