"""Makes Kafka's records of the job's: topic, partition, key, value and headers."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from penstock._shelf import show
from penstock.common.arguments import instance, text
from penstock.common.serialization import SerializationSchema
from penstock.common.user_values import short_repr
from penstock.errors import KafkaRecordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Names of topics that Kafka allows.
_TOPIC: Final = re.compile(r"(?!\.\.?$)[a-zA-Z0-9._-]{1,249}")
#: Names and values of headers; a name may occur twice.
Headers: TypeAlias = "Sequence[tuple[str, bytes | None]]"
#: Chooses a partition: (record, key, value, topic, partitions) -> partition.
Partitioner: TypeAlias = Callable[[Any, "bytes | None", "bytes | None", str, "Sequence[int]"], int]


class OutRecord(NamedTuple):
    """A record as the client sends it."""

    topic: str
    value: bytes | None
    key: bytes | None
    #: Milliseconds since the epoch; None is the time at which it is sent.
    timestamp: int | None
    headers: Headers | None
    #: None lets the client choose by the key.
    partition: int | None


class KafkaTopicSelector(ABC):
    """Chooses the topic of a record.

    Source: org.apache.flink.connector.kafka.sink.TopicSelector.
    """

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Return the topic of a record."""


@dataclass(frozen=True)
class _Parts:
    topic: str | None = None
    selector: Callable[[Any], str] | None = None
    key: SerializationSchema | None = None
    value: SerializationSchema | None = None
    partitioner: Partitioner | None = None
    headers: Callable[[Any], Headers | Mapping[str, bytes | None] | None] | None = None


