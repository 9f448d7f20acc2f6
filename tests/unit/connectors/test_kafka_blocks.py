"""What a Kafka sink stages for its committer is what was to be sent, or an error of the writer."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.cells import cells

from penstock._connectors.kafka.blocks import KafkaBlock, decoded
from penstock._connectors.kafka.marks import committer_name
from penstock._connectors.kafka.serializing import OutRecord
from penstock._connectors.kafka.topics import TopicRules, Topics
from penstock._connectors.kafka.writer import StagingKafkaWriter
from penstock.common.serialization import SerializationSchema
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema
from penstock.errors import KafkaRecordError
from penstock.testing.connector_contexts import JOB_ID, TestWriterContext

if TYPE_CHECKING:
    from collections.abc import Collection

PROPERTIES = {"bootstrap.servers": "localhost:9"}


class AnyTopic(Topics):
    """Topics that all exist, of these rules."""

    def __init__(self, rules: TopicRules | None = None, **properties: str) -> None:
        super().__init__({**PROPERTIES, **properties})
        self.one = rules or TopicRules()
        self.begun: list[tuple[str, str]] = []

    def _looked_at(self, topics: Collection[str]) -> dict[str, TopicRules]:
        return dict.fromkeys(topics, self.one)

    def note_begun(self, name: str, topics: Collection[str]) -> None:
        self.begun += [(name, topic) for topic in topics]


@dataclass
class Part(SerializationSchema):
    """Returns one part of a record as it is."""

    name: str

    def serialize(self, element: Any) -> Any:
        return element[self.name]


def schema() -> KafkaRecordSerializationSchema:
    builder = KafkaRecordSerializationSchema.builder().set_topic_selector(lambda record: record["topic"])
    builder = builder.set_key_serialization_schema(Part("key")).set_value_serialization_schema(Part("value"))
    return builder.set_header_provider(lambda record: record["headers"]).build()


def staged(records: list[dict[str, Any]]) -> list[OutRecord]:
    context = TestWriterContext()
    writer = StagingKafkaWriter(context, schema(), AnyTopic(), "p")
    writer.write_all(records, [record["time"] for record in records])
    writer.flush(False)
    blocks: list[KafkaBlock] = writer.prepare_commit()
    writer.close()
    return [one for block in blocks for one in decoded(block.data or context.staged[str(block.name)])]


def sent(value: Any) -> bytes | None:
    """Return what Kafka's client makes of a value or a key."""
    return value.encode() if isinstance(value, str) else None if value is None else bytes(value)


GOOD = st.one_of(st.none(), st.binary(max_size=20), st.text(max_size=20), st.binary(max_size=9).map(bytearray))
BAD = st.one_of(st.integers(), st.floats(), st.just([b"a"]), st.just({}))
NAMES = st.text(max_size=5).filter(lambda name: "\0" not in name)


def records_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "topic": st.from_regex(r"[a-zA-Z0-9_-]{1,9}", fullmatch=True),
            "value": values,
            "key": values,
            "headers": st.one_of(
                st.none(), st.lists(st.tuples(NAMES, values), max_size=3), st.dictionaries(NAMES, values, max_size=3)
            ),
            "time": st.one_of(st.none(), st.integers(-5, 2**62)),
        }
    )


@settings(max_examples=30 if settings.get_current_profile_name() == "ci" else 2000)
@given(st.lists(records_of(GOOD), min_size=1, max_size=5))
def test_what_is_staged_is_what_the_client_would_send(records: list[dict[str, Any]]) -> None:
    for record, found in zip(records, staged(records), strict=True):
        given_headers = record["headers"]
        headers = None
        if given_headers is not None:
            pairs = given_headers.items() if isinstance(given_headers, dict) else given_headers
            headers = tuple((name, sent(value)) for name, value in pairs)
        assert found == (record["topic"], sent(record["value"]), sent(record["key"]), record["time"], headers, None)


@settings(max_examples=20 if settings.get_current_profile_name() == "ci" else 1000)
@given(st.lists(records_of(GOOD), max_size=3), records_of(GOOD), st.sampled_from(["value", "key", "headers"]), BAD)
def test_what_the_committer_could_not_read_again_is_refused_by_the_writer(
    others: list[dict[str, Any]], record: dict[str, Any], part: str, bad: Any
) -> None:
    wrong = {**record, part: [("name", bad)] if part == "headers" else bad}
    with pytest.raises((KafkaRecordError, TypeError)):
        staged([*others, wrong])


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "a/b", "\u00fc", "a\n", "x" * 250, b"a", None, ["a"]])
def test_names_that_no_topic_can_have_are_refused_before_anything_is_staged(topic: Any) -> None:
    with pytest.raises(KafkaRecordError, match="is no name of a topic"):
        staged([{"topic": topic, "value": b"", "key": None, "headers": None, "time": None}])
    if isinstance(topic, str):
        with pytest.raises(ValueError, match="topic"):
            KafkaRecordSerializationSchema.builder().set_topic(topic).set_value_serialization_schema(Part("")).build()


