"""JSON in Kafka, beside programs that read and write texts and call ``json``: processor time of a record.

    python benchmarks/json_kafka.py [pairs]

As `json_jobs.py` measures files: whole jobs in this process without Spark, slopes, pairs in turn. Jobs read from a
topic of a broker of the tests' own kind and write into one, at least once. *Only records* reads values and looks into
none, or makes the records and writes as many values that are known.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from confluent_kafka import Producer  # noqa: E402 - behind the path
from json_jobs import LARGE, ROW, SMALL, add_up, compare, dict_of, fields_of, numbers  # noqa: E402
from kafka import Broker, send  # noqa: E402
from tests.services.kafka import new_server  # noqa: E402

from penstock.common import SerializationSchema, SimpleStringSchema, WatermarkStrategy  # noqa: E402
from penstock.datastream.connectors.kafka import (  # noqa: E402
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema  # noqa: E402

if TYPE_CHECKING:
    from penstock.datastream import DataStream, StreamExecutionEnvironment


class Known(SerializationSchema):
    """Writes the same value for each record."""

    def __init__(self) -> None:
        self.value = json.dumps(dict_of(100_000)).encode()

    def serialize(self, value: Any) -> bytes:
        return self.value


class Topics:
    """Jobs that read from a topic and write into one.

    Args:
        servers: The address of a broker.
    """

    def __init__(self, servers: str) -> None:
        self._broker = Broker(servers)
        self._written = 0

    def fill(self, records: int) -> None:
        """Make the topic that jobs of so many records read."""
        name = self._broker.topic(f"read-{records}")
        producer = Producer({"bootstrap.servers": self._broker.bootstrap, "linger.ms": "20"})
        for number in range(records):
            send(producer, name, json.dumps(dict_of(number)).encode())
        producer.flush()

    def _values(self, env: StreamExecutionEnvironment, records: int, schema: Any) -> DataStream:
        source = KafkaSource.builder().set_bootstrap_servers(self._broker.bootstrap).set_topics(f"read-{records}")
        source = source.set_starting_offsets(KafkaOffsetsInitializer.earliest())
        source = source.set_bounded(KafkaOffsetsInitializer.latest()).set_value_only_deserializer(schema)
        return env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "values")

    def _into_topic(self, stream: DataStream, schema: Any) -> None:
        self._written += 1
        records = KafkaRecordSerializationSchema.builder().set_topic(self._broker.topic(f"written-{self._written}"))
        sink = KafkaSink.builder().set_bootstrap_servers(self._broker.bootstrap)
        sink = sink.set_record_serializer(records.set_value_serialization_schema(schema).build())
        stream.sink_to(sink.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build())

    def read_texts(self, env: StreamExecutionEnvironment, records: int, place: Path) -> None:
        """Read by hand."""
        texts = self._values(env, records, SimpleStringSchema())
        add_up(texts.map(json.loads).map(lambda record: record["id"]), place)

    def read_rows(self, env: StreamExecutionEnvironment, records: int, place: Path) -> None:
        """Read rows of a type."""
        schema = JsonRowDeserializationSchema.builder().type_info(ROW).build()
        add_up(self._values(env, records, schema).map(lambda row: row[0]), place)

    def read_nothing(self, env: StreamExecutionEnvironment, records: int, place: Path) -> None:
        """Read texts, and look into none."""
        add_up(self._values(env, records, SimpleStringSchema()).map(len), place)

    def write_texts(self, env: StreamExecutionEnvironment, records: int, place: Path) -> None:
        """Write by hand."""
        self._into_topic(numbers(env, records).map(dict_of).map(json.dumps), SimpleStringSchema())

    def write_rows(self, env: StreamExecutionEnvironment, records: int, place: Path) -> None:
        """Write rows of a type."""
        schema = JsonRowSerializationSchema.builder().with_type_info(ROW).build()
        self._into_topic(numbers(env, records).map(fields_of, ROW), schema)

    def only_dicts(self, env: StreamExecutionEnvironment, records: int, place: Path) -> None:
        """Make what `write_texts` writes, and write as many values that are known."""
        self._into_topic(numbers(env, records).map(dict_of), Known())

    def only_rows(self, env: StreamExecutionEnvironment, records: int, place: Path) -> None:
        """Make what `write_rows` writes, and write as many values that are known."""
        self._into_topic(numbers(env, records).map(fields_of, ROW), Known())


def main(pairs: int) -> None:
    """Print the figures."""
    with new_server() as server:
        topics = Topics(server.bootstrap)
        topics.fill(SMALL)
        topics.fill(LARGE)
        read, written = (topics.read_nothing, topics.read_nothing), (topics.only_dicts, topics.only_rows)
        compare("Values read as rows", topics.read_texts, topics.read_rows, pairs, read)
        compare("Rows written as values", topics.write_texts, topics.write_rows, pairs, written)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
