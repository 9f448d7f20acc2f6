"""Faults of the broker while a job runs: it recovers, or says what is wrong, and each record is there once."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from tests.fault.job import are_truth
from tests.kafka.conftest import Topics
from tests.kafka.job import PARTITIONS, Route, Running, counting, environment, sink_into

from penstock.common import SimpleStringSchema, Types, WatermarkStrategy
from penstock.common.serialization import DeserializationSchema
from penstock.datastream.connectors.kafka import (
    KafkaBadRecord,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaTopicPartition,
)
from penstock.datastream.functions import ProcessFunction
from penstock.datastream.output_tag import OutputTag
from penstock.errors import JobExecutionError
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.services.kafka import KafkaServer

pytestmark = [pytest.mark.kafka, pytest.mark.fault]

NUMBERS = 2000
#: How long a broker is away.
OUTAGE_S = float(os.environ.get("PENSTOCK_TEST_OUTAGE_S", "2"))
#: By default a client takes a topic that it has asked for lately for one that is just being made.
SOON = {"topic.metadata.propagation.max.ms": "500", "topic.metadata.refresh.interval.ms": "300"}


def route(topics: Topics, count: int = NUMBERS, **properties: str) -> Route:
    """Return a route whose topic of numbers is filled."""
    made = Route(topics.bootstrap, topics.new(PARTITIONS), topics.new(2), properties)
    topics.fill(made.numbers, [str(number) for number in range(count)])
    return made


class Outages:
    """Takes a broker away, and brings it back after a time."""

    def __init__(self, server: KafkaServer) -> None:
        self._server = server
        self._returns: list[threading.Timer] = []

    def _later(self, act: Callable[[], None]) -> None:
        self._returns.append(threading.Timer(OUTAGE_S, act))
        self._returns[-1].start()

    def stop(self) -> None:
        """Let it stand still."""
        process = self._server.process.pid
        os.kill(process, signal.SIGSTOP)
        self._later(lambda: os.kill(process, signal.SIGCONT))

    def kill(self) -> None:
        """Kill it."""
        self._server.kill()
        self._later(self._server.start)

    def are_over(self) -> int:
        """Wait until the broker is back for good; return how often it was away."""
        for each in self._returns:
            each.join()
        return len(self._returns)


@pytest.mark.behaviour(124)
def test_a_job_outlasts_a_broker_that_stands_still_and_then_dies(own_server: KafkaServer, tmp_path: Path) -> None:
    topics = Topics(own_server.bootstrap)
    made = route(topics)
    outages = Outages(own_server)
    job = counting(made, tmp_path)
    job.at_epoch(3, outages.stop)
    job.at_commit(6, outages.kill)
    job.to_end()
    assert outages.are_over() == 2
    assert are_truth(topics.values(made.counts, 2), NUMBERS)


def test_a_deleted_topic_fails_the_source_with_its_name(topics: Topics, tmp_path: Path) -> None:
    made = route(topics, **SOON)
    job = counting(made, tmp_path, made.source(), restart="none")
    job.at_epoch(3, lambda: topics.delete(made.numbers))
    with pytest.raises(JobExecutionError, match=f"KafkaTopicError: .*{made.numbers}.*was deleted"):
        job.to_end()


def test_a_deleted_topic_fails_the_sink_until_it_is_made_again(topics: Topics, tmp_path: Path) -> None:
    made = route(topics, **SOON)
    before: list[str] = []

    def delete() -> None:
        before.extend(topics.values(made.counts, 2))
        topics.delete(made.counts)

    job = counting(made, tmp_path, restart="none")
    job.at_commit(4, delete)
    with pytest.raises(JobExecutionError, match=f"{made.counts}.*was deleted"):
        job.to_end()
    topics.new(2, made.counts)
    counting(made, tmp_path).to_end()
    assert before
    assert are_truth([*before, *topics.values(made.counts, 2)], NUMBERS)


def test_partitions_that_are_added_while_a_job_runs_are_read_from_their_first_record(
    topics: Topics, tmp_path: Path
) -> None:
    made, more = route(topics), 300

    def add() -> None:
        topics.extend(made.numbers, PARTITIONS + 1)
        topics.fill(made.numbers, [str(NUMBERS + number) for number in range(more)], partition=PARTITIONS)

    source = made.source().set_starting_offsets(KafkaOffsetsInitializer.earliest())
    job = counting(made, tmp_path, source.set_property("partition.discovery.interval.ms", "100"))
    job.at_epoch(3, add)
    job.drain_behind(1, NUMBERS + more, tmp_path / "savepoints")
    job.to_end()
    assert are_truth(topics.values(made.counts, 2), NUMBERS + more)


def test_a_job_whose_position_was_deleted_says_so_and_goes_on_where_it_is_told_to(
    topics: Topics, tmp_path: Path
) -> None:
    topic, counts = topics.new(), topics.new(2)
    made = Route(topics.bootstrap, topic, counts)
    topics.fill(topic, [str(number) for number in range(NUMBERS)])
    first = counting(made, tmp_path)
    first.at_epoch(4, first.driver.cancel)
    first.run()
    deleted = NUMBERS // 2
    topics.delete_records(topic, deleted)
    with pytest.raises(JobExecutionError, match=r"KafkaOffsetError: .*auto\.offset\.reset"):
        counting(made, tmp_path, restart="none").to_end()
    counting(made, tmp_path, made.bounded().set_property("auto.offset.reset", "earliest")).to_end()
    found = [int(line.split(",")[1]) for line in topics.values(counts, 2)]
    read = sorted(number for number in found if number < deleted)
    assert read == list(range(len(read)))
    assert sorted(number for number in found if number >= deleted) == list(range(deleted, NUMBERS))


def test_a_source_waits_behind_a_transaction_of_a_dead_job_until_the_broker_ends_it(topics: Topics) -> None:
    topic, transactional = topics.new(), {"bootstrap.servers": topics.bootstrap, "transactional.id": "dead"}
    dead = Producer(transactional)
    topics.fill(topic, ["before"])
    dead.init_transactions()
    dead.begin_transaction()
    dead.produce(topic, "of the dead")
    dead.flush()
    topics.fill(topic, ["behind"])
    source = KafkaSource.builder().set_bootstrap_servers(topics.bootstrap).set_topics(topic)
    end = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 0): 3})
    run = SourceRun(source.set_bounded(end).set_value_only_deserializer(SimpleStringSchema()).build())
    run.epoch()
    assert run.records == ["before"]
    Producer(
        transactional
    ).init_transactions()  # the broker aborts what an older one left, as it does after its timeout
    assert run.run_to_end() == ["before", "behind"]
    dead.purge()


class Numbers(DeserializationSchema):
    def deserialize(self, message: bytes) -> Any:
        return int(message)


BAD = OutputTag("bad", Types.STRING())


class Apart(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if isinstance(value, KafkaBadRecord):
            yield BAD, f"{value.record.offset}: {value.error}"
        else:
            yield str(value)


def test_bad_records_fail_a_job_or_go_to_a_topic_of_their_own(topics: Topics, tmp_path: Path) -> None:
    topic, good, bad = topics.new(), topics.new(), topics.new()
    topics.fill(topic, ["1", "two", "3"])

    def job(policy: Any, place: Path) -> Running:
        env = environment(place, restart="none")
        made = Route(topics.bootstrap, topic, good).bounded().set_value_only_deserializer(Numbers())
        source = made.set_bad_records(policy).build()
        apart = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").process(Apart(), Types.STRING())
        apart.sink_to(sink_into(topics.bootstrap, good)).uid("good")
        apart.get_side_output(BAD).sink_to(sink_into(topics.bootstrap, bad)).uid("bad")
        return Running(env, place)

    with pytest.raises(JobExecutionError, match=r"KafkaRecordError: .*offset 1 of .*set_bad_records"):
        job("fail", tmp_path / "fail").to_end()
    job("emit", tmp_path / "emit").to_end()
    topics.same(good, ["1", "3"])
    topics.same(bad, ["1: ValueError: invalid literal for int() with base 10: b'two'"])
