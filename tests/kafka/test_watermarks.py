"""Each partition has a watermark of its own, and one that is ahead of the others waits where a program says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kafka.job import Route, Running, environment, sink_into

from penstock.common import Duration, Types, WatermarkStrategy
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaTopicPartition
from penstock.datastream.functions import ProcessFunction

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kafka.conftest import Topics

pytestmark = pytest.mark.kafka

EACH = 100
#: A client takes the time 0 for none.
FIRST = 1000
#: What a reader reads in one epoch.
FEW = 10
MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()


class Seen(ProcessFunction):
    """A record with its time, and the watermark that it meets."""

    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Iterator[str]:
        yield f"{value} {ctx.timestamp()} {ctx.timer_service().current_watermark()}"


class TwoPartitions:
    """A job of one reader of two partitions: `slow` has the times from 1000 on, `fast` those from 1050 on."""

    def __init__(self, topics: Topics, directory: Path, strategy: WatermarkStrategy) -> None:
        self._topics, self._topic, self._seen = topics, topics.new(2), topics.new()
        env = environment(directory, 1)
        end = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(self._topic, number): EACH for number in range(2)})
        source = Route(topics.bootstrap, self._topic, self._seen).source().set_bounded(end).build()
        stream = env.from_source(source, strategy, "two").process(Seen(), Types.STRING())
        stream.sink_to(sink_into(topics.bootstrap, self._seen))
        self.job = Running(env, directory, FEW)

    def fill(self, name: str) -> None:
        partition, first = {"slow": (0, FIRST), "fast": (1, FIRST + 50)}[name]
        self._topics.fill(self._topic, [name] * EACH, first, partition=partition)

    def run(self) -> list[tuple[str, int, int]]:
        """Return the records in their order, each with its partition, its time and the watermark."""
        self.job.to_end()
        rows = [line.split() for line in self._topics.values(self._seen)]
        assert len(rows) == 2 * EACH
        return [(name, int(time), int(watermark)) for name, time, watermark in rows]


def test_no_record_is_late_because_another_partition_is_ahead(topics: Topics, tmp_path: Path) -> None:
    two = TwoPartitions(topics, tmp_path, MONOTONOUS)
    two.fill("fast")
    two.job.at_epoch(4, lambda: two.fill("slow"))
    seen = two.run()
    assert [name for name, _, _ in seen[:FEW]] == ["fast"] * FEW
    assert [one for one in seen if one[2] >= one[1]] == []
    assert max(watermark for _, _, watermark in seen) > FIRST + 50


@pytest.mark.behaviour(192)
def test_a_partition_that_is_ahead_waits_for_the_others_of_its_group(topics: Topics, tmp_path: Path) -> None:
    drift = 10
    two = TwoPartitions(topics, tmp_path, MONOTONOUS.with_watermark_alignment("group", Duration.of_millis(drift)))
    two.fill("fast")
    two.fill("slow")
    newest = {"slow": -1, "fast": -1}
    for name, time, _ in two.run():
        if name == "fast" and newest["slow"] >= 0:
            most = max(newest["slow"] + drift, FIRST + 50) + FEW  # it is looked at behind each poll
            assert time <= most or newest["slow"] == FIRST + EACH - 1, (time, newest)
        newest[name] = time
    assert newest == {"slow": FIRST + EACH - 1, "fast": FIRST + EACH + 49}
