"""Records that come too late and are dropped: told once, counted exactly, shown wherever a job is looked at."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.stories import Chapter, Sheet, Story

from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.client.job_client import DriverJobClient
from penstock._engine.driver.monitor.progress_bar import figures
from penstock._engine.protocol.control import StopMode
from penstock._engine.rest.job_progress import job_progress
from penstock.common import Time, WatermarkStrategy
from penstock.common.accumulators import DoubleCounter
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import MapFunction
from penstock.datastream.window import (
    EventTimeSessionWindows,
    EventTimeTrigger,
    TumblingEventTimeWindows,
)
from penstock.testing import OperatorHarness

if TYPE_CHECKING:
    from pathlib import Path

#: Three of these are late wherever their windows are of 10 ms, two where they are of 50 ms.
NUMBERS = [30, 100, 1, 2, 220, 203, 300]
DROPPED = {"short": 3, "long": 2}


class Itself(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value


class FailsOnce(MapFunction):
    def __init__(self, mark: Path, at: int) -> None:
        self.mark, self.at = mark, at

    def map(self, value: int) -> int:
        if value == self.at and not self.mark.exists():
            self.mark.touch()
            raise ValueError(value)
        return value


def write(sheet: Sheet, *, fails_at: int | None = None, names: tuple[str, str] = ("short", "long")) -> None:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())
    numbers = sheet.source("numbers", NUMBERS, timestamps=times)
    if fails_at is not None:
        numbers = numbers.map(FailsOnce(sheet._place / "failed", fails_at)).uid("fails")
    for name, uid, size in zip(names, ("short", "long"), (10, 50), strict=True):
        windows = numbers.key_by(lambda _: 0).window(TumblingEventTimeWindows.of(Time.milliseconds(size)))
        sheet.collect(windows.reduce(lambda a, b: a + b).name(name).uid(uid), f"out-{uid}")


def dropped(chapter: Chapter) -> dict[str, int]:
    return chapter.driver.result.result(0).get_late_records_dropped()


def test_job_tells_how_many_each_operator_has_dropped(tmp_path: Path) -> None:
    chapter = Story(tmp_path, records=1).run(write)
    assert dropped(chapter) == DROPPED
    assert "Late records dropped by short: 3" in str(chapter.driver.result.result(0))
    assert chapter.driver.result.result(0).get_all_accumulator_results() == {}
    assert DriverJobClient(chapter.driver).get_accumulators().result() == {}
    assert "5 late" in figures(chapter.driver.progress)
    assert job_progress(chapter.driver.view).late_records_dropped == DROPPED
    metrics = [subtask.metrics for vertex in chapter.driver.view.subtasks for subtask in vertex]
    assert [found[uid]["numLateRecordsDropped"] for found in metrics for uid in found] == [3, 2]


def test_operators_of_one_name_are_told_apart(tmp_path: Path) -> None:
    chapter = Story(tmp_path, records=1).run(lambda sheet: write(sheet, names=("window", "window")))
    assert dropped(chapter) == {"window (short)": 3, "window (long)": 2}


class CountsInFractions(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = DoubleCounter()
        runtime_context.add_accumulator("numLateRecordsDropped", self.count)

    def map(self, value: int) -> int:
        self.count.add(0.5)
        return value


def test_an_accumulator_of_the_users_may_have_the_name_of_the_metric(tmp_path: Path) -> None:
    chapter = Story(tmp_path, records=1).run(
        lambda sheet: sheet.collect(sheet.source("numbers", NUMBERS).map(CountsInFractions()).uid("counts"))
    )
    assert dropped(chapter) == {}
    assert chapter.driver.result.result(0).get_all_accumulator_results() == {"numLateRecordsDropped": 3.5}


@pytest.mark.parametrize("fails_at", [1, 2, 203, 300])
def test_record_of_a_failed_epoch_counts_once(tmp_path: Path, fails_at: int) -> None:
    chapter = Story(tmp_path).run(lambda sheet: write(sheet, fails_at=fails_at), restart="fixed-delay")
    assert chapter.driver.progress.restarts == 1
    assert dropped(chapter) == DROPPED


def test_number_goes_on_from_a_savepoint(tmp_path: Path) -> None:
    story = Story(tmp_path, records=1)
    first = story.run(write, asks={5: StopMode.SUSPEND})
    assert 0 < sum(dropped(first).values()) < 5
    assert dropped(story.run(write, recover=first.savepoint)) == DROPPED


def test_first_one_of_an_operator_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="penstock"):
        Story(tmp_path, records=1).run(write)
    lines = [line for line in caplog.messages if "late record" in line]
    assert len(lines) == 2
    assert all("Dropped the late record 1: its timestamp is 1, and" in line for line in lines)


def test_job_that_drops_nothing_counts_nothing(tmp_path: Path) -> None:
    def punctual(sheet: Sheet) -> None:
        times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())
        numbers = sheet.source("numbers", sorted(NUMBERS), timestamps=times)
        windows = numbers.key_by(lambda _: 0).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        sheet.collect(windows.reduce(lambda a, b: a + b))

    chapter = Story(tmp_path, records=1).run(punctual)
    assert dropped(chapter) == {}
    assert "late" not in figures(chapter.driver.progress)
    assert not any(isinstance(step, do.MergeAccumulators) for step in chapter.steps)


def test_a_record_whose_window_would_end_after_the_end_of_time_is_not_called_late(
    caplog: pytest.LogCaptureFixture,
) -> None:
    last = 2**63 - 5
    windows: dict[str, tuple[Any, Any]] = {
        "tumbling": (TumblingEventTimeWindows(10, 0), {}),
        "tumbling with a trigger": (TumblingEventTimeWindows(10, 0), {"trigger": EventTimeTrigger()}),
        "sessions": (EventTimeSessionWindows(10), {}),
    }
    for kind, (assigner, settings) in windows.items():
        caplog.clear()
        with OperatorHarness.for_window(lambda _: 0, assigner, reduce=max, **settings) as harness:
            harness.process_element(7, last)
            harness.process_element(8, last)
            assert harness.metrics.figures()["numLateRecordsDropped"] == 2, kind
        [line] = caplog.messages
        assert line.startswith(f"Dropped the record 7: its timestamp is {last}, and its window would end after"), kind
        assert "late" not in line.replace("numLateRecordsDropped", ""), kind
