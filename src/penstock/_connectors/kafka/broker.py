"""The requests of an enumerator to a cluster, by confluent-kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._connectors.kafka.clients import (
    AWAY,
    REQUEST_S,
    UNKNOWN_TOPICS,
    Connection,
    Tries,
    admin_library,
    connector_error,
    library,
    make_admin,
    make_consumer,
)
from penstock._connectors.kafka.positions import KafkaTopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class Broker:
    """Asks a cluster; connects at the first request.

    Args:
        properties: The source's, by Java's or librdkafka's names.
        group_id: The consumer group.
    """

    def __init__(self, properties: Mapping[str, str], group_id: str) -> None:
        self._properties = {**properties, "group.id": group_id}
        self._connection = Connection("The Kafka source's enumerator")
        self._clients: tuple[Any, Any] | None = None

    def _open(self) -> tuple[Any, Any]:
        """Return the consumer and the admin client."""
        if self._clients is None:
            # A consumer's requests make no topic, as those of an admin client do where brokers allow it.
            quiet = {"allow.auto.create.topics": "false", "enable.auto.commit": "false"}
            consumer = make_consumer(self._properties, self._connection, **quiet)
            self._clients = consumer, make_admin(self._properties, self._connection)
        return self._clients

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        return list(self._metadata("Listing all topics").topics)

    def partitions(self, topic: str) -> int | None:
        """Return the number of a topic's partitions; None if there is no such topic."""
        what = f"Reading the partitions of {topic}"
        found = self._metadata(what, topic).topics.get(topic)
        if found is None or (found.error is not None and found.error.name() in UNKNOWN_TOPICS):
            return None
        if found.error is not None:
            raise connector_error(what, found.error, self._connection)
        return len(found.partitions)

    def _metadata(self, what: str, *topic: str) -> Any:
        consumer, _ = self._open()
        tries = Tries(REQUEST_S)
        while True:
            try:
                return consumer.list_topics(*topic, timeout=tries.timeout_s)
            except library().KafkaException as error:
                consumer.poll(0)  # serves the callback of errors, which says why
                self._connection.check()
                if error.args[0].name() not in AWAY or not tries.go_on():
                    raise connector_error(what, error, self._connection) from None

    def earliest(self, partitions: Collection[KafkaTopicPartition]) -> Mapping[KafkaTopicPartition, int]:
        """Return the first offsets in the logs."""
        return self._offsets(partitions, admin_library().OffsetSpec.earliest())

    def latest(self, partitions: Collection[KafkaTopicPartition]) -> Mapping[KafkaTopicPartition, int]:
        """Return the offsets after the last records that can be read."""
        return self._offsets(partitions, admin_library().OffsetSpec.latest())

    def at_time(
        self, partitions: Collection[KafkaTopicPartition], timestamp: int
    ) -> Mapping[KafkaTopicPartition, int | None]:
        """Return the offsets of the first records at or after a time; None where there is none."""
        found = self._offsets(partitions, admin_library().OffsetSpec.for_timestamp(timestamp))
        return {partition: None if offset < 0 else offset for partition, offset in found.items()}

    def _offsets(self, partitions: Collection[KafkaTopicPartition], spec: Any) -> dict[KafkaTopicPartition, int]:
        if not partitions:
            return {}
        _, admin = self._open()
        committed = self._properties.get("isolation.level", "read_committed") == "read_committed"
        levels = library().IsolationLevel
        level = levels.READ_COMMITTED if committed else levels.READ_UNCOMMITTED
        asked = {library().TopicPartition(*partition): spec for partition in partitions}
        futures = admin.list_offsets(asked, isolation_level=level, request_timeout=REQUEST_S)
        result: dict[KafkaTopicPartition, int] = {}
        for partition, future in futures.items():
            place = KafkaTopicPartition(partition.topic, partition.partition)
            try:
                result[place] = future.result().offset
            except library().KafkaException as error:
                what = f"Reading the offsets of {place.topic}-{place.partition}"
                raise connector_error(what, error, self._connection) from None
        return result

    def committed(self, partitions: Collection[KafkaTopicPartition]) -> Mapping[KafkaTopicPartition, int | None]:
        """Return the offsets that the consumer group has committed; None where it has none."""
        consumer, _ = self._open()
        what = f"Reading the offsets of the consumer group {self._properties['group.id']}"
        try:
            found = consumer.committed([library().TopicPartition(*one) for one in partitions], timeout=REQUEST_S)
        except library().KafkaException as error:
            raise connector_error(what, error, self._connection) from None
        for one in found:
            if one.error is not None:
                raise connector_error(what, one.error, self._connection)
        return {KafkaTopicPartition(one.topic, one.partition): one.offset if one.offset >= 0 else None for one in found}

    def commit(self, offsets: Mapping[KafkaTopicPartition, int]) -> None:
        """Commit offsets of the consumer group."""
        consumer, _ = self._open()
        places = [library().TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        what = f"Committing offsets of the consumer group {self._properties['group.id']}"
        try:
            found = consumer.commit(offsets=places, asynchronous=False)
        except library().KafkaException as error:
            raise connector_error(what, error, self._connection) from None
        for one in found:
            if one.error is not None:
                raise connector_error(what, one.error, self._connection)

    def close(self) -> None:
        """Close the connections."""
        clients, self._clients = self._clients, None
        if clients is not None:
            clients[0].close()
