"""The Kafka source's enumerator without a broker: any order of looks, registrations, failures and restores."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.cells import cells

from penstock._connectors.kafka.enumerator import Discovery, KafkaEnumerator, ReadOffsets, owner_of
from penstock._connectors.kafka.positions import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    Subscription,
    Topic,
)
from penstock.errors import KafkaConnectorError, KafkaOffsetError, KafkaTopicError
from penstock.testing import TestEnumeratorContext

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

EARLIEST, LATEST = KafkaOffsetsInitializer.earliest(), KafkaOffsetsInitializer.latest()


@dataclass
class FakeCluster:
    """Topics with their numbers of partitions; each log has the offsets 10 to 20."""

    counts: dict[str, int] = field(default_factory=dict[str, int])
    commits: dict[KafkaTopicPartition, int] = field(default_factory=dict[KafkaTopicPartition, int])
    is_down: bool = False
    #: How often each topic was made.
    made: dict[str, int] = field(default_factory=dict[str, int])

    def _answer(self) -> None:
        if self.is_down:
            raise KafkaConnectorError("Asking", "it is down")

    def topics(self) -> Collection[str]:
        self._answer()
        return list(self.counts)

    def describe(self, topics: Collection[str], patience_s: float = 0.0) -> Mapping[str, Topic]:
        self._answer()
        found = {name: self.counts[name] for name in topics if name in self.counts}
        return {
            name: Topic(count, f"{name}-{self.made.get(name, 0)}", name.startswith("__"))
            for name, count in found.items()
        }

    def make_anew(self, topic: str) -> None:
        self.made[topic] = self.made.get(topic, 0) + 1

    def earliest(self, partitions: Collection[KafkaTopicPartition]) -> Mapping[KafkaTopicPartition, int]:
        return dict.fromkeys(partitions, 10)

    def latest(self, partitions: Collection[KafkaTopicPartition]) -> Mapping[KafkaTopicPartition, int]:
        return dict.fromkeys(partitions, 20)

    def at_time(
        self, partitions: Collection[KafkaTopicPartition], timestamp: int
    ) -> Mapping[KafkaTopicPartition, int | None]:
        return dict.fromkeys(partitions, timestamp if timestamp < 20 else None)

    def committed(self, partitions: Collection[KafkaTopicPartition]) -> Mapping[KafkaTopicPartition, int | None]:
        return {place: self.commits.get(place) for place in partitions}

    def commit(self, offsets: Mapping[KafkaTopicPartition, int]) -> None:
        self._answer()
        self.commits.update(offsets)

    def close(self) -> None:
        pass


def enumerator(cluster: FakeCluster, context: TestEnumeratorContext, **changes: object) -> KafkaEnumerator:
    settings = {"subscription": Subscription(pattern=".*"), "starting": LATEST, "stopping": None, "interval_ms": 1000}
    checkpoint = changes.pop("checkpoint", None)
    discovery = Discovery(**{**settings, **changes})  # type: ignore[arg-type]
    return KafkaEnumerator(context, discovery, lambda: cluster, commits=True, checkpoint=checkpoint)  # type: ignore[arg-type]


@settings(max_examples=20 if settings.get_current_profile_name() == "ci" else 1000)
@given(data=st.data())
def test_each_partition_is_assigned_once_whatever_happens_in_which_order(data: st.DataObject) -> None:
    cluster, parallelism = FakeCluster({"a": 1}), data.draw(st.integers(1, 3))
    context = TestEnumeratorContext(parallelism)
    running = enumerator(cluster, context)
    running.start()
    given_out: list[str] = []
    for _ in range(data.draw(st.integers(0, 12))):
        match data.draw(st.sampled_from(["add", "look", "register", "down", "restore"])):
            case "add":
                topic = data.draw(st.sampled_from("abc"))
                cluster.counts[topic] = cluster.counts.get(topic, 0) + 1
            case "look":
                cluster.is_down = False
                context.run_async_calls()
            case "register":
                subtask = data.draw(st.integers(0, parallelism - 1))
                if subtask not in context.registered_readers:
                    context.register(subtask)
                    running.add_reader(subtask)
            case "down":
                cluster.is_down = True
                with contextlib.suppress(KafkaConnectorError):  # of the fifth failure, which restarts the job
                    context.run_async_calls()
            case _:
                given_out += [split.split_id() for splits in context.assigned.values() for split in splits]
                state = running.snapshot_state(1)
                context = TestEnumeratorContext(parallelism)
                running = enumerator(cluster, context, checkpoint=state)
                running.start()
    for subtask in range(parallelism):
        if subtask not in context.registered_readers:
            context.register(subtask)
            running.add_reader(subtask)
    cluster.is_down = False
    context.run_async_calls()
    given_out += [split.split_id() for splits in context.assigned.values() for split in splits]
    assert sorted(given_out) == sorted(
        f"{topic}-{number}" for topic, count in cluster.counts.items() for number in range(count)
    )
    later = [split for splits in context.assigned.values() for split in splits if split.place.topic != "a"]
    assert all(split.offset == 10 for split in later), "what is found later begins with its first record"
    for subtask, splits in context.assigned.items():
        assert all(owner_of(split.place, parallelism) == subtask for split in splits)


def test_readers_end_when_all_partitions_are_known() -> None:
    cluster, context = FakeCluster({"a": 2}), TestEnumeratorContext(3)
    running = enumerator(cluster, context, interval_ms=None, starting=EARLIEST, stopping=LATEST)
    running.start()
    for subtask in range(3):
        context.register(subtask)
        running.add_reader(subtask)
    assert context.no_more_splits == {0, 1, 2}
    splits = [split for found in context.assigned.values() for split in found]
    assert {(split.offset, split.stop) for split in splits} == {(10, 20)}


def test_a_given_end_may_be_behind_the_records_that_there_are() -> None:
    cluster, context = FakeCluster({"a": 2}), TestEnumeratorContext(1)
    given = KafkaOffsetsInitializer.offsets({KafkaTopicPartition("a", 0): 99}, KafkaOffsetResetStrategy.LATEST)
    running = enumerator(cluster, context, interval_ms=None, starting=EARLIEST, stopping=given)
    running.start()
    context.register(0)
    running.add_reader(0)
    assert sorted(split.stop for splits in context.assigned.values() for split in splits) == [20, 99]


def test_offsets_of_a_durable_checkpoint_are_committed_and_what_is_under_way_at_the_end_too() -> None:
    cluster, context = FakeCluster({"a": 1}), TestEnumeratorContext(1)
    running, place = enumerator(cluster, context, interval_ms=None), KafkaTopicPartition("a", 0)
    running.start()
    running.handle_source_event(0, ReadOffsets(((place, 15),)))
    assert cluster.commits == {}
    running.notify_checkpoint_complete(1)
    cluster.is_down = True
    context.run_async_calls()
    assert context.metric_group.counter("commitsFailed").get_count() == 1
    cluster.is_down = False
    running.handle_source_event(0, ReadOffsets(((place, 17),)))
    running.notify_checkpoint_complete(2)
    running.close()  # before the call has run
    assert cluster.commits == {place: 17}


def test_a_cluster_that_is_away_for_long_fails_the_job_and_a_missing_topic_at_once() -> None:
    cluster, context = FakeCluster({"a": 1}), TestEnumeratorContext(1)
    running = enumerator(cluster, context)
    running.start()
    cluster.is_down = True
    for _ in range(4):
        context.run_async_calls()
    with pytest.raises(KafkaConnectorError, match="it is down"):
        context.run_async_calls()
    for subscription in (Subscription(topics=("b",)), Subscription(chosen=frozenset({KafkaTopicPartition("a", 3)}))):
        with pytest.raises(KafkaTopicError):
            enumerator(FakeCluster({"a": 1}), TestEnumeratorContext(1), subscription=subscription).start()
    with pytest.raises(KafkaTopicError, match="does not look for new ones"):
        enumerator(FakeCluster(), TestEnumeratorContext(1), interval_ms=None).start()


def test_offsets_outside_of_the_log_are_errors_or_become_its_ends() -> None:
    cluster, place = FakeCluster({"a": 1}), KafkaTopicPartition("a", 0)
    strategies = KafkaOffsetResetStrategy
    for offset, strategy, expected in (
        (15, strategies.NONE, 15),
        (10, strategies.NONE, 10),
        (20, strategies.NONE, 20),
        (9, strategies.EARLIEST, 10),
        (21, strategies.LATEST, 20),
    ):
        initializer = KafkaOffsetsInitializer.offsets({place: offset}, strategy)
        assert initializer.get_partition_offsets([place], cluster) == {place: expected}
    for offset in (9, 21):
        with pytest.raises(KafkaOffsetError, match="is not in its log"):
            KafkaOffsetsInitializer.offsets({place: offset}, strategies.NONE).get_partition_offsets([place], cluster)
    assert KafkaOffsetsInitializer.timestamp(99).get_partition_offsets([place], cluster) == {place: 20}


@dataclass
class BusyCluster(FakeCluster):
    """A record comes into each log after every question."""

    end: int = 20

    def latest(self, partitions: Collection[KafkaTopicPartition]) -> Mapping[KafkaTopicPartition, int]:
        self.end += 1
        return dict.fromkeys(partitions, self.end - 1)

    def at_time(
        self, partitions: Collection[KafkaTopicPartition], timestamp: int
    ) -> Mapping[KafkaTopicPartition, int | None]:
        self.end += 1
        return dict.fromkeys(partitions, timestamp if timestamp < self.end - 1 else None)


@pytest.mark.parametrize("time", [19, 20, 21, 22, 23])
def test_records_that_come_while_a_time_is_looked_for_are_read(time: int) -> None:
    place = KafkaTopicPartition("a", 0)
    found = KafkaOffsetsInitializer.timestamp(time).get_partition_offsets([place], BusyCluster())
    assert found[place] <= time  # the record at an offset has that time


def made_anew(cluster: FakeCluster) -> None:
    cluster.make_anew("a")


def made_anew_with_fewer(cluster: FakeCluster) -> None:
    cluster.make_anew("a")
    cluster.counts["a"] = 1


def deleted(cluster: FakeCluster) -> None:
    del cluster.counts["a"]


def extended(cluster: FakeCluster) -> None:
    cluster.counts["a"] = 3


def another_made(cluster: FakeCluster) -> None:
    cluster.counts["b"] = 1


def internal_made(cluster: FakeCluster) -> None:
    cluster.counts["__consumer_offsets"] = 50


def restored(running: KafkaEnumerator, cluster: FakeCluster, change: Callable[[FakeCluster], None]) -> KafkaEnumerator:
    state = running.snapshot_state(1)
    change(cluster)
    again = enumerator(cluster, TestEnumeratorContext(1), checkpoint=state)
    again.start()
    return again


def looked(running: KafkaEnumerator, cluster: FakeCluster, change: Callable[[FakeCluster], None]) -> KafkaEnumerator:
    change(cluster)
    running.find_new_splits()
    return running


def snapshotted(
    running: KafkaEnumerator, cluster: FakeCluster, change: Callable[[FakeCluster], None]
) -> KafkaEnumerator:
    change(cluster)
    running.snapshot_state(2)
    return running


def away_and_back(
    running: KafkaEnumerator, cluster: FakeCluster, change: Callable[[FakeCluster], None]
) -> KafkaEnumerator:
    change(cluster)
    cluster.is_down = True
    running.snapshot_state(2)
    cluster.is_down = False
    running.snapshot_state(3)
    return running


#: What is read behind a change: the topics and their partitions, or the error.
CHANGES: dict[str, tuple[Callable[[FakeCluster], None], set[str] | str]] = {
    "made anew": (made_anew, "Reading a failed: the topic was deleted and made anew"),
    "made anew with fewer partitions": (made_anew_with_fewer, "Reading a failed: the topic was deleted and made anew"),
    "deleted": (deleted, {"a-0", "a-1"}),  # its readers miss it
    "more partitions": (extended, {"a-0", "a-1", "a-2"}),
    "another topic": (another_made, {"a-0", "a-1", "b-0"}),
    "an internal topic": (internal_made, {"a-0", "a-1"}),
}
MOMENTS = [restored, looked, snapshotted, away_and_back]


@cells("change, moment", [(change, moment) for change in CHANGES for moment in MOMENTS])
def test_a_topic_that_changes_at_any_moment_is_read_on_or_the_error_names_the_change(
    change: str, moment: Callable[..., KafkaEnumerator]
) -> None:
    act, expected = CHANGES[change]
    cluster = FakeCluster({"a": 2, "__transaction_state": 50})
    running = enumerator(cluster, TestEnumeratorContext(1), starting=EARLIEST)
    running.start()
    if isinstance(expected, str):
        with pytest.raises(KafkaTopicError, match=expected):
            moment(running, cluster, act)
        return
    after = moment(running, cluster, act)
    after.find_new_splits()
    assert {f"{topic}-{number}" for topic, number in after.snapshot_state(9).known} == expected
