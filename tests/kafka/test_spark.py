"""A job from Kafka to Kafka on the Spark session that tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fault.job import are_truth
from tests.kafka.job import PARTITIONS, Route, environment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.conftest import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.usefixtures("spark")]

NUMBERS = 4000


def test_numbers_of_a_topic_are_counted_into_another_one(topics: Topics, tmp_path: Path) -> None:
    route = Route(topics.bootstrap, topics.new(PARTITIONS), topics.new(2))
    topics.fill(route.numbers, [str(number) for number in range(NUMBERS)])
    env = environment(tmp_path, interval="1 s")
    route.build(env)
    env.execute("counting")
    assert are_truth(topics.values(route.counts, 2), NUMBERS)
    assert list((tmp_path / "checkpoints").glob("*/chk-*/_metadata"))
