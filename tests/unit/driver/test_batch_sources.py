"""Sources of batch jobs with recovery: after a lost driver or a lost result each split and each word is there once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.notes import NotedList
from tests.unit.driver import test_batch_recovery as batch
from tests.unit.driver.test_batch_jobs import Killed, published
from tests.unit.driver.test_batch_recovery import SUMS, driver_of, flush, run

from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.job_events import ExecutionVertexFinishedEvent
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from pathlib import Path

RECOVERY = "execution.batch.job-recovery"
#: By call: all that an enumerator has heard of its readers so far.
HEARD: NotedList[list[int]] = NotedList()


class Uneven(ListSource):
    """The last reader gets the first items, the first one all others; each item is a split, and one follows the other.

    Each reader tells the enumerator which splits it has got, and the enumerator's state has what it was told.
    """

    #: How many items the last reader gets.
    of_last = 1

    def __init__(self, *lists: Any, **others: Any) -> None:
        super().__init__(*([item] for items in lists for item in items), **others)

    def create_enumerator(self, enum_context: Any) -> Any:
        return _Uneven(super().create_enumerator(enum_context), [], self.of_last)

    def restore_enumerator(self, enum_context: Any, checkpoint: Any) -> Any:
        waiting, heard = checkpoint
        return _Uneven(super().restore_enumerator(enum_context, waiting), heard, self.of_last)

    def create_reader(self, reader_context: Any) -> Any:
        reader = super().create_reader(reader_context)
        add = reader.add_splits

        def telling(splits: Any) -> None:
            for split in splits:
                reader_context.send_source_event_to_coordinator(split.number)
            add(splits)

        reader.add_splits = telling  # type: ignore[method-assign]
        return reader


class _Uneven:
    def __init__(self, whole: Any, heard: list[int], of_last: int) -> None:
        self._context, self._waiting = whole._context, whole.waiting_splits
        self._heard, self._of_last = heard, of_last

    def start(self) -> None:
        pass

    def add_reader(self, subtask: int) -> None:
        self.handle_split_request(subtask, None)

    def handle_split_request(self, subtask: int, _: Any) -> None:
        own = [split for split in self._waiting if (split.number < self._of_last) == (subtask == 1)]
        if subtask == 0 and len(own) == 1 and len(self._heard) < 4:
            return  # its last one comes when all others are read
        if own:
            self._waiting.remove(own[0])
            self._context.assign_split(own[0], subtask)
        if len(own) < 2:
            self._context.signal_no_more_splits(subtask)

    def add_splits_back(self, splits: Any, _: int) -> None:
        self._waiting[:0] = splits

    def handle_source_event(self, _: int, number: int) -> None:
        self._heard.append(number)
        HEARD.append(list(self._heard))

    def snapshot_state(self, _: int) -> Any:
        return list(self._waiting), list(self._heard)

    def notify_checkpoint_complete(self, _: int) -> None:
        pass

    def close(self) -> None:
        pass


def kill_when(place: Path, is_time: Any, **settings: str) -> None:
    """Kill the driver behind the first instruction for which a function says so, with all events stored."""
    _, loop = driver_of(place, **settings)
    perform = loop.perform

    def killing(instruction: Any) -> None:
        perform(instruction)
        if is_time(instruction):
            flush(loop)
            raise Killed

    loop.perform = killing
    with pytest.raises(Killed):
        loop.run()


def finishes(vertex: int, subtask: int) -> Any:
    """Tell of an instruction whether it records that a subtask has finished."""

    def told(instruction: Any) -> bool:
        events = instruction.events if isinstance(instruction, do.RecordJobEvents) else ()
        places = [(event.vertex, event.subtask) for event in events if isinstance(event, ExecutionVertexFinishedEvent)]
        return (vertex, subtask) in places

    return told


@pytest.mark.behaviour(150)
@pytest.mark.parametrize("pause", ["0 ms", "1 h"], ids=["each-time", "once"])
def test_a_lost_result_of_a_source_is_made_of_its_splits_and_of_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pause: str
) -> None:
    monkeypatch.setattr(batch, "ListSource", Uneven)
    settings = {
        f"{RECOVERY}.operator-coordinator-snapshot.min-pause": pause,
        f"{RECOVERY}.previous-worker.recovery.timeout": "0 s",
    }
    for lost in ("0-0", "0-1"):
        place = tmp_path / lost
        place.mkdir()
        kill_when(place, finishes(1, 0), **settings)
        files = [path for path in place.glob("checkpoints/*/results/*") if f"-{lost}-" in path.name]
        assert files
        for path in files:
            path.unlink()
        run(place, **settings)
        assert published(place, "sums") == SUMS, lost


@pytest.mark.behaviour(150)
def test_what_a_reader_has_told_before_the_last_snapshot_is_not_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "ListSource", Uneven)
    monkeypatch.setattr(Uneven, "of_last", 2)
    kill_when(tmp_path, finishes(0, 1))  # behind two runs; the first reader has still to read
    HEARD.clear()
    run(tmp_path)
    assert published(tmp_path, "sums") == SUMS
    assert all(told.count(split) <= 1 for told in HEARD for split in (0, 1)), HEARD


@pytest.mark.behaviour(147)
@pytest.mark.parametrize(("pause", "is_long"), [("0 ms", False), ("1 h", True)])
def test_enumerators_take_snapshots_no_more_often_than_the_pause_says(
    tmp_path: Path, pause: str, is_long: bool
) -> None:
    driver, loop = driver_of(tmp_path, **{f"{RECOVERY}.operator-coordinator-snapshot.min-pause": pause})
    perform, ids = loop.perform, list[int]()

    def noting(instruction: Any) -> None:
        if isinstance(instruction, do.SnapshotEnumerators):
            ids.append(instruction.checkpoint_id)
        perform(instruction)

    loop.perform = noting
    driver.run(loop)
    assert published(tmp_path, "sums") == SUMS
    assert set(ids) == {-1}  # outside of a checkpoint
    assert (len(ids) == 1) == is_long
