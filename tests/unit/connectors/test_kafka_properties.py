"""Java's client properties: translated, or refused by name; and blocks, builders and names without a broker."""

from __future__ import annotations

import pickle
import sys

import pytest

from penstock._connectors.kafka.blocks import decoded, encoded
from penstock._connectors.kafka.committer import _is_done
from penstock._connectors.kafka.marks import committer_name
from penstock._connectors.kafka.properties import for_consumer, for_producer, translated
from penstock._connectors.kafka.serializing import OutRecord
from penstock.common import SimpleStringSchema
from penstock.common.redaction import shown_text
from penstock.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
    KafkaTopicSelector,
)
from penstock.errors import KafkaPropertyError, KafkaRecordError, MissingExtraError
from penstock.testing import TestReaderContext

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL"}, None),
        ({"sasl.mechanism": "PLAIN"}, {"sasl.mechanisms": "PLAIN"}),
        (
            {"sasl.jaas.config": f'{PLAIN} username="us er" password="pa;ss=wo\'rd-1" ;'},
            {"sasl.username": "us er", "sasl.password": "pa;ss=wo'rd-1"},
        ),
        (
            {"sasl.jaas.config": 'x.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="p@R";'},
            {"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "p@R"},
        ),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"}, {"ssl.ca.location": "/ca.pem"}),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.location": "/k.pem"},
         {"ssl.certificate.location": "/k.pem", "ssl.key.location": "/k.pem"}),
        ({"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/k.p12", "ssl.keystore.password": "secret-99"},
         {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "secret-99"}),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"buffer.memory": "33554432"}, {"queue.buffering.max.kbytes": "32768"}),
        ({"key.deserializer": "x", "max.poll.records": "5", "enable.auto.commit": "true"}, {}),
    ],
)  # fmt: skip
def test_properties_of_java_become_those_of_the_client(given: dict[str, str], expected: dict[str, str] | None) -> None:
    assert translated(given) == (given if expected is None else expected)


@pytest.mark.parametrize(
    ("key", "value", "way_out"),
    [
        ("ssl.truststore.location", "/a.jks", "ssl.ca.location"),
        ("ssl.keystore.location", "/a.jks", "PKCS12"),
        ("partitioner.class", "x.Y", "set_partitioner"),
        ("interceptor.classes", "x.Y", "map"),
        ("sasl.login.callback.handler.class", "x.Y", "oidc"),
        ("sasl.jaas.config", "x.OAuthBearerLoginModule required;", "sasl.username"),
        ("sasl.jaas.config", f"{PLAIN};", "set both"),
        ("ssl.engine.factory.class", "x.Y", "OpenSSL"),
        ("transactional.id", "mine", "leave it out"),
    ],
)
def test_what_cannot_be_translated_is_refused_by_name_and_says_what_to_do(key: str, value: str, way_out: str) -> None:
    with pytest.raises(KafkaPropertyError, match=way_out) as refused:
        translated({key: value})
    assert refused.value.property == key
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


def test_properties_go_to_the_clients_that_know_them() -> None:
    given = {"bootstrap.servers": "a:1", "group.id": "g", "linger.ms": "1", "fetch.min.bytes": "1"}
    assert for_producer(given) == {"bootstrap.servers": "a:1", "linger.ms": "1"}
    assert for_consumer(given) == {"bootstrap.servers": "a:1", "group.id": "g", "fetch.min.bytes": "1"}


def test_a_password_within_a_jaas_entry_is_a_secret_from_then_on() -> None:
    translated({"sasl.jaas.config": f'{PLAIN} username="u" password="correct-horse-7";'})
    assert "correct-horse-7" not in shown_text("login with correct-horse-7 failed")


def test_blocks_have_the_records_that_were_put_in() -> None:
    plain = [OutRecord("t", b"1", None, None, None, None), OutRecord("t", None, None, None, None, None)]
    full = [
        OutRecord("a", b"v", b"k", 5, (("h", b"x"), ("h", None)), 3),
        OutRecord("b", b"", None, None, None, None),
    ]
    for records in (plain, full, full[:1]):
        assert decoded(encoded(records)) == records