SINGLE = {"topic": "t", "value": b"v", "key": b"k", "headers": None, "time": None}
LATE = 2**63 - 1


@cells(
    "changes, rules, text",
    {
        "no key": ({"key": None}, TopicRules(needs_keys=True), "has no key"),
        "too large": ({"value": b"v" * 939}, TopicRules(most_bytes=1000), "takes 1010 bytes"),
        "too large by its key": ({"key": b"k" * 939}, TopicRules(most_bytes=1000), "takes 1010 bytes"),
        "too large by its headers": (
            {"headers": [("h", b"h" * 939)]},
            TopicRules(most_bytes=1000),
            "max.message.bytes",
        ),
        "too large for the client": ({"value": "\u00fc" * 500_000}, TopicRules(), "the property message.max.bytes"),
        "too old": ({"time": 0}, TopicRules(behind_ms=1000), "message.timestamp.before.max.ms"),
        "a surrogate in the value": ({"value": "a\ud800"}, TopicRules(), r"its value has a character .*at 1"),
        "a surrogate in the key": ({"key": "\udc00"}, TopicRules(), "its key has a character"),
        "a surrogate in a header": ({"headers": {"h": "\ud800"}}, TopicRules(), "its header 'h' has a character"),
        "a surrogate in a header's name": ({"headers": {"\ud800": b""}}, TopicRules(), "of a header has a character"),
        "NUL in a header's name": ({"headers": {"a\0b": b""}}, TopicRules(), "has a NUL character"),
        "a number as a value": ({"value": 7}, TopicRules(), "its value is of type int"),
    },
)
def test_what_a_topic_or_the_client_would_refuse_or_change_is_refused_before_it_is_staged(
    changes: dict[str, Any], rules: TopicRules, text: str
) -> None:
    writer = StagingKafkaWriter(TestWriterContext(), schema(), AnyTopic(rules), "p")
    record = {**SINGLE, **changes}
    with pytest.raises(KafkaRecordError, match=text):
        writer.write_all([SINGLE, record], [None, record["time"]])
    writer.write_all([SINGLE], [LATE])
    writer.flush(False)
    assert len(writer.prepare_commit()) == 1


def test_a_timestamp_too_far_ahead_is_left_out_and_no_other() -> None:
    now_ms = time.time_ns() // 1_000_000
    hour_ms = 3_600_000
    stamps = [None, 0, -5, now_ms, now_ms + hour_ms // 2, now_ms + 2 * hour_ms, LATE]
    for rules, kept in ((TopicRules(ahead_ms=hour_ms), 5), (TopicRules(), 7), (TopicRules(ahead_ms=LATE), 7)):
        writer = StagingKafkaWriter(TestWriterContext(), schema(), AnyTopic(rules), "p")
        writer.write_all([SINGLE] * len(stamps), stamps)
        writer.flush(False)
        [block] = writer.prepare_commit()
        assert [one.timestamp for one in decoded(block.data or b"")] == [*stamps[:kept], *[None] * (7 - kept)]


def test_the_note_of_a_committer_is_made_before_its_first_block_is_handed_over() -> None:
    topics = AnyTopic(TopicRules(topic_id="first"))
    writer = StagingKafkaWriter(TestWriterContext(), schema(), topics, "p")
    writer.write_all([SINGLE], None)
    assert topics.begun == []
    writer.flush(False)
    [block] = writer.prepare_commit()
    assert topics.begun == [(committer_name("p", JOB_ID, "sink", "1" * 32), "t")]
    assert block.topics == (("t", "first"),)


def test_what_is_compressed_is_refused_only_where_it_stays_too_large() -> None:
    rules = TopicRules(most_bytes=1000)
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        topics = AnyTopic(rules, **{"compression.type": codec})
        assert len(topics.admitted([OutRecord("t", b"v" * 5000, None, None, None, None)]).records) == 1
        with pytest.raises(KafkaRecordError, match=r"max\.message\.bytes"):
            topics.admitted([OutRecord("t", random.Random(7).randbytes(5000), None, None, None, None)])
