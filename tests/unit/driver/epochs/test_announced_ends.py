"""Jobs between so many subtasks that the driver tells receivers which senders end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.driving import run_on_the_clock

from penstock._engine.plan import levels
from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("most_rows", "more_epochs"), [(1 << 16, 0), (0, 1)])
def test_sources_end_in_one_more_epoch_at_once_and_all_levels_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_rows: int, more_epochs: int
) -> None:
    monkeypatch.setattr(levels, "MAX_CLOSING_ROWS", most_rows)
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    numbers = env.from_source(NumberSequenceSource(0, 99), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda number: number % 5).reduce(max).rebalance().map(lambda number: number).print()
    runner = run_on_the_clock(env, tmp_path, monkeypatch, most_epochs=50)
    *before, last = [acks for acks in runner.acks if acks]
    assert all(ack.finished for ack in last)
    if more_epochs:
        assert {ack.awaits_end for ack in before[-1] if ack.vertex == 0} == {True}
        assert not any(ack.finished for acks in before for ack in acks)
        assert set(runner.plans[len(before)].levels[0].ending) == {0, 1, 2}
    assert sum(ack.io.records_in for acks in runner.acks for ack in acks if ack.vertex == 0) == 100
