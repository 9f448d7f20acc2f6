"""What a Kafka sink writes, and that each record is there once after a failure at any step of a commit."""

from __future__ import annotations

import time as clock
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from tests.kafka.job import bytes_into, sink_into
from tests.kit.cells import cells

from penstock._connectors.kafka import committer as committing
from penstock._connectors.kafka import topics as looking
from penstock._connectors.kafka import writer as writing
from penstock._connectors.kafka.marks import committer_name
from penstock.common import SimpleStringSchema
from penstock.datastream.connectors.kafka import DeliveryGuarantee, KafkaRecordSerializationSchema, KafkaSink
from penstock.errors import (
    KafkaConnectorError,
    KafkaRecordError,
    KafkaTopicError,
    KafkaTransactionError,
    LostCommittableError,
)
from penstock.testing.connector_contexts import JOB_ID, TestCommitterContext, TestWriterContext, requests_for
from penstock.testing.sink_contract import SinkRun

if TYPE_CHECKING:
    from tests.kafka.conftest import Topics

pytestmark = pytest.mark.kafka

#: What Java's BuiltInPartitioner.partitionForKey of kafka-clients 4.3 returns for six partitions.
JAVAS_PARTITIONS = {"a": 4, "order-1": 4, "order-2": 3, "customer": 0, "für": 1, "": 3}


class Killed(BaseException):
    """Stands for SIGKILL: nothing behind it runs."""