class KafkaRecordSerializationSchema(SerializationSchema):
    """Makes Kafka's records of the job's; ``KafkaRecordSerializationSchema.builder()`` begins one.

    Source: org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema.

    Example:
        >>> from penstock.common import SimpleStringSchema
        >>> schema = (
        ...     KafkaRecordSerializationSchema.builder()
        ...     .set_topic_selector(lambda word: f"words-{word[0]}")
        ...     .set_value_serialization_schema(SimpleStringSchema())
        ...     .build()
        ... )
        >>> schema.serialize("spark")
        b'spark'
    """

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts
        #: Names that a selector has returned, and that are allowed.
        self._topics: set[str] = set()

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Begin a schema."""
        return KafkaRecordSerializationSchemaBuilder()

    @property
    def has_partitioner(self) -> bool:
        """Whether it chooses partitions itself, and has to know them."""
        return self._parts.partitioner is not None

    def serialize(self, element: Any) -> bytes:
        """Return the value of a record."""
        assert self._parts.value is not None
        return self._parts.value.serialize(element)

    def records(
        self,
        elements: list[Any],
        timestamps: Sequence[int | None] | None,
        partitions_of: Callable[[str], Sequence[int]],
    ) -> list[OutRecord]:
        """Return Kafka's records of a block.

        Args:
            elements: The job's records.
            timestamps: Their times.
            partitions_of: Returns the partitions of a topic; called where there is a partitioner.

        Raises:
            KafkaRecordError: A record has no valid topic, partition or headers.
        """
        parts, value = self._parts, self._parts.value
        assert value is not None
        stamps = [None] * len(elements) if timestamps is None else timestamps
        values = _all_bytes("value", value.serialize_all(elements), elements)
        keys: Sequence[bytes | None] = [None] * len(elements)
        if parts.key is not None:
            keys = _all_bytes("key", parts.key.serialize_all(elements), elements)
        if parts.selector is None and parts.headers is None and parts.partitioner is None:
            topic = parts.topic or ""
            return [
                OutRecord(topic, value, key, stamp, None, None)
                for value, key, stamp in zip(values, keys, stamps, strict=True)
            ]
        return [self._record(*one, partitions_of) for one in zip(elements, values, keys, stamps, strict=True)]

    def _record(
        self,
        element: Any,
        value: bytes | None,
        key: bytes | None,
        stamp: int | None,
        partitions_of: Callable[[str], Sequence[int]],
    ) -> OutRecord:
        parts = self._parts
        topic = parts.topic if parts.selector is None else parts.selector(element)
        if not isinstance(topic, str) or topic not in self._topics:
            if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
                reason = f"the topic selector returned {short_repr(topic)}, which is no name of a topic"
                raise _error(element, reason)
            self._topics.add(topic)
        headers: Any = None if parts.headers is None else parts.headers(element)
        if headers is not None:
            headers = _checked(headers.items() if hasattr(headers, "items") else headers, element)
        partition = None
        if parts.partitioner is not None:
            known = partitions_of(topic)
            partition = parts.partitioner(element, key, value, topic, known)
            if partition not in known:
                reason = f"the partitioner returned {partition!r}, and {topic} has the partitions 0 to {len(known) - 1}"
                raise _error(element, reason)
            partition = int(partition)
        return OutRecord(topic, value, key, stamp, headers, partition)


_BYTES: Final = frozenset({bytes, type(None)})


def _all_bytes(what: str, column: list[Any], elements: list[Any]) -> list[Any]:
    if _BYTES.issuperset(map(type, column)):
        return column
    return [_as_bytes(value, what, element) for value, element in zip(column, elements, strict=True)]


def _as_bytes(value: Any, what: str, element: Any) -> bytes | None:
    """Return what a schema or a function has returned as the client sends it: texts become UTF-8.

    Args:
        value: The value.
        what: What it is of the record, for the error.
        element: The record, for the error.

    Raises:
        KafkaRecordError: It is neither bytes nor a text, or a text that UTF-8 does not have.
    """
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return _utf_8(value, f"its {what}", element)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(cast("bytes", value))
    reason = f"its {what} is of type {type(value).__name__}, and Kafka's are bytes; return bytes, or a text"
    raise _error(element, reason)


def _utf_8(text: str, what: str, element: Any) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        reason = f"{what} has a character that UTF-8 does not have, {error.object[error.start]!a} at {error.start}"
        raise _error(element, reason) from None


def _error(element: Any, reason: str) -> KafkaRecordError:
    return KafkaRecordError(f"Writing the record {short_repr(element)}", reason)


def _checked(headers: Iterable[tuple[Any, Any]], element: Any) -> Headers:
    found: list[tuple[str, bytes | None]] = []
    for name, value in headers:
        if not isinstance(name, str):
            kind = type(name).__name__
            raise _error(element, f"the name {short_repr(name)} of a header is of type {kind}, and Kafka's are texts")
        if b"\0" in _utf_8(name, f"the name {short_repr(name)} of a header", element):
            reason = f"the name {short_repr(name)} of a header has a NUL character, at which the client cuts it off"
            raise _error(element, reason)
        found.append((name, _as_bytes(value, f"header {name!r}", element)))
    return tuple(found)


class KafkaRecordSerializationSchemaBuilder:
    """Builds a record serializer; needed are a topic or a selector, and a schema of values.

    Source: org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchemaBuilder.
    """

    def __init__(self) -> None:
        self._parts = _Parts()

    def _with(self, **changes: Any) -> KafkaRecordSerializationSchemaBuilder:
        self._parts = replace(self._parts, **changes)
        return self

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Set the topic of all records.

        Args:
            topic: The topic.

        Raises:
            TypeError: It is no text.
        """
        return self._with(topic=text("topic", topic), selector=None)

    def set_topic_selector(
        self, topic_selector: Callable[[Any], str] | KafkaTopicSelector
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set what chooses the topic of each record.

        Args:
            topic_selector: A function, or a selector.
        """
        selector = topic_selector.apply if isinstance(topic_selector, KafkaTopicSelector) else topic_selector
        return self._with(topic=None, selector=selector)

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the schema of keys, which gets whole records; without one there are no keys.

        Args:
            key_serialization_schema: The schema.

        Raises:
            TypeError: It is no SerializationSchema.
        """
        return self._with(key=_schema("key_serialization_schema", key_serialization_schema))

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the schema of values.

        Args:
            value_serialization_schema: The schema.

        Raises:
            TypeError: It is no SerializationSchema.
        """
        return self._with(value=_schema("value_serialization_schema", value_serialization_schema))

    def set_partitioner(self, partitioner: Partitioner) -> KafkaRecordSerializationSchemaBuilder:
        """Set the function that chooses partitions; without one the hash of the key does, as in Java.

        Source: KafkaPartitioner of Flink; PyFlink does not have it.

        Args:
            partitioner: Gets the record, its key and value, the topic, and the topic's partitions.
        """
        return self._with(partitioner=partitioner)

    def set_header_provider(
        self, header_provider: Callable[[Any], Headers | Mapping[str, bytes | None] | None]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the function that returns the headers of a record.

        Source: HeaderProvider of Flink; PyFlink does not have it.

        Args:
            header_provider: Returns names and values.
        """
        return self._with(headers=header_provider)

    def build(self) -> KafkaRecordSerializationSchema:
        """Return the schema.

        Raises:
            ValueError: The topic or the schema of values is missing, or the topic cannot be one's name.
        """
        parts = self._parts
        if not parts.topic and parts.selector is None:
            msg = "The record serializer has no topic: call set_topic or set_topic_selector."
            raise ValueError(msg)
        if parts.topic and not _TOPIC.fullmatch(parts.topic):
            msg = f"{parts.topic!r} is no name of a topic: up to 249 letters, digits, dots, hyphens and underscores."
            raise ValueError(msg)
        if parts.value is None:
            msg = "The record serializer has no schema of values: call set_value_serialization_schema."
            raise ValueError(msg)
        return KafkaRecordSerializationSchema(parts)


def _schema(name: str, schema: object) -> SerializationSchema:
    return instance(name, schema, SerializationSchema, "SimpleStringSchema() is one")


show(
    "penstock.datastream.connectors.kafka",
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector,
)
