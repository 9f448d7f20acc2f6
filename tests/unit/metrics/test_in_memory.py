from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from penstock.metrics.in_memory import InMemoryMetricGroup

if TYPE_CHECKING:
    import pytest


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_counter_counts_up_and_down() -> None:
    counter = InMemoryMetricGroup().counter("c")
    counter.inc()
    counter.inc(5)
    counter.dec(2)
    counter.dec()
    assert counter.get_count() == 3


def test_a_meter_counts_all_events_and_those_of_its_time_span() -> None:
    clock = Clock()
    group = InMemoryMetricGroup(clock)
    meter = group.meter("m", time_span_in_seconds=10)
    meter.mark_event(20)
    clock.now += 0.5
    meter.mark_event()
    assert group.snapshot()["m"] == {"kind": "meter", "name": "m", "variables": {}, "count": 21, "rate": 2.1}
    clock.now += 9
    meter.mark_event(9)
    assert group.snapshot()["m"]["rate"] == 3.0
    clock.now += 1
    assert group.snapshot()["m"]["rate"] == 0.9
    clock.now += 3600
    assert group.snapshot()["m"]["rate"] == 0.0
    assert meter.get_count() == 30


def test_a_distribution_keeps_number_sum_extremes_and_mean() -> None:
    group = InMemoryMetricGroup()
    distribution = group.distribution("d")
    empty = {"count": 0, "sum": 0, "min": None, "max": None, "mean": None}
    assert group.snapshot()["d"] == {"kind": "distribution", "name": "d", "variables": {}, **empty}
    for value in (5, -1, 2):
        distribution.update(value)
    assert group.snapshot()["d"].items() >= {"count": 3, "sum": 6, "min": -1, "max": 5, "mean": 2.0}.items()


def test_a_gauge_is_read_at_each_snapshot() -> None:
    group, values = InMemoryMetricGroup(), [1, 2]
    group.gauge("g", lambda: values.pop(0))
    assert [group.snapshot()["g"]["value"] for _ in range(2)] == [1, 2]


def test_a_gauge_that_raises_has_no_value_and_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    group = InMemoryMetricGroup()
    group.gauge("g", lambda: 1 // 0)
    assert [group.snapshot()["g"]["value"] for _ in range(2)] == [None, None]
    assert len(caplog.records) == 1


def test_groups_nest_and_pairs_become_variables() -> None:
    root = InMemoryMetricGroup()
    root.add_group("io").add_group("shard", "7").counter("reads").inc()
    assert root.snapshot() == {
        "io.shard.7.reads": {"kind": "counter", "name": "io.shard.reads", "variables": {"shard": "7"}, "count": 1}
    }


def test_a_metric_asked_for_again_is_the_same_one() -> None:
    root = InMemoryMetricGroup()
    root.add_group("a").counter("c").inc()
    root.add_group("a").counter("c").inc()
    assert root.add_group("a").counter("c").get_count() == 2
    root.gauge("g", lambda: 1)
    root.gauge("g", lambda: 2)
    assert root.snapshot()["g"]["value"] == 2


def test_a_name_taken_by_another_kind_works_unreported_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    group = InMemoryMetricGroup()
    group.counter("x").inc(5)
    group.meter("x").mark_event()
    group.gauge("x", lambda: 1)
    assert group.snapshot()["x"]["count"] == 5
    assert [record.message for record in caplog.records] == [
        "The metric x is a counter already; the meter of that name is not reported.",
        "The metric x is a counter already; the gauge of that name is not reported.",
    ]


def test_a_snapshot_of_a_group_has_its_tree_only_and_is_plain_data() -> None:
    root = InMemoryMetricGroup()
    root.counter("outside")
    group = root.add_group("in")
    group.counter("c")
    group.add_group("deeper").distribution("d")
    root.add_group("inner").counter("not")
    snapshot = group.snapshot()
    assert set(snapshot) == {"in.c", "in.deeper.d"}
    assert json.loads(json.dumps(snapshot)) == snapshot


def test_no_name_shows_a_secret() -> None:
    root = InMemoryMetricGroup()
    group = root.add_group("server", "amqp://joe:hush@host").add_group("password", "hush")
    group.counter("calls of -Dpwd=hush").inc()
    group.gauge("to ftp://joe:hush@host", lambda: 1)
    assert "hush" not in str(root.snapshot())
    assert len(root.snapshot()) == 2
