"""Readers that finish without having read their splits to the end: what is left is read once, by others."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.kit.stories import Chapter, Sheet, Story
from tests.kit.world import NumbersEnumerator
from tests.unit.driver.epochs.test_enumerators import decided, opened
from tests.unit.driver.restore.test_finished_operators import Counts

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.epochs.sources import EnumeratorDelivery, EnumeratorSnapshot, SourceCoordinator
from penstock._engine.protocol.control import OperatorAck, StopMode
from penstock._engine.protocol.events import AddSplitsEvent, SourceEventWrapper, encode_event
from penstock._engine.protocol.metadata import ReturnedSplits, SourceCoordinatorState
from penstock._engine.rest.job_progress import job_progress
from penstock._engine.savepoints.inspection import inspect
from penstock.common.job_status import JobStatus
from penstock.datastream.connectors.base import InputStatus
from penstock.testing.sources import ListSource, _ListCursor, _ListReader

#: A reader that comes upon it finishes there.
LEAVES = "leaves"
FIRST, SECOND = ["a", LEAVES, "b", "c"], [str(number) for number in range(10, 30)]
ALL = sorted([item for item in FIRST if item != LEAVES] + SECOND)


class LeavingSource(ListSource):
    def create_reader(self, reader_context: Any) -> Any:
        return LeavingReader(reader_context, self._lists, Path(self._happened_in), self._records_per_poll)


class LeavingReader(_ListReader):
    left = False

    def open_split(self, split: Any) -> Any:
        cursor = LeavingCursor(split, self._lists[split.number], self._happened_in, self._records_per_poll)
        cursor.reader = self
        return cursor

    def poll_next(self, output: Any) -> InputStatus:
        status = super().poll_next(output)
        return InputStatus.END_OF_INPUT if self.left else status


class LeavingCursor(_ListCursor):
    reader: LeavingReader

    def poll_next(self, output: Any) -> InputStatus:
        if self._items[self._split.position] != LEAVES:
            return super().poll_next(output)
        self._split = replace(self._split, position=self._split.position + 1)
        self.reader.left = True
        return InputStatus.MORE_AVAILABLE


def reading(parallelism: int, *, more: bool = False) -> Any:
    def write(sheet: Sheet) -> None:
        stream = sheet.source("lists", FIRST, SECOND, kind=LeavingSource).set_parallelism(parallelism)
        sheet.collect(stream)
        if more:
            sheet.collect(stream.map(str).uid("same").set_parallelism(parallelism).disable_chaining(), "more")

    return write


def stopped(story: Story, how: StopMode = StopMode.SUSPEND) -> Chapter:
    """Run the job until one of its two readers has left."""
    chapter = story.run(reading(2), asks={4: how})
    assert "a" in story.output()
    assert "b" not in story.output()
    return chapter


@pytest.mark.parametrize("how", [StopMode.SUSPEND, StopMode.DRAIN], ids=["suspended", "drained"])
@pytest.mark.parametrize(
    ("parallelism", "more"),
    [(1, False), (2, True), (3, False), (5, True)],
    ids=["1", "2 and one more operator", "3", "5 and one more operator"],
)
@pytest.mark.behaviour(15)
def test_splits_that_a_finished_reader_has_left_are_read_once_when_the_job_has_changed(
    tmp_path: Path, parallelism: int, more: bool, how: StopMode
) -> None:
    story = Story(tmp_path)
    savepoint = stopped(story, how).savepoint
    [source] = [one.source for one in inspect(savepoint).operators if one.source is not None]
    assert source.reader_splits == (1, 1)
    again = story.run(reading(parallelism, more=more), recover=savepoint)
    assert again.status is JobStatus.FINISHED
    assert sorted(story.output()) == ALL


@pytest.mark.behaviour(15)
def test_splits_stay_with_a_finished_reader_through_runs_of_the_same_job(tmp_path: Path) -> None:
    story = Story(tmp_path)
    unchanged = story.run(reading(2), asks={2: StopMode.SUSPEND}, recover=stopped(story).savepoint)
    assert not {"b", "c"} & set(story.output())
    story.run(reading(3), recover=unchanged.savepoint)
    assert sorted(story.output()) == ALL


def test_job_that_ends_with_splits_that_no_reader_has_read_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    story = Story(tmp_path)
    with caplog.at_level(logging.WARNING):
        chapter = story.run(reading(2))
    assert chapter.status is JobStatus.FINISHED
    assert not {"b", "c"} & set(story.output())
    result = chapter.driver.result.result(0)
    assert result.get_unread_splits() == {"Source: lists": 1}
    assert "Splits left unread by Source: lists: 1" in str(result)
    assert "Splits left unread by Source: lists: 1." in caplog.text
    assert job_progress(chapter.driver.view).unread_splits == {"Source: lists": 1}


def test_splits_that_are_left_are_told_while_the_job_runs_and_no_longer_when_they_were_read(tmp_path: Path) -> None:
    story = Story(tmp_path)
    assert stopped(story).driver.view.unread_splits == {"lists": 1}
    again = story.run(reading(3), recover=story.chapters[0].savepoint)
    assert again.driver.result.result(0).get_unread_splits() == {}
    assert "unread" not in str(again.driver.result.result(0))


@pytest.mark.parametrize("named", [False, True], ids=["named later", "named from the beginning"])
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("between", [None, 3], ids=["at once", "after a run at another parallelism"])
@pytest.mark.behaviour(23)
def test_source_that_goes_on_after_all_its_readers_had_left_reads_the_rest(
    tmp_path: Path, parallelism: int, named: bool, between: int | None
) -> None:
    def write(source_parallelism: int) -> Any:
        def both(sheet: Sheet) -> None:
            left = sheet.source("lists", FIRST, kind=LeavingSource).set_parallelism(source_parallelism)
            long = sheet.source("long", SECOND)
            sheet.collect(left.rebalance().union(long.rebalance()).key_by(str).process(Counts()).uid("counts"))

        return both

    settings = {"reopen": "lists"}
    story = Story(tmp_path)
    last = story.run(write(1), asks={5: StopMode.SUSPEND}, **(settings if named else {}))
    if between is not None:
        last = story.run(write(between), asks={2: StopMode.SUSPEND}, recover=last.savepoint)
    assert story.run(write(parallelism), recover=last.savepoint, **settings).status is JobStatus.FINISHED
    assert sorted(value for value, _ in story.output()) == ALL


def test_split_that_is_assigned_to_a_reader_while_it_finishes_goes_back_to_the_enumerator() -> None:
    source = SourceCoordinator(2)
    late, event = encode_event(AddSplitsEvent((b"late",), 3)), encode_event(SourceEventWrapper(b"event"))
    source.dispatch(0)
    source.assigned({0: (late, event)})  # found while the epoch runs in which the reader finishes
    source.accepted({0: OperatorAck(split_requests=1)}, finished=[0])
    source.assigned({0: (late,)})
    assert not source.has_pending, "no epoch is to run at once for it"
    returned = (ReturnedSplits(0, (b"late",), 3),) * 2
    assert source.state(EnumeratorSnapshot(b"state")) == SourceCoordinatorState(b"state", returned=returned)
    assert source.deliver() == EnumeratorDelivery((), {}, returned)
    assert source.deliver() is None
    assert source.state(EnumeratorSnapshot(b"state")) == SourceCoordinatorState(b"state")


def test_split_on_the_way_to_a_finished_reader_goes_back_at_the_next_start() -> None:
    late = encode_event(AddSplitsEvent((b"late",), 3))
    source = SourceCoordinator(2, SourceCoordinatorState(b"state", undelivered={0: (late,)}), finished=[0])
    assert source.opening is not None
    assert source.opening.returned == (ReturnedSplits(0, (b"late",), 3),)
    assert source.deliver() is None


def test_enumerator_hands_out_a_split_again_that_came_back() -> None:
    class Eager(NumbersEnumerator):
        def add_splits_back(self, splits: Any, subtask_id: int) -> None:
            assert subtask_id == 0
            for split in splits:
                self.context.assign_split(split, 1)

    enumerators, assigned, _, _ = opened(Eager)
    split = enumerators._sources["numbers"][1].get_split_serializer().serialize((0, 5))
    delivery = EnumeratorDelivery((), {}, (ReturnedSplits(0, (split,), 1),))
    answer = enumerators.call(do.CallEnumerators(0, {"numbers": delivery}))
    assert [event.splits for event in decided(answer.assigned)[1]] == [(split,)]
    assert not assigned
