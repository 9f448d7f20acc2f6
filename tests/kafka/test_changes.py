"""A topic changes while a job reads it, or between two runs: reading goes on right, or an error names the change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from tests.kafka.job import counting
from tests.kafka.test_faults import NUMBERS, SOON, route

from penstock.common import SimpleStringSchema
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from penstock.errors import JobExecutionError, KafkaTopicError
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.conftest import Topics

pytestmark = pytest.mark.kafka


def test_a_topic_that_was_made_anew_between_two_runs_is_not_read_at_the_old_positions(topics: Topics) -> None:
    topic = topics.new()
    topics.fill(topic, ["0", "1", "2", "3"])
    made = KafkaSource.builder().set_bootstrap_servers(topics.bootstrap).set_topics(topic)
    made = made.set_value_only_deserializer(SimpleStringSchema())
    run = SourceRun(made.set_bounded(KafkaOffsetsInitializer.latest()).build())
    checkpoint = run.epoch(polls=1)
    run.close()
    topics.make_anew(topic)
    topics.fill(topic, ["a", "b", "c", "d", "e", "f"])
    with pytest.raises(KafkaTopicError, match=f"{topic} failed: the topic was deleted and made anew"):
        SourceRun(made.build(), checkpoint=checkpoint)


def test_a_topic_that_is_made_anew_while_it_is_read_ends_the_job_before_a_record_of_it_is_committed(
    topics: Topics, tmp_path: Path
) -> None:
    made = route(topics, **SOON)

    def make_anew() -> None:
        topics.make_anew(made.numbers, 3)
        topics.fill(made.numbers, [str(NUMBERS + number) for number in range(2 * NUMBERS)])

    job = counting(made, tmp_path, made.source(), restart="none")
    job.at_epoch(3, make_anew)
    with pytest.raises(JobExecutionError, match=r"made anew|KafkaOffsetError|was deleted"):
        job.to_end()
    found = [int(line.split(",")[1]) for line in topics.values(made.counts, 2)]
    assert all(number < NUMBERS for number in found)
    with pytest.raises(JobExecutionError, match="made anew"):
        counting(made, tmp_path, made.source(), restart="none").to_end()


def test_a_pattern_does_not_match_the_brokers_own_topics(topics: Topics) -> None:
    topic = topics.new()
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": "makes the brokers' topic"})
    producer.init_transactions()
    made = KafkaSource.builder().set_bootstrap_servers(topics.bootstrap).set_topic_pattern(".*")
    made = made.set_value_only_deserializer(SimpleStringSchema()).set_bounded(KafkaOffsetsInitializer.latest())
    run = SourceRun(made.build())
    found = {place.topic for place in run.enumerator._known}
    run.close()
    assert "__transaction_state" in topics.admin.list_topics().topics
    assert topic in found
    assert not [name for name in found if name.startswith("__")]
