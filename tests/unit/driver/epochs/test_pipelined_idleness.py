"""Idleness within pipelined epochs, and how often sources that have nothing are asked in them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.clock import CLOCK, measure_by_the_clock
from tests.kit.stories import Sheet, Story
from tests.unit.driver.epochs.test_pipelined import PIPELINED, AtOnce, AtOnceReader, OwnTime

from penstock._engine.operators.base import Operator
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.rows import PayloadKind
from penstock._engine.runtime.flow import Pace
from penstock.common import Duration, WatermarkStrategy
from penstock.common.job_status import JobStatus
from penstock.datastream.connectors.base import Boundedness, FunctionSource, InputStatus
from penstock.datastream.functions import KeyedProcessFunction
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock._engine.runtime.row_buffer import ExchangeRow


@pytest.fixture(autouse=True)
def by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    measure_by_the_clock(monkeypatch)


@pytest.fixture
def kinds_read(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The kinds of the rows of each task; what is told from time to time is told at once."""
    found, read = list[list[int]](), InProcessEpochRunner._read

    def noting(*given: Any) -> list[ExchangeRow]:
        rows = read(*given)
        found.append([row.kind for row in rows])
        return rows

    monkeypatch.setattr(InProcessEpochRunner, "_read", noting)
    monkeypatch.setattr(Pace, "is_due", lambda _: True)
    return found


class Quiet(AtOnce):
    """Has a split, and no record in it."""

    def create_reader(self, reader_context: Any) -> Any:
        return QuietReader(reader_context, [])


class QuietReader(AtOnceReader):
    def poll_next(self, output: Any) -> InputStatus:
        return InputStatus.NOTHING_AVAILABLE


class Later(AtOnce):
    """Emits the records of its list one by one, after the other source has become idle."""

    def create_reader(self, reader_context: Any) -> Any:
        return LaterReader(reader_context, self._lists)


class LaterReader(AtOnceReader):
    def start(self) -> None:
        super().start()
        self._polls = iter([*[None] * 2, *self._lists[0]])

    def poll_next(self, output: Any) -> InputStatus:
        if not self._splits:
            return InputStatus.NOTHING_AVAILABLE
        for record in self._polls:
            if record is not None:
                output.collect(record)
            return InputStatus.NOTHING_AVAILABLE
        return InputStatus.END_OF_INPUT


class SeenWatermark(KeyedProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Any:
        yield value, ctx.timer_service().current_watermark()


def test_event_time_goes_on_within_an_epoch_beside_a_source_that_was_idle_before_it(tmp_path: Path) -> None:
    def write(sheet: Sheet) -> None:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnTime())
        times = sheet.source("times", list(range(40)), timestamps=strategy)
        idle = strategy.with_idleness(Duration.of_millis(1))
        quiet = sheet.source("quiet", timestamps=idle, kind=Quiet)
        sheet.collect(times.union(quiet).key_by(lambda _: 0).process(SeenWatermark()).uid("seen"))

    story = Story(tmp_path, records=10)
    story.run(write, asks={5: StopMode.DRAIN}, **PIPELINED)
    behind = [time_ms - watermark for time_ms, watermark in sorted(story.output())]
    assert behind[30:] == [2] * 10


def test_source_that_falls_idle_within_an_epoch_no_longer_holds_back_event_time(
    tmp_path: Path, kinds_read: list[list[int]]
) -> None:
    def write(sheet: Sheet) -> None:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnTime())
        times = sheet.source("times", list(range(40)), timestamps=strategy, kind=Later)
        idle = strategy.with_idleness(Duration.of_millis(1))
        quiet = sheet.source("quiet", timestamps=idle, kind=Quiet)
        sheet.collect(times.union(quiet).key_by(lambda _: 0).process(SeenWatermark()).uid("seen"))

    story = Story(tmp_path, slots=1, records=100)
    story.run(write, asks={8: StopMode.DRAIN}, **PIPELINED)
    told = [[kind for kind in kinds if kind in {PayloadKind.IDLE, PayloadKind.DATA}] for kinds in kinds_read]
    assert [kinds[:2] for kinds in told if PayloadKind.IDLE in kinds] == [[PayloadKind.IDLE, PayloadKind.DATA]]
    assert sorted(story.output())[1:] == [(time_ms, time_ms - 2) for time_ms in range(1, 40)]


def test_operator_that_sends_at_the_end_of_an_epoch_is_not_idle_within_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds_read: list[list[int]]
) -> None:
    def write(sheet: Sheet) -> None:
        idle = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(1))
        sheet.collect(sheet.source("quiet", timestamps=idle, kind=Quiet).rebalance())

    def told_idle(place: Path) -> bool:
        kinds_read.clear()
        Story(place, slots=1).run(write, asks={3: StopMode.DRAIN}, **PIPELINED)
        return any(PayloadKind.IDLE in kinds for kinds in kinds_read)

    assert told_idle(tmp_path / "one")
    monkeypatch.setattr(Operator, "sends_at_the_end", property(lambda _: True))
    assert not told_idle(tmp_path / "two")


def test_reader_that_waits_for_others_of_its_group_does_not_fall_idle(
    tmp_path: Path, kinds_read: list[list[int]]
) -> None:
    def write(sheet: Sheet) -> None:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnTime())
        aligned = strategy.with_watermark_alignment("group", Duration.of_millis(10))
        idle = aligned.with_idleness(Duration.of_millis(50))
        ahead = sheet.source("ahead", list(range(0, 10_000, 100)), timestamps=idle)
        behind = sheet.source("behind", [0, *range(1, 50)], timestamps=aligned, kind=Later)
        sheet.collect(ahead.union(behind).rebalance())

    chapter = Story(tmp_path, slots=1, records=5).run(write, asks={12: StopMode.SUSPEND}, **PIPELINED)
    assert chapter.status is JobStatus.FINISHED, chapter.error
    assert any(PayloadKind.DATA in kinds for kinds in kinds_read)
    assert not any(PayloadKind.IDLE in kinds for kinds in kinds_read)


#: When a function was asked.
ASKED_MS: list[float] = []


def has_nothing(split: str, offset: Any) -> Iterator[None]:
    while True:
        ASKED_MS.append(CLOCK.passed_ms())
        yield None


def test_function_that_has_nothing_is_asked_ever_more_rarely(tmp_path: Path) -> None:
    def write(sheet: Sheet) -> None:
        source = FunctionSource(has_nothing, boundedness=Boundedness.CONTINUOUS_UNBOUNDED)
        sheet.collect(sheet.env.from_source(source, WatermarkStrategy.no_watermarks(), "nothing").uid("nothing"))

    ASKED_MS.clear()
    Story(tmp_path).run(write, asks={3: StopMode.DRAIN}, **PIPELINED)
    pauses = [after - before for before, after in pairwise(ASKED_MS)]
    assert pauses[:3] == [4, 6, 10]  # two milliseconds, then a pause of 2, 4 and 8
