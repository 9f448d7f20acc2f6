"""Positions in topics: partitions, the offsets at which to begin and to end, and which topics to read."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock._connectors.kafka.clients import REQUEST_S
from penstock._shelf import show
from penstock.errors import KafkaOffsetError, KafkaTopicError

if TYPE_CHECKING:
    from collections.abc import Collection


class KafkaTopicPartition(NamedTuple):
    """A partition of a topic.

    Source: org.apache.kafka.common.TopicPartition.
    """

    topic: str
    partition: int


class KafkaOffsetResetStrategy(Enum):
    """The position to take where a wanted one does not exist.

    Source: org.apache.kafka.clients.consumer.OffsetResetStrategy.
    """

    LATEST = 0
    EARLIEST = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class Topic:
    """What a cluster says about a topic.

    Attributes:
        partitions: How many it has.
        topic_id: Differs in each topic that is made, also under the same name; empty where brokers have none.
        is_internal: Whether it is the brokers' own.
    """

    partitions: int
    topic_id: str = ""
    is_internal: bool = False


class TopicReader(Protocol):
    """The requests of an enumerator; `broker.Broker` implements them, and tests a fake."""

    def topics(self) -> Collection[str]:
        """Return the names of all topics."""
        ...

    def describe(self, topics: Collection[str], patience_s: float = REQUEST_S) -> Mapping[str, Topic]:
        """Return what there is to say about topics; those that do not exist are left out."""
        ...

    def earliest(self, partitions: Collection[KafkaTopicPartition]) -> Mapping[KafkaTopicPartition, int]:
        """Return the first offsets in the logs."""
        ...

    def latest(self, partitions: Collection[KafkaTopicPartition]) -> Mapping[KafkaTopicPartition, int]:
        """Return the offsets after the last records that can be read."""
        ...

    def at_time(
        self, partitions: Collection[KafkaTopicPartition], timestamp: int
    ) -> Mapping[KafkaTopicPartition, int | None]:
        """Return the offsets of the first records at or after a time; None where there is none."""
        ...

    def committed(self, partitions: Collection[KafkaTopicPartition]) -> Mapping[KafkaTopicPartition, int | None]:
        """Return the offsets that the consumer group has committed; None where it has none."""
        ...

    def commit(self, offsets: Mapping[KafkaTopicPartition, int]) -> None:
        """Commit offsets of the consumer group."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


Offsets = Mapping[KafkaTopicPartition, int]


