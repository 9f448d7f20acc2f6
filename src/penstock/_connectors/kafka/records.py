"""Records of Kafka as deserializers see them, and what becomes of those that no deserializer can read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from penstock._shelf import show

if TYPE_CHECKING:
    from penstock.common.serialization import DeserializationSchema
    from penstock.common.typeinfo import TypeInformation


@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """A record of a topic with all that Kafka says about it.

    Source: org.apache.kafka.clients.consumer.ConsumerRecord.

    Args:
        topic: The topic.
        partition: The partition.
        offset: The position in the partition.
        timestamp: Milliseconds since the epoch; None without one.
        key: The key; None without one.
        value: The value; None marks a deleted key of a compacted topic.
        headers: Names and values, in order; a name may occur twice.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class KafkaBadRecord:
    """A record that could not be deserialized, emitted in place of it where the source is told so.

    Args:
        record: The record as it is in Kafka.
        error: What the deserializer said.
    """

    record: KafkaRecord
    error: str


class KafkaRecordDeserializationSchema(ABC):
    """Makes records of the job of Kafka's, with keys, headers and positions.

    Source: org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema.

    Example:
        >>> class Keyed(KafkaRecordDeserializationSchema):
        ...     def deserialize(self, record):
        ...         return record.key, record.value
        >>> Keyed().deserialize(KafkaRecord("t", 0, 7, None, b"k", b"v"))
        (b'k', b'v')
    """

    @abstractmethod
    def deserialize(self, record: KafkaRecord) -> Any:
        """Return the record of the job; None drops it."""

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records; None if it is not known."""
        return None

    @staticmethod
    def value_only(deserialization_schema: DeserializationSchema) -> KafkaRecordDeserializationSchema:
        """Return the schema that reads values alone.

        Args:
            deserialization_schema: Reads a value.
        """
        return ValueOnly(deserialization_schema)


@dataclass(frozen=True)
class ValueOnly(KafkaRecordDeserializationSchema):
    """Reads values alone, in blocks."""

    schema: DeserializationSchema = field(repr=False)

    def deserialize(self, record: KafkaRecord) -> Any:
        """Return what the value says."""
        return self.of_value(record.value)

    def of_value(self, value: bytes | None) -> Any:
        """Return what a value says.

        Raises:
            ValueError: There is none.
        """
        if value is None:
            msg = "it has no value, as a deleted key of a compacted topic; read it by set_deserializer"
            raise ValueError(msg)
        return self.schema.deserialize(value)

    def of_values(self, values: list[bytes | None]) -> list[Any]:
        """Return what values say.

        Raises:
            Exception: One of them cannot be read; which one, `of_value` tells.
        """
        if None in values:
            return [self.of_value(value) for value in values]
        return self.schema.deserialize_all(cast("list[bytes]", values))

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the value's schema."""
        return self.schema.get_produced_type()


show("penstock.datastream.connectors.kafka", KafkaBadRecord, KafkaRecord, KafkaRecordDeserializationSchema)
