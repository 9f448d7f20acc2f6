"""Revenue by shop: orders come from Kafka, are summed up by key, and the sums go into Elasticsearch."""

import json
import sys

from penstock.common import SimpleStringSchema, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.elasticsearch import Elasticsearch7SinkBuilder, ElasticsearchEmitter
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource


def main(kafka: str = "localhost:9092", search: str = "localhost:9200") -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    orders = (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka)
        .set_topics("orders")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    revenue = (
        Elasticsearch7SinkBuilder()
        .set_hosts(search)
        .set_emitter(ElasticsearchEmitter.static_index("revenue", "shop"))
        .build()
    )
    (
        env.from_source(orders, WatermarkStrategy.no_watermarks(), "orders")
        .uid("orders")
        .map(lambda line: {"orders": 1, **json.loads(line)})
        .key_by(lambda order: order["shop"])
        .reduce(lambda a, b: {**a, "orders": a["orders"] + b["orders"], "cents": a["cents"] + b["cents"]})
        .uid("sums")
        .sink_to(revenue)
        .uid("revenue")
    )
    env.execute("revenue")


if __name__ == "__main__":
    main(*sys.argv[1:])