class KafkaOffsetsInitializer(ABC):
    """Where the partitions of a source begin, or end.

    Source: org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer.
    """

    @abstractmethod
    def get_partition_offsets(self, partitions: Collection[KafkaTopicPartition], reader: TopicReader) -> Offsets:
        """Return the offset of each partition; runs on the driver.

        Raises:
            KafkaOffsetError: A partition has no such offset.
        """

    def get_stopping_offsets(self, partitions: Collection[KafkaTopicPartition], reader: TopicReader) -> Offsets:
        """Return the offsets at which partitions end, which may be behind the ends of their logs; runs on the driver.

        Raises:
            KafkaOffsetError: A partition has no such offset.
        """
        return self.get_partition_offsets(partitions, reader)

    @property
    def needs_group(self) -> bool:
        """Whether it asks for the offsets of a consumer group."""
        return False

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Return the first records in the logs."""
        return _Earliest()

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Return the ends of the logs when the source starts."""
        return _Latest()

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Return the first records at or after a time; the end of the log where there is none.

        Args:
            timestamp: Milliseconds since the epoch.

        Raises:
            ValueError: It is negative.
        """
        if timestamp < 0:
            msg = f"timestamp must not be negative: {timestamp}."
            raise ValueError(msg)
        return _AtTime(timestamp)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Return the offsets that the consumer group has committed.

        Args:
            offset_reset_strategy: For partitions without one; NONE makes them an error.
        """
        return _Committed(offset_reset_strategy)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Return given offsets, each of the next record to read.

        Args:
            offsets: By partition.
            offset_reset_strategy: For partitions that are not named, and for offsets that are not in the log.

        Raises:
            ValueError: An offset is negative.
        """
        negative = {partition: offset for partition, offset in offsets.items() if offset < 0}
        if negative:
            msg = f"offsets must not be negative: {negative}."
            raise ValueError(msg)
        given = {KafkaTopicPartition(*partition): offset for partition, offset in offsets.items()}
        return _Given(given, offset_reset_strategy)


class _Earliest(KafkaOffsetsInitializer):
    def get_partition_offsets(self, partitions: Collection[KafkaTopicPartition], reader: TopicReader) -> Offsets:
        return reader.earliest(partitions)


class _Latest(KafkaOffsetsInitializer):
    def get_partition_offsets(self, partitions: Collection[KafkaTopicPartition], reader: TopicReader) -> Offsets:
        return reader.latest(partitions)


@dataclass(frozen=True, slots=True)
class _AtTime(KafkaOffsetsInitializer):
    time: int

    def get_partition_offsets(self, partitions: Collection[KafkaTopicPartition], reader: TopicReader) -> Offsets:
        ends = reader.latest(partitions)  # before it is known that there is none: one may come in between
        found = reader.at_time(partitions, self.time)
        return {partition: ends[partition] if offset is None else offset for partition, offset in found.items()}


@dataclass(frozen=True, slots=True)
class _Committed(KafkaOffsetsInitializer):
    otherwise: KafkaOffsetResetStrategy

    @property
    def needs_group(self) -> bool:
        return True

    def get_partition_offsets(self, partitions: Collection[KafkaTopicPartition], reader: TopicReader) -> Offsets:
        return in_log(reader.committed(partitions), self.otherwise, reader, "the consumer group has committed none")


@dataclass(frozen=True, slots=True)
class _Given(KafkaOffsetsInitializer):
    given: Mapping[KafkaTopicPartition, int]
    otherwise: KafkaOffsetResetStrategy

    def get_partition_offsets(self, partitions: Collection[KafkaTopicPartition], reader: TopicReader) -> Offsets:
        wanted = {partition: self.given.get(partition) for partition in partitions}
        return in_log(wanted, self.otherwise, reader, "none was given")

    def get_stopping_offsets(self, partitions: Collection[KafkaTopicPartition], reader: TopicReader) -> Offsets:
        ends = {partition: self.given[partition] for partition in partitions if partition in self.given}
        others = [partition for partition in partitions if partition not in self.given]
        return {**ends, **(self.get_partition_offsets(others, reader) if others else {})}


def in_log(
    wanted: Mapping[KafkaTopicPartition, int | None],
    otherwise: KafkaOffsetResetStrategy,
    reader: TopicReader,
    missing: str,
) -> Offsets:
    """Return wanted offsets, and other ones where they are not in the log.

    Args:
        wanted: By partition; None where there is none.
        otherwise: Which other ones.
        reader: Asks for the ends of the logs.
        missing: Why there may be none, a clause.

    Raises:
        KafkaOffsetError: One is not in the log, and no other one is to be taken.
    """
    first, end = reader.earliest(list(wanted)), reader.latest(list(wanted))
    result: dict[KafkaTopicPartition, int] = {}
    for partition, offset in wanted.items():
        low, high = first[partition], max(first[partition], end[partition])
        if offset is not None and low <= offset <= high:
            result[partition] = offset
        elif otherwise is KafkaOffsetResetStrategy.NONE:
            reason = missing if offset is None else f"offset {offset} is not in its log, which has {low} to {high}"
            raise KafkaOffsetError(
                f"Finding where {partition.topic}-{partition.partition} begins",
                f"{reason}; name a KafkaOffsetResetStrategy to begin elsewhere",
            )
        else:
            result[partition] = low if otherwise is KafkaOffsetResetStrategy.EARLIEST else high
    return result


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a source reads: topics, all topics of a pattern, or partitions; exactly one of them."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    chosen: frozenset[KafkaTopicPartition] = field(default_factory=frozenset[KafkaTopicPartition])

    def find(self, reader: TopicReader) -> dict[KafkaTopicPartition, str]:
        """Return the partitions that exist now, each with the id of its topic.

        Raises:
            KafkaTopicError: A named topic or partition does not exist.
        """
        names = self.topics or sorted({partition.topic for partition in self.chosen})
        if self.pattern is not None:
            pattern = re.compile(self.pattern)
            names = sorted(topic for topic in reader.topics() if pattern.fullmatch(topic))
        topics: Mapping[str, Topic] = reader.describe(names) if names else {}
        missing = [name for name in names if name not in topics]
        if self.pattern is not None:
            topics = {name: topic for name, topic in topics.items() if not topic.is_internal}
        elif missing:
            raise KafkaTopicError(
                f"Reading {', '.join(missing)}",
                "there is no such topic, it was deleted or never made; make it first, or name topics that are made "
                "later by set_topic_pattern",
            )
        found = {
            KafkaTopicPartition(name, number): topic.topic_id
            for name, topic in topics.items()
            for number in range(topic.partitions)
        }
        lacking = ", ".join(f"{topic}-{number}" for topic, number in sorted(self.chosen - found.keys()))
        if lacking:
            raise KafkaTopicError(f"Reading {lacking}", "the topic has fewer partitions")
        return {place: found[place] for place in self.chosen} if self.chosen else found

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"topics like {self.pattern}"
        names = self.topics or tuple(f"{topic}-{number}" for topic, number in sorted(self.chosen))
        return ", ".join(names)


show("penstock.datastream.connectors.kafka", KafkaOffsetResetStrategy, KafkaOffsetsInitializer, KafkaTopicPartition)