@pytest.mark.behaviour(124)
@pytest.mark.parametrize("step", ["begin", "produce", "offsets", "commit", "acknowledged"])
def test_killed_at_each_step_of_a_commit_each_record_is_there_once(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    topic = topics.new()
    sink = sink_into(topics.bootstrap, topic)
    run = SinkRun(sink)
    first = run.epoch(["a", "b"])
    run.commit(first)
    second = run.epoch(["c", "d"])
    publisher = committing._Publisher
    call = publisher._call
    calls = {"begin": "Beginning", "offsets": "Adding", "commit": "Committing", "acknowledged": "Committing"}

    def killed(self: Any, what: str, made: Any) -> None:
        if what.startswith(calls.get(step, "nothing")):
            if step == "acknowledged":
                call(self, what, made)
            raise Killed
        call(self, what, made)

    def sent(self: Any, records: Any) -> None:
        for record in records[:1]:
            self.client.produce(record.topic, record.value)
        self.client.flush(5)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(publisher, "_call", killed)
        patch.setattr(publisher, "_abort", lambda self: None)
        patch.setattr(publisher, "close", lambda self: None)
        if step == "produce":
            patch.setattr(committing.RecordProducer, "send", sent)
        with pytest.raises(Killed):
            run.commit(second)
    again = SinkRun(sink, checkpoint=second)
    again.commit(second, may_be_committed=True)
    again.commit(again.epoch(["e"], end_of_input=True))
    topics.same(topic, "abcde")


def test_an_open_transaction_of_a_dead_job_is_ended_by_the_next_start(topics: Topics) -> None:
    topic = topics.new()
    sink = sink_into(topics.bootstrap, topic)
    run = SinkRun(sink)
    checkpoint = run.epoch(["a", "b"])
    name = committer_name("penstock", JOB_ID, "sink", "e" * 32)
    dead = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": name})
    dead.init_transactions()
    dead.begin_transaction()
    dead.produce(topic, "half of it")
    dead.flush()
    run.commit(checkpoint, may_be_committed=True)
    topics.same(topic, "ab")
    dead.purge()


def test_a_marker_that_is_pending_for_ever_is_ended_and_each_record_is_there_once(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.new()
    run = SinkRun(sink_into(topics.bootstrap, topic))
    run.commit(run.epoch(["a", "b"]))
    second = run.epoch(["c", "d"])
    told, limits = committing._Publisher._committed, list[float]()

    def pending(self: Any, of: str, timeout_s: float) -> Any:
        limits.append(timeout_s)
        return None if len(limits) < 3 else told(self, of, timeout_s)

    monkeypatch.setattr(committing._Publisher, "_committed", pending)
    run.commit(second)
    run.commit(second, may_be_committed=True)
    assert limits == [*[committing._STABLE_S] * 2, committing.REQUEST_S, committing._STABLE_S]
    topics.same(topic, "abcd")


def test_an_older_driver_is_fenced(topics: Topics) -> None:
    topic = topics.new()
    sink: Any = sink_into(topics.bootstrap, topic)
    run = SinkRun(sink)
    checkpoint = run.epoch(["a"])
    from penstock.testing.connector_contexts import JOB_ID, TestCommitterContext, requests_for

    serializer = sink.get_committable_serializer()
    blocks = [serializer.deserialize(*data) for data in checkpoint.committables]
    older, newer = (sink.create_committer(TestCommitterContext(JOB_ID, run_id="e" * 32)) for _ in range(2))
    older.commit(requests_for(blocks, 1))
    [request] = requests_for(blocks, 1, may_be_committed=True)
    newer.commit([request])
    assert request.already_committed
    blocks = [serializer.deserialize(*data) for data in run.epoch(["b"]).committables]
    with pytest.raises(KafkaTransactionError, match="another driver"):
        older.commit(requests_for(blocks, 2))
    newer.commit(requests_for(blocks, 2, may_be_committed=True))
    topics.same(topic, "ab")
    older.close()
    newer.close()


def test_lost_and_changed_blocks_are_named_and_nothing_of_them_is_published(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "INLINE_BYTES", 0)
    topic = topics.new()
    for damage, text in (({}, "is gone"), ({"bad": b"x"}, "has been changed")):
        staged: dict[str, bytes] = {}
        run = SinkRun(sink_into(topics.bootstrap, topic), staged=staged)
        checkpoint = run.epoch(["a"])
        for name in list(staged):
            staged.pop(name)
            if damage:
                staged[name] = b"x"
        with pytest.raises(LostCommittableError, match=text):
            run.commit(checkpoint, may_be_committed=True)
    assert topics.values(topic) == []


def test_keys_land_where_javas_default_partitioner_puts_them(topics: Topics) -> None:
    topic, text = topics.new(6), SimpleStringSchema()
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic).set_key_serialization_schema(text)
    sink = KafkaSink.builder().set_bootstrap_servers(topics.bootstrap)
    sink = sink.set_record_serializer(schema.set_value_serialization_schema(text).build())
    run = SinkRun(sink.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build())
    run.epoch(list(JAVAS_PARTITIONS), end_of_input=True)
    found = {message.value().decode(): message.partition() for message in topics.messages(topic, 6)}
    assert found == JAVAS_PARTITIONS


def test_records_have_their_keys_headers_times_topics_and_partitions(topics: Topics) -> None:
    one, two, text = topics.new(2), topics.new(2), SimpleStringSchema()
    schema = KafkaRecordSerializationSchema.builder().set_topic_selector(lambda word: one if word < "m" else two)
    schema = schema.set_key_serialization_schema(text).set_value_serialization_schema(text)
    schema = schema.set_partitioner(lambda record, key, value, topic, known: known[-1])
    schema = schema.set_header_provider(lambda word: [("first", word[:1].encode())])
    for guarantee in DeliveryGuarantee:
        sink = KafkaSink.builder().set_bootstrap_servers(topics.bootstrap).set_delivery_guarantee(guarantee)
        run = SinkRun(sink.set_record_serializer(schema.build()).build())
        run.commit(run.epoch(["apple", "zebra"], end_of_input=True))
    for topic, word in ((one, "apple"), (two, "zebra")):
        found = topics.messages(topic, 2)
        assert [(message.partition(), message.key(), message.value()) for message in found] == [
            (1, word.encode(), word.encode())
        ] * 3
        assert found[0].headers() == [("first", word[:1].encode())]


def test_what_could_never_be_committed_fails_in_the_writer(topics: Topics) -> None:
    topic = topics.new()
    sink = sink_into(topics.bootstrap, topic)
    writer = sink.create_writer(TestWriterContext())
    with pytest.raises(KafkaRecordError, match=r"message\.max\.bytes"):
        writer.write_all(["x" * 1_000_001])
    builder = KafkaSink.builder().set_bootstrap_servers(topics.bootstrap)
    builder = builder.set_property("transaction.timeout.ms", "3600000")
    builder = builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic)
    built = builder.set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build()).build()
    with pytest.raises(KafkaTransactionError, match=r"transaction\.max\.timeout\.ms"):
        built.create_writer(TestWriterContext())


def test_a_topic_that_does_not_exist_is_named(topics: Topics) -> None:
    soon = {"topic.metadata.propagation.max.ms": "500"}
    run = SinkRun(sink_into(topics.bootstrap, "nowhere", soon, DeliveryGuarantee.AT_LEAST_ONCE))
    with pytest.raises(KafkaTopicError, match="Writing into nowhere"):
        run.epoch(["a"])
    run.close()


def test_a_sink_that_no_broker_has_ever_answered_does_not_wait_as_for_one_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(looking, "_FIRST_S", 0.0)
    schema = KafkaRecordSerializationSchema.builder().set_topic("words")
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers("127.0.0.1:1")
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build())
        .build()
    )
    writer = sink.create_writer(TestWriterContext())
    with pytest.raises(KafkaConnectorError, match=r"refused.*; check bootstrap.servers, 127.0.0.1:1, and sec"):
        writer.write_all(["a"], None)
    writer.close()


