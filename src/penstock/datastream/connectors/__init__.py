"""Sources and sinks (``pyflink.datastream.connectors``).

Like :mod:`penstock.datastream`, this package loads a connector when one of its names is first used, so a job loads the
client libraries of its own connectors only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock._absent import absent

if TYPE_CHECKING:
    from penstock.datastream.connectors.base import DeliveryGuarantee as DeliveryGuarantee
    from penstock.datastream.connectors.base import Sink as Sink
    from penstock.datastream.connectors.base import Source as Source
    from penstock.datastream.connectors.datagen import DataGeneratorSource as DataGeneratorSource
    from penstock.datastream.connectors.file_system import BucketAssigner as BucketAssigner
    from penstock.datastream.connectors.file_system import FileEnumeratorProvider as FileEnumeratorProvider
    from penstock.datastream.connectors.file_system import FileSink as FileSink
    from penstock.datastream.connectors.file_system import FileSource as FileSource
    from penstock.datastream.connectors.file_system import FileSourceBuilder as FileSourceBuilder
    from penstock.datastream.connectors.file_system import FileSplitAssignerProvider as FileSplitAssignerProvider
    from penstock.datastream.connectors.file_system import OutputFileConfig as OutputFileConfig
    from penstock.datastream.connectors.file_system import RollingPolicy as RollingPolicy
    from penstock.datastream.connectors.file_system import StreamFormat as StreamFormat
    from penstock.datastream.connectors.jdbc import JdbcConnectionOptions as JdbcConnectionOptions
    from penstock.datastream.connectors.jdbc import JdbcExecutionOptions as JdbcExecutionOptions
    from penstock.datastream.connectors.jdbc import JdbcSink as JdbcSink
    from penstock.datastream.connectors.kafka import KafkaOffsetResetStrategy as KafkaOffsetResetStrategy
    from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer as KafkaOffsetsInitializer
    from penstock.datastream.connectors.kafka import (
        KafkaRecordDeserializationSchema as KafkaRecordDeserializationSchema,
    )
    from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema as KafkaRecordSerializationSchema
    from penstock.datastream.connectors.kafka import KafkaSink as KafkaSink
    from penstock.datastream.connectors.kafka import KafkaSource as KafkaSource
    from penstock.datastream.connectors.kafka import KafkaTopicPartition as KafkaTopicPartition
    from penstock.datastream.connectors.number_seq import NumberSequenceSource as NumberSequenceSource

_NAMES_OF_MODULES = {
    "base": ("DeliveryGuarantee", "Sink", "Source"),
    "datagen": ("DataGeneratorSource",),
    "file_system": (
        *("BucketAssigner", "FileEnumeratorProvider", "FileSink", "FileSource", "FileSourceBuilder"),
        *("FileSplitAssignerProvider", "OutputFileConfig", "RollingPolicy", "StreamFormat"),
    ),
    "jdbc": ("JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"),
    "kafka": (
        *("KafkaOffsetResetStrategy", "KafkaOffsetsInitializer", "KafkaRecordDeserializationSchema"),
        *("KafkaRecordSerializationSchema", "KafkaSink", "KafkaSource", "KafkaTopicPartition"),
    ),
    "number_seq": ("NumberSequenceSource",),
}
_MODULE_OF_NAME = {name: module for module, names in _NAMES_OF_MODULES.items() for name in names}

__all__ = [
    "BucketAssigner",
    "DataGeneratorSource",
    "DeliveryGuarantee",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "JdbcConnectionOptions",
    "JdbcExecutionOptions",
    "JdbcSink",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaSink",
    "KafkaSource",
    "KafkaTopicPartition",
    "NumberSequenceSource",
    "OutputFileConfig",
    "RollingPolicy",
    "Sink",
    "Source",
    "StreamFormat",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF_NAME.get(name)
    if module is None:
        raise absent(__name__, name)
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
