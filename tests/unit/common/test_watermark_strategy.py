from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common.time import Duration
from penstock.common.watermark_strategy import (
    TimestampAssigner,
    WatermarkAlignment,
    WatermarkGenerator,
    WatermarkGeneratorContext,
    WatermarkKind,
    WatermarkOutput,
    WatermarkStrategy,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Assigner(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value


class Generator(WatermarkGenerator):
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(event_timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None: ...


def _make(context: WatermarkGeneratorContext) -> Generator:
    return Generator()


def test_built_in_strategies_are_plain_data() -> None:
    assert WatermarkStrategy.no_watermarks() == WatermarkStrategy(WatermarkKind.NONE)
    assert WatermarkStrategy.for_monotonous_timestamps() == WatermarkStrategy(WatermarkKind.BOUNDED, bound_ms=0)
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    assert bounded == WatermarkStrategy(WatermarkKind.BOUNDED, bound_ms=5000)


def test_a_generator_strategy_keeps_its_supplier() -> None:
    strategy = WatermarkStrategy.for_generator(_make)
    assert (strategy.kind, strategy.generator_supplier) == (WatermarkKind.GENERATOR, _make)


def test_the_assigner_is_set_in_place() -> None:
    strategy, assigner = WatermarkStrategy.for_monotonous_timestamps(), Assigner()
    assert strategy.with_timestamp_assigner(assigner) is strategy
    assert strategy.timestamp_assigner is assigner


@pytest.mark.parametrize(
    "start", [WatermarkStrategy.for_monotonous_timestamps(), WatermarkStrategy.for_generator(_make)]
)
def test_idleness_and_alignment_keep_everything_set_before(start: WatermarkStrategy) -> None:
    assigner = Assigner()
    strategy = (
        start.with_timestamp_assigner(assigner)
        .with_watermark_alignment("group", Duration.of_seconds(20))
        .with_idleness(Duration.of_minutes(1))
    )
    assert strategy.timestamp_assigner is assigner
    assert strategy.generator_supplier is start.generator_supplier
    assert strategy.idleness_ms == 60_000
    assert strategy.alignment == WatermarkAlignment("group", 20_000, 1000)


def test_with_idleness_leaves_the_strategy_before_it_alone() -> None:
    strategy = WatermarkStrategy.no_watermarks()
    strategy.with_idleness(Duration.of_seconds(1))
    assert strategy.idleness_ms is None


def test_alignment_takes_an_interval() -> None:
    strategy = WatermarkStrategy.no_watermarks().with_watermark_alignment(
        "g", Duration.of_seconds(1), Duration.of_millis(50)
    )
    assert strategy.alignment == WatermarkAlignment("g", 1000, 50)


def test_times_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(-1))
    with pytest.raises(ValueError, match="at least 1 ms"):
        WatermarkStrategy.no_watermarks().with_idleness(Duration(0))


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("max_out_of_orderness", WatermarkStrategy.for_bounded_out_of_orderness),
        ("idle_timeout", WatermarkStrategy.no_watermarks().with_idleness),
        ("max_allowed_watermark_drift", partial(WatermarkStrategy.no_watermarks().with_watermark_alignment, "group")),
    ],
)
def test_a_number_in_place_of_a_duration_is_refused_with_what_to_write(
    argument: str, call: Callable[[Any], object]
) -> None:
    with pytest.raises(TypeError, match=rf"{argument} must be a Duration, such as Duration\.of_seconds\(10\), not 5\."):
        call(5)
