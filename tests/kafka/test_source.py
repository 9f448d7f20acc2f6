"""What a Kafka source reads: where it begins and ends, what deserializers see, and what happens to bad input."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from confluent_kafka import Producer

from penstock.common import SimpleStringSchema
from penstock.common.serialization import DeserializationSchema
from penstock.datastream.connectors.kafka import (
    KafkaBadRecord,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from penstock.errors import KafkaOffsetError, KafkaRecordError, KafkaTopicError
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from tests.kafka.conftest import Topics

pytestmark = pytest.mark.kafka

EARLIEST, LATEST = KafkaOffsetsInitializer.earliest(), KafkaOffsetsInitializer.latest()


def builder(topics: Topics, *names: str) -> KafkaSourceBuilder:
    made = KafkaSource.builder().set_bootstrap_servers(topics.bootstrap).set_group_id("g")
    made = made.set_value_only_deserializer(SimpleStringSchema()).set_bounded(LATEST)
    return made.set_topics(*names) if names else made


def read(made: KafkaSourceBuilder, parallelism: int = 1) -> list[Any]:
    return SourceRun(made.build(), parallelism).run_to_end()


def test_topics_are_read_from_each_kind_of_offset_to_each(topics: Topics) -> None:
    topic = topics.new()
    topics.fill(topic, [str(number) for number in range(10)])
    place = KafkaTopicPartition(topic, 0)
    begins = {
        "earliest": (EARLIEST, 0),
        "latest": (LATEST, 10),
        "a time": (KafkaOffsetsInitializer.timestamp(1004), 4),
        "a time after all": (KafkaOffsetsInitializer.timestamp(9999), 10),
        "an offset": (KafkaOffsetsInitializer.offsets({place: 7}), 7),
        "an offset behind the end": (KafkaOffsetsInitializer.offsets({place: 70}), 0),
        "none committed": (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST), 0),
    }
    for name, (initializer, first) in begins.items():
        found = read(builder(topics, topic).set_group_id(f"group of {name}").set_starting_offsets(initializer))
        assert found == [str(number) for number in range(first, 10)], name
    assert read(builder(topics, topic).set_bounded(KafkaOffsetsInitializer.offsets({place: 3}))) == ["0", "1", "2"]
    assert read(builder(topics, topic).set_unbounded(KafkaOffsetsInitializer.timestamp(1002))) == ["0", "1"]
    unknown = builder(topics, topic).set_group_id("nobody")
    with pytest.raises(KafkaOffsetError, match="has committed none"):
        read(unknown.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()))


def test_offsets_of_durable_checkpoints_are_committed_and_read_again(topics: Topics) -> None:
    topic, group = topics.new(2), "committing"
    topics.fill(topic, [str(number) for number in range(20)])
    made = builder(topics, topic).set_group_id(group)
    run = SourceRun(made.build(), 2)
    first = run.run_to_end()
    topics.fill(topic, ["later"])
    rest = read(made.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()))
    assert len(first) == 20
    assert rest == ["later"]


def test_patterns_lists_and_partitions_choose_what_is_read(topics: Topics) -> None:
    one, two = topics.new(name="shop-orders"), topics.new(2, name="shop-returns")
    topics.fill(one, ["a"])
    topics.fill(two, ["b"], partition=0)
    topics.fill(two, ["c"], partition=1)
    assert sorted(read(builder(topics, one, two), 2)) == ["a", "b", "c"]
    assert sorted(read(builder(topics).set_topic_pattern("shop-.*"), 2)) == ["a", "b", "c"]
    assert read(builder(topics).set_partitions({KafkaTopicPartition(two, 1)})) == ["c"]
    for made, text in (
        (builder(topics, "nowhere"), "there is no such topic"),
        (builder(topics).set_topic_pattern("nowhere.*"), "there is no such topic"),
        (builder(topics).set_partitions({KafkaTopicPartition(two, 2)}), "has fewer partitions"),
    ):
        with pytest.raises(KafkaTopicError, match=text):
            read(made)
    assert "nowhere" not in topics.admin.list_topics().topics


class Whole(KafkaRecordDeserializationSchema):
    def deserialize(self, record: KafkaRecord) -> Any:
        return record


def test_deserializers_of_records_see_keys_headers_times_and_positions(topics: Topics) -> None:
    topic = topics.new()
    topics.fill(topic, [b"v", None], headers=[("h", b"1"), ("h", None)])
    found = read(builder(topics, topic).set_deserializer(Whole()))
    headers = (("h", b"1"), ("h", None))
    assert found == [
        KafkaRecord(topic, 0, 0, 1000, b"0", b"v", headers),
        KafkaRecord(topic, 0, 1, 1001, b"1", None, headers),
    ]


class Array(DeserializationSchema):
    """Gives records whose comparison is no truth value."""

    def deserialize(self, message: bytes) -> Any:
        return np.frombuffer(message, np.uint8)


def test_records_may_be_arrays(topics: Topics) -> None:
    topic = topics.new()
    topics.fill(topic, [bytes([1, 2, 3])] * 3)
    found = read(builder(topics, topic).set_value_only_deserializer(Array()))
    assert [record.tolist() for record in found] == [[1, 2, 3]] * 3


class Json(DeserializationSchema):
    def deserialize(self, message: bytes) -> Any:
        return json.loads(message)


def test_bad_records_fail_are_skipped_or_are_emitted(topics: Topics) -> None:
    topic = topics.new()
    topics.fill(topic, [b"1", b"{bad", b"3", None])
    made = builder(topics, topic).set_value_only_deserializer(Json())
    with pytest.raises(KafkaRecordError, match=r"record at offset 1 of .*set_bad_records"):
        read(made)
    assert read(made.set_bad_records("skip")) == [1, 3]
    found = read(made.set_bad_records("emit"))
    assert [found[0], found[2]] == [1, 3]
    assert isinstance(found[1], KafkaBadRecord)
    assert found[1].record.value == b"{bad"
    assert "tombstone" in found[3].error or "no value" in found[3].error


def test_a_bounded_source_ends_behind_marks_of_transactions_and_without_aborted_records(topics: Topics) -> None:
    topic = topics.new()
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": "marks"})
    producer.init_transactions()
    for value, is_committed in (("a", True), ("b", False), ("c", True), ("d", False)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        (producer.commit_transaction if is_committed else producer.abort_transaction)()
    producer.close()
    assert read(builder(topics, topic)) == ["a", "c"]
    assert read(builder(topics, topic).set_property("isolation.level", "read_uncommitted")) == ["a", "b", "c", "d"]


def test_a_position_that_the_log_has_lost_is_an_error_unless_the_program_says_otherwise(topics: Topics) -> None:
    topic = topics.new()
    topics.fill(topic, ["0", "1", "2", "3"])
    made = builder(topics, topic).set_unbounded(KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 0): 4}))
    for reset in ("", "earliest"):
        run = SourceRun(made.set_property("auto.offset.reset", reset or "none").build())
        checkpoint = run.epoch(polls=0)
        run.close()
        topics.delete_records(topic, 2)
        again = SourceRun(made.build(), checkpoint=checkpoint)
        if reset:
            assert again.run_to_end() == ["2", "3"]
        else:
            with pytest.raises(KafkaOffsetError, match=r"auto\.offset\.reset"):
                again.run_to_end()
            again.close()
