"""What programs give wrongly to builders of sources and sinks is told at that call, with a way out and no secret."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.kit.cells import cells

from penstock.common import Encoder, SimpleStringSchema, WatermarkStrategy
from penstock.common.time import Duration
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.base import FunctionSource
from penstock.datastream.connectors.datagen import DataGeneratorSource
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.elasticsearch import Elasticsearch7SinkBuilder
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileSink,
    FileSource,
    OutputFileConfig,
    StreamFormat,
)
from penstock.datastream.connectors.iceberg import IcebergSink, IcebergSource
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.connectors.postgres import PostgresChangeSource, PostgresSink, PostgresSource
from penstock.datastream.formats.arrow import ArrowBulkWriters
from penstock.datastream.formats.avro import AvroBulkWriters, AvroFormat
from penstock.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetFormat
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable


def rows() -> Any:
    return FileSink.for_row_format("/data", Encoder.simple_string_encoder())


def bulk() -> Any:
    return FileSink.for_bulk_format("/data", ParquetBulkWriters.for_schema())


#: A call, and what its TypeError says.
CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "topics in a list": (
        lambda: KafkaSource.builder().set_topics(["a"]),
        r"topics must be texts, one by one, not \['a",
    ),
    "servers in a list": (
        lambda: KafkaSource.builder().set_bootstrap_servers(["a:1"]),
        "bootstrap_servers must be a te",
    ),
    "servers of a sink in a list": (
        lambda: KafkaSink.builder().set_bootstrap_servers(["a:1"]),
        "bootstrap_servers mus",
    ),
    "a beginning as text": (
        lambda: KafkaSource.builder().set_starting_offsets("earliest"),
        r"must be a KafkaOffsetsInitializer, not 'earliest'; KafkaOffsetsInitializer.earliest\(\) is one",
    ),
    "an end as a function": (
        lambda: KafkaSource.builder().set_bounded(KafkaOffsetsInitializer.latest),
        "stopping_offsets_initializer must be a KafkaOffsetsInitializer",
    ),
    "another end as text": (lambda: KafkaSource.builder().set_unbounded("latest"), "stopping_offsets_initializer"),
    "a class of schemas": (
        lambda: KafkaSource.builder().set_value_only_deserializer(SimpleStringSchema),
        "must be a DeserializationSchema, not the class SimpleStringSchema; an object of it is meant",
    ),
    "a schema of values for records": (
        lambda: KafkaSource.builder().set_deserializer(SimpleStringSchema()),
        r"not a SimpleStringSchema; set_value_only_deserializer\(\) takes",
    ),
    "a guarantee as text": (
        lambda: KafkaSink.builder().set_delivery_guarantee("exactly-once"),
        "must be a DeliveryGuarantee, not 'exactly-once'; there are DeliveryGuarantee.EXACTLY_ONCE, ",
    ),
    "values in place of records": (
        lambda: KafkaSink.builder().set_record_serializer(SimpleStringSchema()),
        r"not a SimpleStringSchema; KafkaRecordSerializationSchema.builder\(\) makes one",
    ),
    "an unfinished serializer": (
        lambda: KafkaSink.builder().set_record_serializer(KafkaRecordSerializationSchema.builder()),
        r"not a KafkaRecordSerializationSchemaBuilder; call its build\(\)",
    ),
    "a topic in a list": (lambda: KafkaRecordSerializationSchema.builder().set_topic(["a"]), "topic must be a text"),
    "a function of values": (
        lambda: KafkaRecordSerializationSchema.builder().set_value_serialization_schema(str.encode),
        "value_serialization_schema must be a SerializationSchema",
    ),
    "a function of keys": (
        lambda: KafkaRecordSerializationSchema.builder().set_key_serialization_schema(str.encode),
        "key_serialization_schema must be a SerializationSchema",
    ),
    "tables in a list": (lambda: PostgresChangeSource.builder().set_tables(["a"]), "tables must be texts, one by one"),
    "columns in a list": (lambda: PostgresSource.builder().set_columns(["a"]), "columns must be texts, one by one"),
    "a key in a list": (lambda: PostgresSource.builder().set_key_columns(["a"]), "columns must be texts, one by one"),
    "a sink's columns": (lambda: PostgresSink.builder().set_columns(["a"]), "columns must be texts, one by one"),
    "a sink's key": (lambda: PostgresSink.builder().set_key_columns(["a"]), "columns must be texts, one by one"),
    "a sink's guarantee": (
        lambda: PostgresSink.builder().set_delivery_guarantee("once"),
        "must be a DeliveryGuarantee",
    ),
    "a number of seconds": (lambda: PostgresSink.builder().set_connect_timeout(5), r"Duration, not 5; Duration.of_sec"),
    "an emitter's function": (
        lambda: Elasticsearch7SinkBuilder().set_emitter(str),
        r"ElasticsearchEmitter, not the class str; ElasticsearchEmitter.from_function\(\) makes one",
    ),
    "documents' guarantee": (lambda: Elasticsearch7SinkBuilder().set_delivery_guarantee("none"), "DeliveryGuarantee"),
    "a name of delays": (
        lambda: Elasticsearch7SinkBuilder().set_bulk_flush_backoff_strategy("EXPONENTIAL", 8, 100),
        "must be a FlushBackoffType, not 'EXPONENTIAL'; there are FlushBackoffType.CONSTANT",
    ),
    "a format by its name": (
        lambda: FileSource.for_record_stream_format("csv", "/data"),
        r"stream_format must be a FileFormat, not 'csv'",
    ),
    "lines in batches": (
        lambda: FileSource.for_bulk_file_format(StreamFormat.text_line_format(), "/data"),
        r"must be a BulkFormat, not .*; for_record_stream_format\(\) takes",
    ),
    "paths in a list": (
        lambda: FileSource.for_bulk_file_format(ParquetFormat(), ["/data"]),
        r"A path is a str .*\['/d",
    ),
    "a function as encoder": (
        lambda: FileSink.for_row_format("/data", str),
        r"must be an Encoder, not the class str; Encoder.simple_string_encoder\(\) writes",
    ),
    "an encoder of batches": (
        lambda: FileSink.for_bulk_format("/data", Encoder.simple_string_encoder()),
        r"must be a BulkWriterFactory, .*; ParquetBulkWriters.for_schema\(schema\) is one",
    ),
    "a function of buckets": (lambda: rows().with_bucket_assigner(str), "must be a BucketAssigner, .*; subclass it"),
    "a class of buckets": (lambda: rows().with_bucket_assigner(BucketAssigner), "an object of it is meant"),
    "a policy as number": (lambda: rows().with_rolling_policy(5), "rolling_policy must be a RollingPolicy, not 5"),
    "a policy of batches": (lambda: bulk().with_rolling_policy(5), "rolling_policy must be a RollingPolicy, not 5"),
    "names of files": (
        lambda: rows().with_output_file_config(OutputFileConfig.builder()),
        r"must be an OutputFileConfig, .*call its build\(\)",
    ),
    "compaction by number": (
        lambda: rows().enable_compact(10, FileCompactor.concat_file_compactor()),
        "strategy must be a FileCompactStrategy, not 10",
    ),
    "an unfinished sink": (
        lambda: StreamExecutionEnvironment.get_execution_environment().from_collection([1]).sink_to(rows()),
        r"sink must be a Sink, not a RowFormatBuilder; call its build\(\)",
    ),
    "an unfinished source": (
        lambda: StreamExecutionEnvironment.get_execution_environment().from_source(
            KafkaSource.builder(), WatermarkStrategy.no_watermarks(), "words"
        ),
        r"source must be a Source, not a KafkaSourceBuilder; call its build\(\)",
    ),
    "a dict as columns of Parquet": (
        lambda: ParquetBulkWriters.for_schema({"a": "int"}),
        r"must be a Schema, .*pa\.sche",
    ),
    "a list as columns of Arrow": (lambda: ArrowBulkWriters.for_schema(["a"]), r"must be a Schema, .*pa\.schema"),
    "a dict as columns of a table": (lambda: DeltaSink("/data", {"a": "int"}), r"must be a Schema, .*pa\.schema"),
    "a list as columns of a table": (lambda: IcebergSink("a.b", {}, ["a"]), r"must be a Schema, .*pa\.schema"),
    "a catalog's address": (lambda: IcebergSink("a.b", "sqlite:///a"), "catalog must be the options .*, not a str"),
    "a source's catalog": (lambda: IcebergSource("a.b", "sqlite:///a"), "catalog must be the options .*, not a str"),
    "an unfinished schema": (
        lambda: CsvReaderFormat.for_schema(CsvSchema.builder()),
        r"CsvSchema, .*call its build\(\)",
    ),
    "names of columns": (lambda: CsvBulkWriters.for_schema(["a"]), r"must be a CsvSchema, not \['a'\]; CsvSchema.buil"),
    "a definition as schema": (
        lambda: AvroFormat({"type": "string"}),
        r"AvroSchema, .*; AvroSchema.parse_string\(\) r",
    ),
    "a text as schema": (lambda: AvroBulkWriters.for_generic_record("{}"), r"AvroSchema, .*; AvroSchema.parse_string"),
    "a number as rate": (lambda: DataGeneratorSource(abs, 10, 500), r"RateLimiterStrategy, not 500; .*per_second\(500"),
    "a number of splits": (lambda: FunctionSource(lambda split, offset: [], 3), "splits must be a list of names"),
    "the name of a split": (lambda: FunctionSource(lambda split, offset: [], "all"), "splits must be a list of names"),
    "numbers of splits": (lambda: FunctionSource(lambda split, offset: [], [1, 2]), "splits must be texts"),
}


@cells("call, message", CALLS)
def test_a_wrong_argument_is_told_where_it_is_given(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_right_arguments_of_each_kind_are_taken() -> None:
    FileSource.for_bulk_file_format(ParquetFormat(), Path("/data"), "/more")
    ParquetBulkWriters.for_schema(pa.schema([("id", pa.int64())]))
    PostgresSource.builder().set_url("").set_connect_timeout(Duration.of_seconds(1)).set_table("t").build()


@cells(
    "url, message",
    [
        ("jdbc:postgresql://u:hunter2@h/x", "neither a URL .*; leave out jdbc: before it"),
        ("mysql://u:hunter2@h/x", "neither a URL"),
        ("postgresql://u:hunter2@h/x?sslmod=require", "an option that libpq does not know, which reads like sslmode"),
        ("host=h pasword=hunter2", "an option that libpq does not know, which reads like password"),
        ("postgresql://u@h/x?hunter2=word", "an option that libpq does not know"),
        ("postgresql://u:hunter2%zz@h/x", "neither a URL"),
    ],
)
def test_a_url_that_libpq_does_not_take_is_explained_without_its_text(url: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as raised:
        PostgresSource.builder().set_url(url)
    assert "hunter2" not in str(raised.value)


@cells("builder", [PostgresSource.builder, PostgresSink.builder])
def test_a_builder_without_a_url_is_told_so(builder: Callable[[], Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"set_url .*must be called before build"):
        builder().set_table("orders").build()
