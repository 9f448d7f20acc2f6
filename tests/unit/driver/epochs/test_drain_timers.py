"""What becomes of processing-time timers when a job is drained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.stories import EndlessSource, Sheet, Story

from penstock._engine.protocol.control import StopMode
from penstock.common.job_status import JobStatus
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.time_domain import TimeDomain
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from pathlib import Path

FAR = 10**15


class Reminders(KeyedProcessFunction):
    """Sets timers far ahead, the later the smaller the number; each one sets another one, and takes one back."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_processing_time_timer(FAR - value)
        yield "record"

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        assert ctx.time_domain() is TimeDomain.PROCESSING_TIME
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timestamp + 1_000)
        timers.register_processing_time_timer(timestamp - 1_000)
        if timestamp == FAR - 9:
            timers.delete_processing_time_timer(FAR - 5)
        yield FAR - timestamp


def program(sheet: Sheet, kind: type[ListSource] = EndlessSource) -> None:
    numbers = sheet.source("numbers", list(range(10)), kind=kind)
    reminders = numbers.key_by(lambda n: 0).process(Reminders()).uid("reminders")
    sheet.collect(reminders.map(lambda value: value).uid("behind"))


def fired(story: Story) -> list[int]:
    return [value for value in story.output() if value != "record"]


@pytest.mark.behaviour(52)
def test_drain_drops_processing_time_timers(tmp_path: Path) -> None:
    story = Story(tmp_path, records=10)
    stopped = story.run(program, asks={3: StopMode.DRAIN})
    assert stopped.status is JobStatus.FINISHED
    assert stopped.outputs["out"] == ["record"] * 10


@pytest.mark.parametrize("stop", [StopMode.SUSPEND, StopMode.DRAIN])
def test_drain_fires_them_once_in_order_of_time_where_it_is_told_to(tmp_path: Path, stop: StopMode) -> None:
    story = Story(tmp_path, records=10)
    stopped = story.run(program, asks={3: stop}, fire="true")
    assert stopped.outputs["out"].count("record") == 10
    assert fired(story) == ([9, 8, 7, 6, 4, 3, 2, 1, 0] if stop is StopMode.DRAIN else [])
    story.run(program, asks={3: StopMode.DRAIN}, recover=stopped.savepoint, fire="true")
    assert fired(story)[:9] == [9, 8, 7, 6, 4, 3, 2, 1, 0]


def test_end_of_the_input_is_no_drain(tmp_path: Path) -> None:
    story = Story(tmp_path, records=10)
    assert story.run(lambda sheet: program(sheet, ListSource), fire="true").status is JobStatus.FINISHED
    assert fired(story) == []
