"""From Kafka to Kafka through a map by Bytewax 0.21's connectors: ``python bytewax_kafka.py BOOTSTRAP SOURCE TARGET``.

It prints the seconds that the dataflow took.
"""

import sys
import time

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main
from kafka_values import changed

BATCH = 10_000


def main(bootstrap: str, source: str, target: str) -> None:
    flow = Dataflow("kafka")
    read = op.input("read", flow, KafkaSource([bootstrap], [source], tail=False, batch_size=BATCH))
    made = op.map("map", read, lambda one: KafkaSinkMessage(None, changed(one.value.decode()).encode()))
    op.output("write", made, KafkaSink([bootstrap], target))
    start = time.perf_counter()
    run_main(flow)
    print(f"RESULT {time.perf_counter() - start}")


if __name__ == "__main__":
    main(*sys.argv[1:])
