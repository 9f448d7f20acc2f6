"""The Kafka source's split and its enumerator, which asks a cluster by an interface."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock._api.connectors.source import SplitEnumerator
from penstock._api.connectors.split import SourceEvent, SourceSplit
from penstock._connectors.kafka.positions import KafkaOffsetsInitializer, KafkaTopicPartition
from penstock.common.redaction import hiding
from penstock.errors import KafkaConnectorError, KafkaTopicError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock._api.connectors.source import SplitEnumeratorContext
    from penstock._connectors.kafka.positions import Subscription, Topic, TopicReader

_log = hiding(logging.getLogger("penstock.kafka"))

#: Consecutive failed looks for new partitions after which the job fails; a shorter outage is waited for.
_MOST_FAILURES: Final = 5
#: Seconds for which a start and a checkpoint ask whether topics are the same ones, where the cluster does not answer.
_PATIENCE_S: Final = 10.0
_SHORT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class KafkaPartitionSplit(SourceSplit):
    """A partition, from the next record to read to the end of what is wanted of it.

    Source: org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit.
    """

    place: KafkaTopicPartition
    offset: int
    #: The first offset that is not read any more; None reads on for ever.
    stop: int | None = None
    #: Of the topic that has these offsets; empty where brokers have no ids.
    topic_id: str = ""

    def split_id(self) -> str:
        """Return the topic and the partition."""
        return f"{self.place.topic}-{self.place.partition}"


@dataclass(frozen=True, slots=True)
class KafkaCheckpoint:
    """The enumerator's state: all partitions found so far, each with its topic's id, and splits without a reader."""

    known: Mapping[KafkaTopicPartition, str] = field(default_factory=dict["KafkaTopicPartition", str])
    waiting: tuple[KafkaPartitionSplit, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadOffsets(SourceEvent):
    """The offsets up to which a reader had read at a checkpoint; it arrives once the checkpoint is durable."""

    offsets: tuple[tuple[KafkaTopicPartition, int], ...]


@dataclass(frozen=True, slots=True)
class Discovery:
    """Which partitions a source reads, from where and up to where.

    Args:
        subscription: Topics, or partitions.
        starting: Where partitions begin that exist at the start; later ones begin at their first record.
        stopping: Where partitions end; None never ends.
        interval_ms: The time between two looks for new partitions; None looks once, and the source ends when all
            partitions are read.
    """

    subscription: Subscription
    starting: KafkaOffsetsInitializer
    stopping: KafkaOffsetsInitializer | None
    interval_ms: int | None


def owner_of(place: KafkaTopicPartition, readers: int) -> int:
    """Return the reader of a new partition: those of a topic go round, each topic from another reader.

    Example:
        >>> [owner_of(KafkaTopicPartition("orders", number), 2) for number in range(4)]
        [1, 0, 1, 0]
    """
    first = 0
    for letter in place.topic:  # not hash(), which differs from process to process
        first = (31 * first + ord(letter)) & 0x7FFFFFFF
    return (first * 31 + place.partition) % readers


def check_same(anew: Iterable[str]) -> None:
    """Raise if there are topics that were made anew.

    Raises:
        KafkaTopicError: There are.
    """
    names = sorted(set(anew))
    if names:
        reason = (
            "the topic was deleted and made anew, and the positions are those of the old one; start the job without "
            "its checkpoint, or give this source another uid and set "
            "execution.state-recovery.ignore-unclaimed-state, to read the new one from where the source begins"
        )
        raise KafkaTopicError(f"Reading {', '.join(names)}", reason)


class KafkaEnumerator(SplitEnumerator[KafkaPartitionSplit, KafkaCheckpoint]):
    """Finds partitions, gives each to a reader for good, and commits offsets of durable checkpoints.

    Args:
        context: The enumerator's context.
        discovery: What to read.
        make_reader: Connects to the cluster.
        commits: Whether offsets are committed.
        checkpoint: The checkpoint to continue from; None at the first start.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[KafkaPartitionSplit],
        discovery: Discovery,
        make_reader: Callable[[], TopicReader],
        *,
        commits: bool,
        checkpoint: KafkaCheckpoint | None,
    ) -> None:
        self._context, self._discovery = context, discovery
        self._make_reader, self._reader = make_reader, None
        self._commits = commits
        self._first_look = checkpoint is None
        state = checkpoint or KafkaCheckpoint()
        self._known = dict(state.known)
        self._waiting = {split.split_id(): split for split in state.waiting}
        self._gone: set[KafkaTopicPartition] = set()
        self._failures = 0
        self._is_complete = False
        #: The offsets that are not known to be committed.
        self._uncommitted: dict[KafkaTopicPartition, int] = {}
        self._committing = False
        group = context.metric_group
        group.gauge("unassignedSplits", lambda: len(self._waiting))
        self._succeeded = group.counter("commitsSucceeded")
        self._failed = group.counter("commitsFailed")

    @property
    def _cluster(self) -> TopicReader:
        if self._reader is None:
            self._reader = self._make_reader()
        return self._reader

    def start(self) -> None:
        """Look for partitions, now at the first start, and then again and again."""
        interval_ms = self._discovery.interval_ms
        if self._first_look:
            self._found(self._look(), None)
        else:
            self._check_topics(_PATIENCE_S)
        self._is_complete = interval_ms is None
        if interval_ms is not None:
            self._context.call_async(self._look, self._found, interval_ms, interval_ms)

    def find_new_splits(self) -> None:
        """Look for new partitions once."""
        self._found(self._look(), None)

    def _look(self) -> tuple[dict[KafkaTopicPartition, str], list[KafkaPartitionSplit]]:
        """Return all partitions, and the splits of new ones; runs beside the enumerator."""
        cluster, discovery = self._cluster, self._discovery
        found = discovery.subscription.find(cluster)
        new = sorted(found.keys() - self._known.keys())
        if not new:
            return found, []
        initializer = discovery.starting if self._first_look else KafkaOffsetsInitializer.earliest()
        begins = initializer.get_partition_offsets(new, cluster)
        ends: Mapping[KafkaTopicPartition, int] = {}
        if discovery.stopping is not None:
            ends = discovery.stopping.get_stopping_offsets(new, cluster)
        return found, [KafkaPartitionSplit(place, begins[place], ends.get(place), found[place]) for place in new]

    def _found(
        self, looked: tuple[dict[KafkaTopicPartition, str], list[KafkaPartitionSplit]] | None, error: Exception | None
    ) -> None:
        if looked is None:
            self._look_failed(error or AssertionError("neither partitions nor an error"))
            return
        self._failures = 0
        found, splits = looked
        if self._first_look and not found and self._discovery.interval_ms is None:
            what = f"Reading {self._discovery.subscription}"
            raise KafkaTopicError(what, "there is no such topic, and the source does not look for new ones")
        self._first_look = False
        self._check_ids(found)
        gone = self._known.keys() - found.keys() - self._gone
        if gone:
            names = ", ".join(f"{topic}-{number}" for topic, number in sorted(gone))
            _log.warning("Partitions no longer exist: %s. Their readers fail when they miss records of them", names)
        self._gone = self._known.keys() - found.keys()
        # A split may be new to a look that began before the last one was noted.
        fresh = [split for split in splits if split.place not in self._known]
        self._known |= {split.place: found[split.place] for split in fresh}
        self._waiting.update((split.split_id(), split) for split in fresh)
        self._assign()

    def _check_topics(self, patience_s: float) -> None:
        """Ask whether the topics are those whose positions the readers have.

        While the cluster is away nobody can tell; the next checkpoint asks again, and the ids are in the state.
        """
        topics = {place.topic for place in self._known}
        try:
            described: Mapping[str, Topic] = self._cluster.describe(topics, patience_s) if topics else {}
        except KafkaConnectorError as error:
            _log.info("Whether topics were made anew is asked again with the next checkpoint: %s", error)
            return
        self._check_ids({place: described[place.topic].topic_id for place in self._known if place.topic in described})

    def _check_ids(self, found: Mapping[KafkaTopicPartition, str]) -> None:
        """Raise if a topic is another one than before; one that is gone is missed by its readers."""
        known = self._known
        check_same(place.topic for place, topic_id in found.items() if known.get(place, topic_id) != topic_id)

    def _look_failed(self, error: Exception) -> None:
        """Count a failed look: a cluster that is away for a time is waited for."""
        self._failures += 1
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()  # another client asks anew who leads a partition that was just added
        if isinstance(error, KafkaTopicError) or self._failures >= _MOST_FAILURES:
            raise error
        _log.warning("Looking for new partitions failed: %s", error)

    def _assign(self) -> None:
        readers = self._context.registered_readers
        for split_id, split in list(self._waiting.items()):
            owner = owner_of(split.place, self._context.current_parallelism)
            if owner in readers:
                del self._waiting[split_id]
                self._context.assign_split(split, owner)

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        """Do nothing: each partition has its reader."""

    def add_splits_back(self, splits: list[KafkaPartitionSplit], subtask_id: int) -> None:
        """Keep the splits until their reader registers."""
        self._waiting.update((split.split_id(), split) for split in splits)
        self._assign()

    def add_reader(self, subtask_id: int) -> None:
        """Give the reader its partitions."""
        self._assign()
        if self._is_complete:
            self._context.signal_no_more_splits(subtask_id)

    def snapshot_state(self, checkpoint_id: int) -> KafkaCheckpoint:
        """Return the known partitions, and those without a reader.

        All that the checkpoint has was read before. So a topic that was made anew is noticed before anything that was
        read of it at the positions of the old one is durable.

        Raises:
            KafkaTopicError: A topic was made anew.
        """
        self._check_topics(_SHORT_S)
        return KafkaCheckpoint(dict(self._known), tuple(self._waiting.values()))

    # ------------------------------------------------------------------------------------------------------- committing

    def handle_source_event(self, subtask_id: int, source_event: SourceEvent) -> None:
        """Note how far a reader had read at a checkpoint that is durable now."""
        if isinstance(source_event, ReadOffsets) and self._commits:
            self._uncommitted.update(source_event.offsets)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit the offsets beside the enumerator, one commit at a time."""
        if self._uncommitted and not self._committing:
            self._committing, offsets = True, dict(self._uncommitted)
            self._context.call_async(lambda: self._commit(offsets), self._committed)

    def _commit(self, offsets: dict[KafkaTopicPartition, int]) -> dict[KafkaTopicPartition, int]:
        self._cluster.commit(offsets)
        return offsets

    def _committed(self, offsets: dict[KafkaTopicPartition, int] | None, error: Exception | None) -> None:
        """Count a commit; one that failed is only a figure, as checkpoints have the offsets."""
        self._committing = False
        if offsets is None:
            self._failed.inc()
            _log.warning("%s The job continues, as it does not depend on them", error)
            return
        self._succeeded.inc()
        self._uncommitted = {
            place: offset for place, offset in self._uncommitted.items() if offsets.get(place) != offset
        }

    def close(self) -> None:
        """Commit what is left, and close the connections."""
        offsets, self._uncommitted = self._uncommitted, {}
        reader, self._reader = self._reader, None
        try:
            if offsets:
                reader = reader or self._make_reader()
                reader.commit(offsets)
        except KafkaConnectorError as error:
            self._committed(None, error)
        finally:
            if reader is not None:
                reader.close()
