"""Jobs under pressure: slow operators, more sources than cores, many splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.clock import CLOCK
from tests.kit.driving import Epochs, run_on_the_clock

from penstock.common.configuration import Configuration
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.connectors.number_seq import NumberSequenceSource

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.datastream import DataStream

INTERVAL_MS = 1_000
RECORD_MS = 10
EPOCHS = 30


def environment(place: Path) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(place / "checkpoints"))
    configuration.set_string("execution.checkpointing.interval", f"{INTERVAL_MS} ms")
    configuration.set_string("restart-strategy.type", "none")
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)


def numbers(env: StreamExecutionEnvironment, name: str = "numbers") -> DataStream:
    return env.from_source(NumberSequenceSource(0, 10**9), WatermarkStrategy.no_watermarks(), name)


def slowly(number: int) -> int:
    CLOCK.advance(RECORD_MS)
    return number


def run_slow_map(place: Path, monkeypatch: pytest.MonkeyPatch, *, chained: bool) -> Epochs:
    env = environment(place)
    fast = numbers(env)
    (fast if chained else fast.rebalance()).map(slowly).filter(lambda _: False).print()
    return run_on_the_clock(env, place, monkeypatch, most_epochs=EPOCHS)


@pytest.mark.parametrize("chained", [True, False])
def test_fast_source_before_a_slow_map_repeats_no_epoch_and_keeps_to_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chained: bool
) -> None:
    seen = run_slow_map(tmp_path, monkeypatch, chained=chained)
    assert [plan.checkpoint_id for plan in seen.plans] == list(range(seen.plans[0].checkpoint_id, EPOCHS + 2))
    assert all(plan.attempt == 1 for plan in seen.plans)
    budgets = [part.max_records for plan in seen.plans for slot in plan.levels[0].slots for part in slot]
    assert all(read <= budget for read, budget in zip(seen.records(0), budgets, strict=True))
    assert max(budgets[5:]) < 3 * INTERVAL_MS / RECORD_MS


@pytest.mark.parametrize("chained", [True, False])
def test_fast_source_before_a_slow_map_keeps_epochs_near_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chained: bool
) -> None:
    seen = run_slow_map(tmp_path, monkeypatch, chained=chained)
    assert max(seen.lengths_ms[5:]) < 3 * INTERVAL_MS


def test_three_sources_on_two_slots_all_get_on_in_every_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = environment(tmp_path)
    for name in ("one", "two", "three"):
        numbers(env, name).map(slowly).filter(lambda _: False).print()
    seen = run_on_the_clock(env, tmp_path, monkeypatch, most_epochs=EPOCHS)
    assert all(min(seen.records(vertex)) > 0 for vertex in range(3))


def test_many_files_are_read_in_few_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = 2_000
    (tmp_path / "in").mkdir()
    for number in range(files):
        (tmp_path / "in" / f"{number}.txt").write_text(f"{number}\n")
    env = environment(tmp_path)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "in")).build()
    env.from_source(source, WatermarkStrategy.no_watermarks(), "files").map(int).filter(lambda _: False).print()
    seen = run_on_the_clock(env, tmp_path, monkeypatch, most_epochs=100)
    assert sum(seen.records(0)) == files
    assert len(seen.plans) < 20
