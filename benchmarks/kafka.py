"""Kafka to Kafka through a map, exactly once, beside a bare loop of confluent-kafka and beside Bytewax's connectors.

    python benchmarks/kafka.py [records] [rounds] [1 to leave Bytewax out]

A broker of the tests' own kind holds records of 100 bytes in four partitions. Each side reads them from the first to
the last, changes each value as text by the same function, and writes it into a new topic, whose records are counted and
added up afterwards. Ours runs two subtasks in one Spark session that has run a small job before, and commits one
transaction for each checkpoint, every five seconds. The bare loop is one process with one consumer and one
transactional producer, commits every five seconds, too, and puts its offsets into the transaction. Bytewax has one
worker, no recovery store, and writes without transactions: it guarantees less. A side's time goes from its start until
its last record is committed. The sides take turns; the ratio is taken within a round.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

PROJECT = Path(__file__).resolve().parents[1]
sys.path.append(str(PROJECT))

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition  # noqa: E402
from confluent_kafka.admin import AdminClient, NewTopic  # noqa: E402
from environments import UnavailableError, prepare  # noqa: E402
from figures import Figures  # noqa: E402
from programs.kafka_values import changed, value_of  # noqa: E402
from tests.services.kafka import KafkaServer  # noqa: E402

from penstock.common import Configuration, SimpleStringSchema, WatermarkStrategy  # noqa: E402
from penstock.datastream import StreamExecutionEnvironment  # noqa: E402
from penstock.datastream.connectors.kafka import (  # noqa: E402
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SLOTS: Final = 2
PARTITIONS: Final = 4
BLOCK: Final = 10_000
COMMIT_S: Final = 5.0
PROGRAM: Final = Path(__file__).parent / "programs" / "bytewax_kafka.py"


class Broker:
    """Topics of the broker.

    Args:
        bootstrap: Where it is.
    """

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def topic(self, name: str) -> str:
        """Make a topic."""
        self._admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result()
        return name

    def drop(self, name: str) -> None:
        """Delete a topic."""
        self._admin.delete_topics([name])[name].result()

    def fill(self, name: str, count: int) -> None:
        """Write the values of the numbers from 0 on."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": "20"})
        for number in range(count):
            send(producer, name, value_of(number).encode(), partition=number % PARTITIONS)
        producer.flush()

    def consumer(self, group: str, topic: str) -> Any:
        """Return a consumer of a whole topic that tells the ends of partitions."""
        names = {"bootstrap.servers": self.bootstrap, "group.id": group, "isolation.level": "read_committed"}
        consumer = Consumer({**names, "enable.auto.commit": "false", "enable.partition.eof": "true"})
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        return consumer

    def total(self, topic: str) -> tuple[int, int]:
        """Return the number of records, and the sum of their numbers."""
        consumer, count, total, ends = self.consumer("total", topic), 0, 0, 0
        while ends < PARTITIONS:
            for message in consumer.consume(BLOCK, 5):
                if message.error() is not None:
                    ends += 1
                    continue
                count, total = count + 1, total + int(message.value()[:12])
        consumer.close()
        return count, total


def send(producer: Any, topic: str, value: bytes, **more: Any) -> None:
    """Queue a record; wait where the queue is full."""
    while True:
        try:
            producer.produce(topic, value, **more)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def bare(broker: Broker, source: str, target: str) -> None:
    """Run the loop that a program without an engine would have."""
    consumer = broker.consumer("bare", source)
    names = {"bootstrap.servers": broker.bootstrap, "transactional.id": target}
    producer = Producer({**names, "linger.ms": "5", "delivery.report.only.error": True})
    producer.init_transactions()
    ends = 0
    while ends < PARTITIONS:
        producer.begin_transaction()
        deadline = time.monotonic() + COMMIT_S
        while ends < PARTITIONS and time.monotonic() < deadline:
            for message in consumer.consume(BLOCK, 0.1):
                if message.error() is not None:
                    ends += 1
                    continue
                send(producer, target, changed(message.value().decode()).encode())
            producer.poll(0)
        positions = consumer.position([TopicPartition(source, number) for number in range(PARTITIONS)])
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
        producer.commit_transaction()
    consumer.close()


