"""Timestamps and watermarks of strategies: where they stand, idleness, and that they go on after a restore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine.operators.batch import RowBatch, watermark_only
from penstock._engine.operators.sources.watermarks import TimestampsAndWatermarksOperator
from penstock._engine.protocol.rows import MAX_WATERMARK
from penstock.common.time import Duration
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkGenerator, WatermarkStrategy
from penstock.testing.harness import OperatorHarness, StreamRecord, Watermark

if TYPE_CHECKING:
    from penstock._engine.operators.base import Output


class Itself(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value


class BehindEach(WatermarkGenerator):
    """Emits the timestamp of each record, and one more at each period."""

    def __init__(self) -> None:
        self.last: int | None = None

    def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
        self.last = event_timestamp
        output.emit_watermark(event_timestamp)

    def on_periodic_emit(self, output: Any) -> None:
        if self.last is not None:
            output.emit_watermark(self.last + 1)


def marking(strategy: WatermarkStrategy) -> OperatorHarness:
    return OperatorHarness(TimestampsAndWatermarksOperator(strategy.with_timestamp_assigner(Itself())))


def bounded(bound_ms: int) -> WatermarkStrategy:
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound_ms))


def only(outputs: Any) -> RowBatch:
    [(_, batch)] = list[Any](outputs)
    return batch


def test_a_bounded_strategy_emits_behind_each_block_and_never_goes_back() -> None:
    harness = marking(bounded(5))
    harness.process_elements([10, 30, 20])
    harness.process_elements([15])
    harness.process_elements([40])
    assert harness.output() == [
        StreamRecord(10, 10),
        StreamRecord(30, 30),
        StreamRecord(20, 20),
        Watermark(24),
        StreamRecord(15, 15),
        StreamRecord(40, 40),
        Watermark(34),
    ]


@pytest.mark.behaviour(183)
def test_a_watermark_that_a_generator_emits_on_an_event_stands_behind_that_event() -> None:
    harness = marking(WatermarkStrategy.for_generator(lambda context: BehindEach()))
    harness.process_elements([10, 5, 20])
    assert harness.output() == [
        StreamRecord(10, 10),
        Watermark(10),
        StreamRecord(5, 5),
        StreamRecord(20, 20),
        Watermark(20),
        Watermark(21),
    ]


def test_the_watermarks_of_the_input_are_replaced_except_the_last_one() -> None:
    harness = marking(bounded(0))
    harness.process_watermark(1_000)
    harness.process_element(10)
    harness.end_input()
    assert harness.output() == [StreamRecord(10, 10), Watermark(9), Watermark(MAX_WATERMARK)]


@pytest.mark.behaviour(32)
def test_no_watermarks_still_passes_on_the_end() -> None:
    harness = marking(WatermarkStrategy.no_watermarks())
    harness.process_element(10)
    harness.end_input()
    assert harness.output() == [StreamRecord(10, 10), Watermark(MAX_WATERMARK)]


@pytest.mark.parametrize("interval", ["0 ms", "0min"])
def test_interval_0_turns_periodic_watermarks_off(interval: str) -> None:
    outputs: list[Output] = []
    for strategy in (bounded(0), WatermarkStrategy.for_generator(lambda context: BehindEach())):
        operator = TimestampsAndWatermarksOperator(strategy.with_timestamp_assigner(Itself()))
        harness = OperatorHarness(operator)
        harness.open()
        operator.context.configuration["pipeline.auto-watermark-interval"] = interval
        operator.open(operator.context)
        outputs += operator.process(RowBatch([10]), 0)
    assert [batch.watermarks for _, batch in outputs] == [[], [(1, 10)]]


def test_an_input_without_records_for_the_idle_time_is_idle_and_wakes_with_a_record() -> None:
    operator = TimestampsAndWatermarksOperator(
        bounded(0).with_idleness(Duration.of_millis(100)).with_timestamp_assigner(Itself())
    )
    harness = OperatorHarness(operator)
    harness.open()
    harness.set_processing_time(99)
    assert not operator.is_idle(upstream_idle=False)
    harness.set_processing_time(100)
    assert operator.is_idle(upstream_idle=False)
    harness.process_element(1)
    assert not operator.is_idle(upstream_idle=False)


def test_idleness_starts_fresh_after_a_restore() -> None:
    strategy = bounded(0).with_idleness(Duration.of_millis(100))
    before = marking(strategy)
    before.process_element(1)
    operator = TimestampsAndWatermarksOperator(strategy)
    after = OperatorHarness(operator)
    after.restore(before.snapshot())
    after.clock.set(3_600_000)
    after.open()
    assert not operator.is_idle(upstream_idle=False)
    after.set_processing_time(3_600_099)
    assert not operator.is_idle(upstream_idle=False)
    after.set_processing_time(3_600_100)
    assert operator.is_idle(upstream_idle=False)


@pytest.mark.parametrize("strategy", [bounded(5), WatermarkStrategy.for_generator(lambda context: BehindEach())])
def test_watermarks_do_not_go_back_after_a_restore(strategy: WatermarkStrategy) -> None:
    before = marking(strategy)
    before.process_element(100)
    operator = TimestampsAndWatermarksOperator(strategy.with_timestamp_assigner(Itself()))
    after = OperatorHarness(operator)
    after.restore(before.snapshot())
    after.process_element(50)
    top = max(item.timestamp for item in before.output() if isinstance(item, Watermark))
    assert all(item.timestamp > top for item in after.output() if isinstance(item, Watermark))
    assert operator.output_watermark(0) >= top


def test_a_block_without_records_keeps_its_place_in_time() -> None:
    harness = marking(bounded(0))
    harness.open()
    assert only(harness._operator.process(watermark_only(7), 0)).watermarks == []
