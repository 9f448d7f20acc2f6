"""Sessions of one gap that fire at their end have a way of their own, over the rows of all windows of single keys."""

from __future__ import annotations

from typing import Any

import pytest

from penstock._engine.protocol.key_groups import key_group, subtask_of_key_group
from penstock.datastream.functions import ProcessWindowFunction
from penstock.datastream.window import EventTimeSessionWindows, EventTimeTrigger, PurgingTrigger
from penstock.testing import OperatorHarness, StreamRecord

PURGING = PurgingTrigger(EventTimeTrigger())
PLAIN: dict[str, Any] = {}
KEYS = [7, "a", ("a", 7)]


class Told(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, context.window().start, context.window().end, len(list(elements))


def sessions(**settings: Any) -> Any:
    return OperatorHarness.for_window(lambda record: record, EventTimeSessionWindows(10), function=Told(), **settings)


def feed(harness: Any, key: Any, *stamps: int) -> None:
    """Give a harness records in one block."""
    harness.process_records([StreamRecord(key, stamp) for stamp in stamps])


@pytest.mark.behaviour(186)
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (PLAIN, PLAIN),
        (PLAIN, {"trigger": PURGING}),
        (PLAIN, {"allowed_lateness_ms": 30}),
        (PLAIN, {"allowed_lateness_ms": 2**63 - 1}),  # sessions then stay for ever
        (PLAIN, {"trigger": PURGING, "allowed_lateness_ms": 30}),
        ({"trigger": PURGING}, PLAIN),
        ({"allowed_lateness_ms": 30}, PLAIN),
    ],
)
@pytest.mark.parametrize("watermark", [5, 15])  # before and behind the end that the session had at first
def test_session_that_grew_fires_once_and_at_its_end_after_a_restore_with_other_settings(
    before: dict[str, Any], after: dict[str, Any], key: Any, watermark: int
) -> None:
    first = sessions(**before)
    feed(first, key, 0, 5, 12, 20)
    first.process_watermark(watermark)
    harness = sessions(**after)
    harness.restore(first.snapshot())
    harness.process_watermark(28)
    assert harness.values() == []
    harness.process_watermark(29)
    assert harness.values() == [(key, 0, 30, 4)]
    harness.process_watermark(1_000)
    assert harness.values() == [(key, 0, 30, 4)]


@pytest.mark.behaviour(186)
@pytest.mark.parametrize("key", KEYS)
def test_sessions_of_a_key_grow_in_any_order_and_merge_within_a_block(key: Any) -> None:
    harness = sessions(allowed_lateness_ms=5)
    feed(harness, key, 30, 0, 35, 8, 27, 60, 18, 61)
    harness.process_watermark(100)
    assert harness.values() == [(key, 0, 45, 6), (key, 60, 71, 2)]


@pytest.mark.behaviour(186)
def test_session_that_fired_before_a_rescaling_fires_again_with_a_further_record() -> None:
    first = sessions(allowed_lateness_ms=50)
    feed(first, 7, 0, 5)
    first.process_watermark(20)
    assert first.values() == [(7, 0, 15, 2)]
    parts = [sessions(allowed_lateness_ms=50, subtask_index=index, parallelism=2) for index in range(2)]
    snapshot = first.snapshot()
    for part in parts:
        part.restore(snapshot)
    owner = parts[subtask_of_key_group(key_group(7, 128), 2, 128)]
    feed(owner, 7, 3)
    for watermark in (20, 1_000):
        owner.process_watermark(watermark)
        assert owner.values() == [(7, 0, 15, 3)]


def test_growing_session_has_one_timer() -> None:
    harness = sessions()
    feed(harness, 7, *range(0, 1_000, 5))
    assert len(harness._operator.event_timers) == 1
