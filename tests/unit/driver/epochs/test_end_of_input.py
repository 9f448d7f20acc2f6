"""A reader ends the input of the whole job: a message said so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.stories import EndlessSource, Sheet, Story

from penstock.common.job_status import JobStatus
from penstock.common.time import Time
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.datastream.connectors.base import InputStatus, SourceReader
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing.sources import ListSplit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LAST = -1


class Messages(EndlessSource):
    """Lists of numbers that go on for ever, unless one is LAST."""

    def create_reader(self, reader_context: Any) -> Any:
        return MessageReader(reader_context, self._lists)


class MessageReader(SourceReader):
    def __init__(self, context: Any, lists: list[list[int]]) -> None:
        self.context, self.lists, self.splits = context, lists, list[ListSplit]()

    def start(self) -> None:
        if not self.splits:
            self.context.send_split_request()

    def poll_next(self, output: Any) -> InputStatus:
        for place, split in enumerate(self.splits):
            if split.position < len(self.lists[split.number]):
                message = self.lists[split.number][split.position]
                self.splits[place] = ListSplit(split.number, split.position + 1)
                if message == LAST:
                    self.context.end_job_input()
                else:
                    output.collect(message)
                return InputStatus.MORE_AVAILABLE
        return InputStatus.NOTHING_AVAILABLE

    def is_available(self, timeout_ms: int) -> bool:
        return False

    def add_splits(self, splits: Any) -> None:
        self.splits += splits

    def notify_no_more_splits(self) -> None:
        pass

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return self.splits

    def close(self) -> None:
        pass


class Own(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value


def program(parallelism: int) -> Callable[[Sheet], None]:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Own())

    def write(sheet: Sheet) -> None:
        first = sheet.source("first", [1, 2, 3, LAST, 4], list(range(5, 9)), timestamps=times, kind=Messages)
        second = sheet.source("second", list(range(10, 14)), timestamps=times, kind=Messages)
        both = first.set_parallelism(parallelism).union(second)
        sheet.collect(both)
        windows = both.key_by(lambda n: 0).window(TumblingEventTimeWindows.of(Time.milliseconds(1_000)))
        sheet.collect(windows.reduce(lambda one, other: one + other).uid("windows"), "sums")

    return write


def test_all_readers_end_with_the_epoch_behind_and_windows_fire(tmp_path: Path) -> None:
    story = Story(tmp_path, records=2)
    chapter = story.run(program(2))
    assert chapter.status is JobStatus.FINISHED
    seen = chapter.outputs["out"]
    assert {1, 2, 3} <= set(seen)
    assert 4 not in seen, "the reader that says so is not polled again"
    assert chapter.outputs["sums"] == [sum(seen)]
    [said] = [number for number, plan in enumerate(chapter.runner.plans) if _ends(plan)]
    assert said == len(chapter.runner.plans) - 1, "one epoch more, in which all end"


def _ends(plan: Any) -> bool:
    parts = [part for slot in plan.levels[0].slots for part in slot]
    return any(b"end-of-input" in event for part in parts for one in part.operators.values() for event in one.events)


@pytest.mark.parametrize("parallelism", [2, 3])
def test_end_outlives_a_cancel_before_the_readers_were_notified_of_it(tmp_path: Path, parallelism: int) -> None:
    last = len(Story(tmp_path / "probe", records=2).run(program(2)).runner.plans)
    story = Story(tmp_path / "job", records=2)
    stopped = story.run(program(2), asks={last: lambda driver: driver.cancel()})
    assert stopped.status is JobStatus.CANCELED
    assert "sums" not in stopped.outputs
    again = story.run(program(parallelism), recover=str(stopped.driver.checkpoint))
    assert again.status is JobStatus.FINISHED
    assert story.output("sums") == [sum(story.output())]
    assert 4 not in story.output()
