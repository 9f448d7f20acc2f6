"""Types, rows, time, configuration and jobs (``pyflink.common``)."""

from penstock._absent import explain
from penstock.common._codecs.avro_rows import AvroRowDeserializationSchema, AvroRowSerializationSchema
from penstock.common._codecs.csv_rows import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.common._codecs.json_rows import JsonRowDeserializationSchema, JsonRowSerializationSchema
from penstock.common.completable_future import CompletableFuture
from penstock.common.config_options import ConfigOption, ConfigOptions
from penstock.common.configuration import Configuration
from penstock.common.execution_config import ExecutionConfig
from penstock.common.job_client import JobClient
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_listener import JobListener
from penstock.common.job_status import JobStatus
from penstock.common.order import Order
from penstock.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from penstock.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from penstock.common.serializer import TypeSerializer
from penstock.common.time import Duration, Instant, Time
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types import Row, RowKind
from penstock.common.watermark_strategy import (
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)

__all__ = [
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobListener",
    "JobStatus",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "Order",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]

explain(__name__)
