"""The requests of enumerators and writers to a cluster, by confluent-kafka."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

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
from penstock._connectors.kafka.positions import KafkaTopicPartition, Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


#: What librdkafka gives for a topic without an id, and how many topics an error names.
_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
_SHOWN: Final = 5
_PAUSE_S: Final = 0.1


#: How long to wait for the reason of a request that came to nothing, in seconds.
_REASON_S: Final = 0.5


class Broker:
    """Asks a cluster; connects at the first request.

    Args:
        properties: Of the client, by Java's or librdkafka's names.
        group_id: The consumer group.
        who: Who asks, for messages.
    """

    def __init__(
        self, properties: Mapping[str, str], group_id: str, who: str = "The Kafka source's enumerator"
    ) -> None:
        self._properties = {**properties, "group.id": group_id}
        self._connection = Connection(who)
        self._lock = threading.Lock()
        self._made: dict[str, Any] = {}

    @property
    def _admin(self) -> Any:
        with self._lock:
            if "admin" not in self._made:
                self._made["admin"] = make_admin(self._properties, self._connection)
            return self._made["admin"]

    @property
    def _consumer(self) -> Any:
        with self._lock:
            if "consumer" not in self._made:
                quiet = {"allow.auto.create.topics": "false", "enable.auto.commit": "false"}
                self._made["consumer"] = make_consumer(self._properties, self._connection, **quiet)
            return self._made["consumer"]

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        admin = self._admin
        return list(self._asked("Listing all topics", lambda wait_s: admin.list_topics(timeout=wait_s)).topics)

    def describe(self, topics: Collection[str], patience_s: float = REQUEST_S) -> dict[str, Topic]:
        """Return what there is to say about topics; those that do not exist are left out.

        Args:
            topics: Their names.
            patience_s: How many seconds to try where the cluster does not answer.

        Raises:
            KafkaConnectorError: It does not answer, or refuses.
        """
        admin, what = self._admin, f"Looking at the topics {', '.join(sorted(topics)[:_SHOWN])}"

        def ask(wait_s: float) -> dict[str, Topic]:
            names = library().TopicCollection(list(topics))
            return self._described(admin.describe_topics(names, request_timeout=wait_s))

        return self._asked(what, ask, patience_s)

    def _described(self, answers: Mapping[str, Any]) -> dict[str, Topic]:
        found: dict[str, Topic] = {}
        for name, answer in answers.items():
            try:
                topic = answer.result()
            except library().KafkaException as error:
                if error.args[0].name() in UNKNOWN_TOPICS:
                    continue
                raise
            topic_id = str(topic.topic_id)
            found[name] = Topic(len(topic.partitions), "" if topic_id == _NO_ID else topic_id, topic.is_internal)
        return found

    def made(self, topics: Collection[str], patience_s: float) -> dict[str, Topic]:
        """Return what there is to say about topics that may just be being made; brokers that make them do so now.

        Args:
            topics: Their names.
            patience_s: How many seconds they are waited for.

        Raises:
            KafkaConnectorError: The cluster does not answer, or refuses.
        """
        admin, deadline = self._admin, time.monotonic() + patience_s
        for topic in topics:
            self._asked(f"Looking at {topic}", lambda wait_s, topic=topic: admin.list_topics(topic, timeout=wait_s))
        while True:
            found = self.describe(topics)
            if len(found) == len(topics) or time.monotonic() > deadline:
                return found
            time.sleep(_PAUSE_S)

    def settings(self, topics: Collection[str]) -> dict[str, Mapping[str, str]]:
        """Return the configuration of topics, as far as the client may see it.

        Raises:
            KafkaConnectorError: The cluster does not answer.
        """
        admin, kinds = self._admin, admin_library().ConfigResource

        def ask(wait_s: float) -> dict[str, Mapping[str, str]]:
            asked = [kinds(kinds.Type.TOPIC, name) for name in topics]
            answers = admin.describe_configs(asked, request_timeout=wait_s)
            return {asked.name: _values(answer) for asked, answer in answers.items()}

        return self._asked(f"Looking at the configuration of {', '.join(sorted(topics)[:_SHOWN])}", ask)

    def _asked(self, what: str, ask: Callable[[float], Any], patience_s: float = REQUEST_S) -> Any:
        tries = Tries(patience_s)
        while True:
            try:
                return ask(min(tries.timeout_s, patience_s))
            except library().KafkaException as error:
                # It serves the callback of errors, which says why; its first call may be still to come.
                self._admin.poll(0 if self._connection.why else _REASON_S)
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
        admin = self._admin
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
        consumer = self._consumer
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
        consumer = self._consumer
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
        with self._lock:
            made, self._made = self._made, {}
        if "consumer" in made:
            made["consumer"].close()


def _values(answer: Any) -> dict[str, str]:
    """Return a configuration; empty without the right to see it."""
    try:
        return {key: entry.value for key, entry in answer.result().items() if entry.value is not None}
    except library().KafkaException as error:
        if error.args[0].name() in AWAY:
            raise
        return {}
