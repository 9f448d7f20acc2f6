"""What the exactly-once sink keeps in Kafka to know later what it has committed.

The marker is an offset of a consumer group that only one committer has: the last checkpoint that it has committed. The
broker drops it some days after it was last written (`offsets.retention.minutes`), and with the topic. A missing marker
alone says nothing, so writers note before the first checkpoint that a committer may soon have one. If that note is
there and the marker is not, nothing was committed; if both are gone, nobody can know it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from penstock._connectors.kafka.broker import Broker
from penstock._connectors.kafka.positions import KafkaTopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def committer_name(prefix: str, job_id: str, sink: str, run_id: str) -> str:
    """Return the transactional id of a committer, which is also the consumer group of its marker.

    A driver that takes a job over commits what the one before has left under that one's name, and so fences it.

    Example:
        >>> committer_name("penstock", "job", "sink", "run")
        'penstock-job-1978baf2c153-run'
    """
    return f"{prefix}-{job_id}-{hashlib.sha256(sink.encode()).hexdigest()[:12]}-{run_id}"


def note_begun(properties: Mapping[str, str], name: str, topics: Collection[str]) -> None:
    """Note that a committer may soon have a marker on topics; the note is never newer than the marker by much.

    It has a group of its own: written into the marker's, it might take the place of one.

    Args:
        properties: Of the client.
        name: The committer.
        topics: Of the records that it will have.

    Raises:
        KafkaConnectorError: Kafka does not take it.
    """
    broker = _broker(properties, name)
    try:
        broker.commit({KafkaTopicPartition(topic, 0): 0 for topic in topics})
    finally:
        broker.close()


def is_begun(properties: Mapping[str, str], name: str, topic: str) -> bool:
    """Tell whether there is still the note about a topic.

    Raises:
        KafkaConnectorError: Kafka does not say it.
    """
    place = KafkaTopicPartition(topic, 0)
    broker = _broker(properties, name)
    try:
        return broker.committed([place])[place] is not None
    finally:
        broker.close()


def _broker(properties: Mapping[str, str], name: str) -> Broker:
    return Broker(properties, f"{name}-begun", "The Kafka sink")
