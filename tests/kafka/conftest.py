"""A Kafka server for the whole run, and topics for each test."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic
from tests.services import kafka as service

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def need_kafka() -> None:
    """Skip a test where no broker can run; in continuous integration, fail it."""
    reason = service.why_missing()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def server() -> Iterator[service.SharedServer]:
    need_kafka()
    with service.shared_server() as found:
        yield found


@pytest.fixture
def own_server() -> Iterator[service.KafkaServer]:
    """A broker that a test may stop and kill."""
    need_kafka()
    with service.new_server() as server:
        yield server


class Topics:
    """Makes, fills and reads topics."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": "2"})

    def new(self, partitions: int = 1, name: str | None = None, **config: str) -> str:
        """Make a topic, and return its name."""
        name = name or f"t-{uuid.uuid4().hex[:10]}"
        self.admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result()
        return name

    def fill(self, topic: str, values: Iterable[Any], first_ms: int = 1000, **common: Any) -> None:
        """Write values; numbers are their keys, and their times from the first one on."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": "5"})
        for number, value in enumerate(values):
            producer.produce(topic, **{"value": value, "key": str(number), "timestamp": first_ms + number, **common})
        producer.flush()
        producer.close()

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self.admin.delete_topics([topic])[topic].result()

    def configure(self, topic: str, **config: str) -> None:
        """Change the configuration of a topic."""
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result()

    def make_anew(self, topic: str, partitions: int = 1) -> None:
        """Delete a topic, and make another one of its name."""
        self.delete(topic)
        while True:
            try:
                self.new(partitions, topic)
            except KafkaException as error:
                if error.args[0].name() != "TOPIC_ALREADY_EXISTS":  # its deletion is not over yet
                    raise
            else:
                return

    def forget_groups(self, prefix: str) -> None:
        """Delete the consumer groups of a prefix, as brokers do with those that nobody has used for some days."""
        groups = [one.group_id for one in self.admin.list_consumer_groups().result().valid]
        for deleted in self.admin.delete_consumer_groups([one for one in groups if one.startswith(prefix)]).values():
            deleted.result()

    def extend(self, topic: str, partitions: int) -> None:
        """Let a topic have so many partitions."""
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()

    def delete_records(self, topic: str, before: int) -> None:
        """Delete the records of a topic's first partition that come before an offset, as retention does."""
        place = TopicPartition(topic, 0, before)
        self.admin.delete_records([place])[place].result()

    def messages(self, topic: str, partitions: int = 1, *, has_open: bool = False) -> list[Any]:
        """Return all records that are committed.

        A broker answers that a transaction is committed before its partitions know of it. So an end that lies before
        the last record is not the end yet, unless a transaction is open (``has_open``).
        """
        quick = {"enable.partition.eof": "true", "fetch.wait.max.ms": "20", "auto.offset.reset": "earliest"}
        names = {"bootstrap.servers": self.bootstrap, "group.id": "look", "isolation.level": "read_committed"}
        consumer = Consumer({**names, **quick})
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        found, left = list[Any](), {number: self.end(topic, number) for number in range(partitions)}
        while left:
            message = consumer.poll(10)
            assert message is not None, f"{topic} cannot be read: is a transaction open?"
            if message.error() is None:
                found.append(message)
                continue
            assert message.error().name() == "_PARTITION_EOF", message.error()
            if has_open or message.offset() >= left.get(message.partition(), 0):
                left.pop(message.partition(), None)
        consumer.close()
        return found

    def end(self, topic: str, partition: int, isolation: str = "read_uncommitted") -> int:
        """Return the offset behind the last record of a partition, or behind the last one that is decided."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "look", "isolation.level": isolation})
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition))
        consumer.close()
        return end

    def has_open_transaction(self, topic: str, partitions: int = 1) -> bool:
        """Tell whether a transaction that wrote into a topic is not decided."""
        return any(self.end(topic, number, "read_committed") < self.end(topic, number) for number in range(partitions))

    def values(self, topic: str, partitions: int = 1, *, has_open: bool = False) -> list[str]:
        """Return the values of all committed records."""
        return [message.value().decode() for message in self.messages(topic, partitions, has_open=has_open)]

    def same(self, topic: str, expected: Iterable[str], partitions: int = 1) -> None:
        """Check that a topic has each value once."""
        found, wanted = Counter(self.values(topic, partitions)), Counter(expected)
        assert not wanted - found, f"missing: {list((wanted - found).items())[:5]}"
        assert not found - wanted, f"too often: {list((found - wanted).items())[:5]}"


@pytest.fixture(scope="session")
def topics(server: service.SharedServer) -> Topics:
    return Topics(server.bootstrap)
