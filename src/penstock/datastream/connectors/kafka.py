"""Kafka as source and as sink (``pyflink.datastream.connectors.kafka``); needs ``penstock[kafka]``."""

from __future__ import annotations

from penstock._absent import explain
from penstock._api.connectors.sink import DeliveryGuarantee
from penstock._connectors.kafka.positions import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from penstock._connectors.kafka.records import KafkaBadRecord, KafkaRecord, KafkaRecordDeserializationSchema
from penstock._connectors.kafka.serializing import (
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector,
)
from penstock._connectors.kafka.sink import KafkaSink, KafkaSinkBuilder
from penstock._connectors.kafka.source import KafkaSource, KafkaSourceBuilder

__all__ = [
    "DeliveryGuarantee",
    "KafkaBadRecord",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecord",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
]

explain(__name__)
