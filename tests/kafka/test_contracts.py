"""The contracts of sources and sinks, held on a real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kafka.job import sink_into

from penstock._connectors.kafka import writer
from penstock.common import SimpleStringSchema
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from penstock.testing.sink_contract import SinkContract, SinkUnderTest
from penstock.testing.source_contract import SourceContract

if TYPE_CHECKING:
    from tests.kafka.conftest import Topics

pytestmark = pytest.mark.kafka


def source_of(topics: Topics, topic: str) -> KafkaSource:
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(topics.bootstrap)
        .set_topics(topic)
        .set_group_id("contract")
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )


def test_source(topics: Topics) -> None:
    topic = topics.new(3)
    values = [f"v{number}" for number in range(300)]
    topics.fill(topic, values)
    SourceContract(lambda: source_of(topics, topic), values).check_all()


@pytest.mark.behaviour(124)
def test_exactly_once_sink(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BLOCK_BYTES", 500)  # an epoch has several blocks
    monkeypatch.setattr(writer, "INLINE_BYTES", 200)  # some blocks are staged, others are in their committables

    def make() -> SinkUnderTest:
        topic = topics.new()
        return SinkUnderTest(sink_into(topics.bootstrap, topic), lambda: topics.values(topic), lambda: None)

    SinkContract(make, [f"value {number}" for number in range(60)]).check_all()