def test_batches_are_no_larger_than_their_topic_takes(topics: Topics) -> None:
    topic = topics.new(**{"max.message.bytes": "1000"})
    values = [f"{number:090}" for number in range(300)]
    for guarantee in (DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE):
        run = SinkRun(sink_into(topics.bootstrap, topic, None, guarantee))
        run.commit(run.epoch(values, end_of_input=True))
    topics.same(topic, values * 2)


@cells(
    "config, record, text",
    {
        "no key for a compacted topic": ({"cleanup.policy": "compact"}, {}, "has no key"),
        "no key for one that is also deleted from": ({"cleanup.policy": "compact,delete"}, {}, "has no key"),
        "too large by one byte": ({"max.message.bytes": "1000"}, {"value": b"v" * 931}, "max.message.bytes is 1000"),
        "too old": ({"message.timestamp.before.max.ms": "1000"}, {"time": 5}, "message.timestamp.before.max.ms"),
    },
)
def test_what_a_topic_would_refuse_is_refused_by_the_writer(
    topics: Topics, config: dict[str, str], record: dict[str, Any], text: str
) -> None:
    topic = topics.new(**config)
    time = record.pop("time", None)
    sink = bytes_into(topics.bootstrap, topic)
    writer = sink.create_writer(TestWriterContext())
    with pytest.raises(KafkaRecordError, match=text):
        writer.write_all([record], [time])
    writer.close()
    sent: list[Any] = []
    producer = Producer({"bootstrap.servers": topics.bootstrap})
    value = record.get("value", b"v")
    producer.produce(topic, value, on_delivery=lambda error, _: sent.append(error), timestamp=time or 0)
    producer.flush()
    producer.close()
    assert sent[0] is not None, "the broker takes it"
    good = SinkRun(sink)
    now_ms = int(clock.time() * 1000)
    good.commit(good.epoch([{"key": b"k", "value": value[:-2], "time": now_ms}]))
    assert len(topics.messages(topic)) == 1


def test_a_timestamp_that_the_broker_would_refuse_is_left_out(topics: Topics) -> None:
    now_ms = int(clock.time() * 1000)
    hour_ms = 3_600_000
    for guarantee in (DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE):
        topic = topics.new()
        sink: Any = bytes_into(topics.bootstrap, topic, guarantee)
        writer = sink.create_writer(TestWriterContext())
        stamps = [2**63 - 1, now_ms + 2 * hour_ms, now_ms + hour_ms // 2, -5, 1]
        writer.write_all([{"value": str(stamp).encode()} for stamp in stamps], stamps)
        writer.flush(False)
        if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            committer = sink.create_committer(TestCommitterContext())
            committer.commit(requests_for(writer.prepare_commit()))
            committer.close()
        writer.close()
        found = {int(message.value()): message.timestamp()[1] for message in topics.messages(topic)}
        kept = {now_ms + hour_ms // 2, 1}
        assert {stamp for stamp, time in found.items() if stamp == time} == kept
        assert all(abs(found[stamp] - now_ms) < 60_000 for stamp in stamps if stamp not in kept)


def test_a_topics_configuration_is_looked_at_again(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "_KNOWN_S", -1.0)
    topic = topics.new()
    writer = sink_into(topics.bootstrap, topic).create_writer(TestWriterContext())
    writer.write_all(["a"])
    topics.configure(topic, **{"cleanup.policy": "compact"})
    with pytest.raises(KafkaRecordError, match="has no key"):
        writer.write_all(["b"])
    topics.delete(topic)
    with pytest.raises(KafkaTopicError, match=topic):
        writer.write_all(["c"])
    writer.close()


@cells("which", ["note", "both"])
def test_what_was_committed_is_not_published_again_when_the_broker_has_dropped_the_marker(
    topics: Topics, which: str
) -> None:
    topic = topics.new()
    sink = sink_into(topics.bootstrap, topic)
    run_id = uuid.uuid4().hex
    run = SinkRun(sink, run_id=run_id)
    checkpoint = run.epoch(["a", "b"])
    run.commit(checkpoint)
    run.close()
    name = committer_name("penstock", JOB_ID, "sink", run_id)
    groups = {"note": [f"{name}-begun"], "both": [name, f"{name}-begun"]}[which]
    for deleted in topics.admin.delete_consumer_groups(groups).values():
        deleted.result()
    again = SinkRun(sink, checkpoint=checkpoint, run_id=run_id)
    if which == "both":
        with pytest.raises(AssertionError, match="CommitOutcomeUnknownError"):
            again.commit(checkpoint, may_be_committed=True)
    else:
        again.commit(checkpoint, may_be_committed=True)
    again.close()
    topics.same(topic, "ab")