def ours(broker: Broker, source: str, target: str) -> None:
    """Run the job on Spark."""
    place = tempfile.mkdtemp(prefix="penstock-kafka-")
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", place)
    configuration.set_string("execution.checkpointing.interval", f"{COMMIT_S:.0f} s")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(SLOTS)
    reading = KafkaSource.builder().set_bootstrap_servers(broker.bootstrap).set_topics(source)
    reading = reading.set_bounded(KafkaOffsetsInitializer.latest()).set_value_only_deserializer(SimpleStringSchema())
    schema = KafkaRecordSerializationSchema.builder().set_topic(target)
    writing = KafkaSink.builder().set_bootstrap_servers(broker.bootstrap)
    writing = writing.set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build())
    sink = writing.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()
    values = env.from_source(reading.build(), WatermarkStrategy.no_watermarks(), "read").uid("read")
    values.map(changed).sink_to(sink).uid("write")
    env.execute("kafka")
    shutil.rmtree(place)


def bytewax(broker: Broker, source: str, target: str) -> float:
    """Run Bytewax in a process of its own, and return the seconds that its dataflow took."""
    found = prepare("bytewax")
    command = [found.python, PROGRAM, broker.bootstrap, source, target]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(told.split()[-1])


def timed(broker: Broker, run: Callable[[Broker, str, str], Any], source: str, count: int) -> float:
    """Return the seconds of a run into a new topic; a wrong result ends the program."""
    target = broker.topic(f"{run.__name__}-{time.monotonic_ns()}")
    start = time.perf_counter()
    told = run(broker, source, target)
    seconds = time.perf_counter() - start if told is None else told
    found, wanted = broker.total(target), (count, sum(int(changed(value_of(one))[:12]) for one in range(count)))
    if found != wanted:
        sys.exit(f"{run.__name__} has a wrong result: {found} in place of {wanted}")
    broker.drop(target)
    return seconds


def show(figures: Figures, count: int, times: dict[str, list[float]]) -> None:
    """Put the ratios of the rounds into the table."""
    own = times.pop("ours")
    for name, bar in (("bare", 0.3), ("bytewax", 5.0)):
        if other := times.get(name):
            ratios = [theirs / mine for theirs, mine in zip(other, own, strict=True)]
            told = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            rates = [count / median(one) / 1e3 for one in (own, other)]
            value = f"{told} x: {rates[0]:.0f} k beside {rates[1]:.0f} k records/s in the median"
            figures.add(f"Kafka to Kafka beside {name}, {count:,} records", value, f"{bar}", met=median(ratios) >= bar)


def main(count: int = 2_000_000, rounds: int = 3, alone: int = 0) -> int:
    figures = Figures("Kafka")
    server = KafkaServer()
    server.start()
    try:
        broker = Broker(server.bootstrap)
        small, whole = broker.topic("small"), broker.topic("whole")
        broker.fill(small, 1000)
        broker.fill(whole, count)
        timed(broker, ours, small, 1000)
        sides: list[Callable[[Broker, str, str], Any]] = [bare, ours]
        try:
            if not alone:
                timed(broker, bytewax, small, 1000)
                sides.append(bytewax)
        except (UnavailableError, subprocess.CalledProcessError) as error:
            figures.add("Kafka to Kafka beside bytewax", f"not measured: {error}")
        times: dict[str, list[float]] = {side.__name__: [] for side in sides}
        for _ in range(rounds):
            for side in sides:
                times[side.__name__].append(timed(broker, side, whole, count))
        show(figures, count, times)
    finally:
        server.kill()
        with contextlib.suppress(OSError):
            shutil.rmtree(server.place)
    return figures.show()


if __name__ == "__main__":
    try:
        sys.exit(main(*map(int, sys.argv[1:])))
    except KafkaException as failure:
        sys.exit(f"Kafka: {failure}")
