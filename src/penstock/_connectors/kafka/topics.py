"""What topics take: records that a broker would refuse are refused by writers, before a checkpoint has them.

A topic's configuration may change at any time, so it is looked at again every few seconds. What it becomes between a
checkpoint and its commit nobody knows before.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock._connectors.kafka.broker import Broker
from penstock._connectors.kafka.clients import REQUEST_S
from penstock._connectors.kafka.marks import note_begun
from penstock._connectors.kafka.properties import for_producer
from penstock.common.user_values import short_repr
from penstock.errors import KafkaConnectorError, KafkaRecordError, KafkaTopicError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from penstock._connectors.kafka.positions import Topic
    from penstock._connectors.kafka.serializing import OutRecord

#: How long a topic is not looked at again, in seconds.
_KNOWN_S: Final = 10.0
#: How long a cluster that does not answer is asked, at first and later.
_FIRST_S: Final = REQUEST_S
_AGAIN_S: Final = 2.0
#: How long a topic may be unknown that is just being made.
_MAKING_S: Final = 3.0
#: librdkafka's default of `message.max.bytes`, and what it adds to key, value and headers before it compares.
_LARGEST_BYTES: Final = 1_000_000
_CLIENT_FRAME: Final = 36
#: Bytes of a batch beside its records, and the most that a record has beside key, value and headers.
_BATCH_FRAME: Final = 61
_RECORD_FRAME: Final = 24
_NO_LIMIT: Final = 1 << 62
#: What a compressed batch may take: codecs by the names of Kafka, as Arrow has them.
_CODECS: Final = {"gzip": "gzip", "lz4": "lz4", "snappy": "snappy", "zstd": "zstd"}


@dataclass(frozen=True, slots=True)
class TopicRules:
    """What a topic takes.

    Attributes:
        partitions: How many it has.
        topic_id: Which topic of this name it is; empty where brokers have no ids.
        most_bytes: The largest batch; None without a limit.
        needs_keys: Whether it is compacted.
        ahead_ms: How far timestamps may lie ahead of the clock; None without a limit.
        behind_ms: How far they may lie behind it; None without a limit.
    """

    partitions: int = 1
    topic_id: str = ""
    most_bytes: int | None = None
    needs_keys: bool = False
    ahead_ms: int | None = None
    behind_ms: int | None = None

    @classmethod
    def of(cls, topic: Topic, settings: Mapping[str, str]) -> TopicRules:
        """Return the rules of a topic's configuration; without one, because of a missing right, there are few.

        Example:
            >>> from penstock._connectors.kafka.positions import Topic
            >>> TopicRules.of(Topic(3), {"cleanup.policy": "compact", "message.timestamp.after.max.ms": "3600000"})
            TopicRules(partitions=3, topic_id='', most_bytes=None, needs_keys=True, ahead_ms=3600000, behind_ms=None)
        """
        most = settings.get("max.message.bytes")
        # Brokers before Kafka 3.6 have one limit for both.
        both = settings.get("message.timestamp.difference.max.ms")
        ahead = settings.get("message.timestamp.after.max.ms", both)
        behind = settings.get("message.timestamp.before.max.ms", both)
        if settings.get("message.timestamp.type") == "LogAppendTime":  # the broker writes its own
            ahead = behind = None
        return cls(
            topic.partitions,
            topic.topic_id,
            None if most is None else int(most),
            "compact" in settings.get("cleanup.policy", ""),
            _limit(ahead),
            _limit(behind),
        )


def _limit(text: str | None) -> int | None:
    """Return a limit of times; the brokers' default for none is the greatest number that there is."""
    return None if text is None or int(text) >= _NO_LIMIT else int(text)


def smallest_batch(rules: Iterable[TopicRules]) -> int | None:
    """Return the bytes of the largest batch that all topics take; None without a limit."""
    return min((one.most_bytes for one in rules if one.most_bytes is not None), default=None)


@dataclass(frozen=True, slots=True)
class Admitted:
    """Records that their topics take.

    Attributes:
        records: The records.
        size: Their bytes.
        most_bytes: The bytes of the largest batch that all of the topics take; None without a limit.
    """

    records: list[OutRecord]
    size: int
    most_bytes: int | None