def test_a_marker_counts_for_its_own_blocks_and_for_what_came_before() -> None:
    assert _is_done((7, "names"), 7, "names", may_be=False)
    assert not _is_done((7, "names"), 7, "others", may_be=False), "a run that went back has other blocks"
    assert _is_done((7, "names"), 7, "others", may_be=True), "at a later try some blocks may have been given up"
    assert _is_done((8, "later"), 7, "names", may_be=True)
    assert not _is_done((8, "later"), 7, "names", may_be=False), "a first try was never made before"
    assert not _is_done((6, "names"), 7, "names", may_be=True)


def test_a_committer_is_named_by_job_sink_and_run() -> None:
    names = {committer_name("p", job, sink, run) for job in "ab" for sink in ("x", "y" * 900) for run in "rs"}
    assert len(names) == 8
    assert max(map(len, names)) < 40


class Selector(KafkaTopicSelector):
    def apply(self, data: str) -> str:
        return data[:1]


def test_a_serializer_makes_topics_keys_headers_and_partitions() -> None:
    text = SimpleStringSchema()
    made = KafkaRecordSerializationSchema.builder().set_value_serialization_schema(text)
    made = made.set_topic_selector(Selector()).set_key_serialization_schema(text)
    made = made.set_header_provider(lambda word: {"length": bytes([len(word)])})
    schema = made.set_partitioner(lambda record, key, value, topic, known: known[len(record) % len(known)]).build()
    [record] = schema.records(["spark"], [7], lambda _: range(3))
    assert record == OutRecord("s", b"spark", b"spark", 7, (("length", b"\x05"),), 2)
    with pytest.raises(KafkaRecordError, match="no name of a topic"):
        schema.records([""], None, lambda _: range(3))
    outside = made.set_partitioner(lambda *_: 9).build()
    with pytest.raises(KafkaRecordError, match="partitions 0 to 2"):
        outside.records(["spark"], None, lambda _: range(3))


def test_builders_say_what_is_missing() -> None:
    text = SimpleStringSchema()
    source, sink = KafkaSource.builder(), KafkaSink.builder()
    with pytest.raises(ValueError, match="set_topics"):
        source.build()
    with pytest.raises(ValueError, match="deserializer"):
        source.set_topics("a").build()
    with pytest.raises(KafkaPropertyError, match="set_bootstrap_servers"):
        source.set_value_only_deserializer(text).build()
    with pytest.raises(ValueError, match="call one of"):
        source.set_topic_pattern("a")
    with pytest.raises(ValueError, match="regular expression"):
        KafkaSource.builder().set_topic_pattern("(")
    with pytest.raises(ValueError, match="record serializer"):
        sink.build()
    schema = KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(text).build()
    with pytest.raises(KafkaPropertyError, match="transaction"):
        sink.set_record_serializer(schema).set_bootstrap_servers("a:1").set_property(
            "transaction.timeout.ms", "long"
        ).build()


def test_a_source_and_a_sink_show_no_secrets() -> None:
    password = "do-not-show-31"
    source = KafkaSource.builder().set_topics("a").set_bootstrap_servers("a:1")
    source = source.set_value_only_deserializer(SimpleStringSchema()).set_property("sasl.password", password)
    schema = KafkaRecordSerializationSchema.builder().set_topic("t")
    sink = KafkaSink.builder().set_bootstrap_servers("a:1").set_property("sasl.password", password)
    sink = sink.set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build())
    made = sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()
    assert password not in repr(vars(source.build())) + repr(vars(made))


def test_without_the_client_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    source = KafkaSource.builder().set_topics("a").set_bootstrap_servers("a:1")
    reader = source.set_value_only_deserializer(SimpleStringSchema()).build().create_reader(TestReaderContext())
    from penstock._connectors.kafka.enumerator import KafkaPartitionSplit

    reader.add_splits([KafkaPartitionSplit(KafkaTopicPartition("a", 0), 0)])
    with pytest.raises(MissingExtraError, match=r"penstock\[kafka\]"):
        reader.is_available(0) and reader._open()  # type: ignore[attr-defined]