class Topics:
    """The topics of a sink, for its writers in one process and for its committer.

    Args:
        properties: Of the client.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        given = for_producer(properties)
        self._largest = int(given.get("message.max.bytes", _LARGEST_BYTES))
        self._codec = _CODECS.get(given.get("compression.type", given.get("compression.codec", "none")))
        self._broker: Broker | None = None
        self._known: dict[str, tuple[float, TopicRules]] = {}
        self._users = 1
        self._lock = threading.Lock()

    def rules(self, topics: Collection[str]) -> dict[str, TopicRules]:
        """Return the rules of topics.

        Raises:
            KafkaTopicError: There is no such topic.
            KafkaConnectorError: The cluster has never answered about it.
        """
        with self._lock:
            now, known = time.monotonic(), self._known
            if any(topic not in known or now - known[topic][0] > _KNOWN_S for topic in topics):
                wanted = {*topics, *(topic for topic, (asked, _) in known.items() if now - asked > _KNOWN_S)}
                try:
                    found = self._looked_at(wanted)
                except KafkaTopicError:
                    raise
                except KafkaConnectorError:
                    if not known.keys() >= set(topics):
                        raise
                    found = {topic: known[topic][1] for topic in topics}  # a cluster that is away for a time
                known.update((topic, (now, rules)) for topic, rules in found.items())
                for gone in wanted - found.keys():
                    known.pop(gone, None)
            missing = [topic for topic in topics if topic not in known]
            if missing:
                reason = "there is no such topic, it was deleted or never made; make it first"
                raise KafkaTopicError(f"Writing into {', '.join(sorted(missing)[:5])}", reason)
            return {topic: known[topic][1] for topic in topics}

    def _looked_at(self, topics: Collection[str]) -> dict[str, TopicRules]:
        self._broker = broker = self._broker or Broker(self._properties, "penstock", "The Kafka sink")
        described = broker.describe(topics, _AGAIN_S if self._known else _FIRST_S)
        new = [topic for topic in topics if topic not in described and topic not in self._known]
        if new:
            described |= broker.made(new, _MAKING_S)
        settings = broker.settings(described) if described else {}
        return {name: TopicRules.of(topic, settings.get(name, {})) for name, topic in described.items()}

    def partitions(self, topic: str) -> Sequence[int]:
        """Return the partitions of a topic, for partitioners.

        Raises:
            KafkaTopicError: There is no such topic.
        """
        return range(self.rules([topic])[topic].partitions)

    def admitted(self, records: list[OutRecord]) -> Admitted:
        """Return records as their topics take them.

        A timestamp too far ahead of the clock is left out, so that the producer's clock counts: windows without an end,
        such as those of counts, give their results the largest timestamp that there is.

        Raises:
            KafkaRecordError: A topic would refuse one.
            KafkaTopicError: There is no such topic.
        """
        topics = {record.topic for record in records}
        rules = self.rules(topics)
        now_ms = time.time_ns() // 1_000_000
        size = 0
        for topic in topics:
            part = records if len(topics) == 1 else [record for record in records if record.topic == topic]
            size += self._check(topic, part, rules[topic], now_ms)
        limits = {topic: now_ms + one.ahead_ms for topic, one in rules.items() if one.ahead_ms is not None}
        if limits and max((record.timestamp or 0 for record in records), default=0) > min(limits.values()):
            records = [_in_time(record, limits.get(record.topic)) for record in records]
        return Admitted(records, size, smallest_batch(rules.values()))

    def _check(self, topic: str, records: list[OutRecord], rules: TopicRules, now_ms: int) -> int:
        """Check the records for one topic, and return their bytes."""
        what = f"Writing a record into {topic}"
        if rules.needs_keys:
            for record in records:
                if record.key is None:
                    reason = (
                        f"{_shown(record)} has no key, and the topic is compacted (cleanup.policy); give keys by "
                        "set_key_serialization_schema"
                    )
                    raise KafkaRecordError(what, reason)
        if rules.behind_ms is not None:
            earliest = now_ms - rules.behind_ms
            for record in records:
                if record.timestamp is not None and 0 <= record.timestamp < earliest:
                    reason = (
                        f"{_shown(record)} has the timestamp {record.timestamp}, and the topic takes none before "
                        f"{earliest} (message.timestamp.before.max.ms)"
                    )
                    raise KafkaRecordError(what, reason)
        sizes = [len(record.value or b"") + len(record.key or b"") for record in records]
        if any(record.headers for record in records):
            sizes = [size + _header_bytes(record) for size, record in zip(sizes, records, strict=True)]
        close = min(self._largest, rules.most_bytes or self._largest) - _BATCH_FRAME - _RECORD_FRAME
        if max(sizes, default=0) > close:
            for record, size in zip(records, sizes, strict=True):
                self._check_size(what, record, size, rules)
        return sum(sizes) + _RECORD_FRAME * len(records)

    def _check_size(self, what: str, record: OutRecord, size: int, rules: TopicRules) -> None:
        whole = _CLIENT_FRAME + size
        if whole > self._largest:
            reason = f"{_shown(record)} takes {whole} bytes, and the property message.max.bytes allows {self._largest}"
            raise KafkaRecordError(what, reason)
        if rules.most_bytes is None:
            return
        whole = _BATCH_FRAME + _wire_bytes(record, size)
        if whole > rules.most_bytes and self._codec is not None:
            whole = _BATCH_FRAME + _compressed_bytes(record, self._codec)
        if whole > rules.most_bytes:
            reason = f"{_shown(record)} takes {whole} bytes, and the topic's max.message.bytes is {rules.most_bytes}"
            raise KafkaRecordError(what, reason)

    def note_begun(self, name: str, topics: Collection[str]) -> None:
        """Note in Kafka that a committer may have something for topics soon, once in each process.

        Raises:
            KafkaConnectorError: Kafka does not take it.
        """
        properties = tuple(sorted(self._properties.items()))
        with _noting:
            new = [topic for topic in topics if (properties, name, topic) not in _noted]
            if new:
                note_begun(self._properties, name, new)
                _noted.update((properties, name, topic) for topic in new)

    def let_go(self) -> None:
        """Close the connection, once all have let go that share it."""
        with _sharing:
            self._users -= 1
            if self._users > 0:
                return
            for key in [key for key, one in _shared.items() if one is self]:
                del _shared[key]
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.close()

    @staticmethod
    def shared(properties: Mapping[str, str]) -> Topics:
        """Return the one that all writers of this process with the same properties share."""
        key = tuple(sorted(properties.items()))
        with _sharing:
            found = _shared.get(key)
            if found is None:
                found = _shared[key] = Topics(properties)
            else:
                found._users += 1
            return found


_Properties: TypeAlias = tuple[tuple[str, str], ...]
_sharing: Final = threading.Lock()
_shared: Final[dict[_Properties, Topics]] = {}
_noting: Final = threading.Lock()
_noted: Final[set[tuple[_Properties, str, str]]] = set()


def _in_time(record: OutRecord, latest: int | None) -> OutRecord:
    is_late = latest is not None and record.timestamp is not None and record.timestamp > latest
    return record._replace(timestamp=None) if is_late else record


def _shown(record: OutRecord) -> str:
    key = "" if record.key is None else f" with the key {short_repr(record.key)}"
    return f"the record {short_repr(record.value)}{key}"


def _header_bytes(record: OutRecord) -> int:
    return sum(
        _number(len(name.encode())) + len(name.encode()) + _number(len(value or b"")) + len(value or b"")
        for name, value in record.headers or ()
    )


def _wire_bytes(record: OutRecord, size: int) -> int:
    """Return the bytes of a record that is alone in its batch, of which it has so many in key, value and headers."""
    parts = (record.key, record.value)
    lengths = sum(_number(-1 if part is None else len(part)) for part in parts) + _number(len(record.headers or ()))
    body = 3 + lengths + size  # attributes, and the differences of time and of offset, which are none
    return body + _number(body)


def _number(value: int) -> int:
    """Return how many bytes Kafka needs for a number: seven bits in each, the sign in the lowest.

    Example:
        >>> [_number(value) for value in (-1, 63, 64, 8192)]
        [1, 1, 2, 3]
    """
    return max(1, -(-(value << 1 ^ value >> 63).bit_length() // 7))


def _compressed_bytes(record: OutRecord, codec: str) -> int:
    import pyarrow as pa

    compress: Any = pa.compress
    parts: Iterable[bytes] = (record.key or b"", record.value or b"")
    headers: Any = [part or b"" for name, value in record.headers or () for part in (name.encode(), value)]
    return _RECORD_FRAME + len(compress(b"".join([*parts, *headers]), codec=codec, asbytes=True))
