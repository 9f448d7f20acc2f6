"""Operators behind a committer get each committable that was committed once, and no other one (decision 54)."""

from __future__ import annotations

import os
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.driving import CrashError, Epochs
from tests.kit.stories import EndlessSource, Sheet, Story
from tests.lifecycle.sink import FolderSink, published
from tests.unit.driver.life.post_commit_jobs import RECORDS, Answers, CrashAt, Told, ToldSink

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.chain import MAX_RECORD_TRIES
from penstock._engine.driver.checkpoints.checkpoint_store import CheckpointStore
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.protocol.metadata_document import decode_chain_entry
from penstock._engine.savepoints.inspection import inspect
from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.errors import (
    EpochInfrastructureError,
    FinishedOperatorError,
    UnclaimedStateError,
    UnsupportedOperationError,
)
from penstock.savepoint import Savepoint, SavepointWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kit.stories import Chapter

    from penstock._engine.protocol.metadata import ChainEntry

pytestmark = pytest.mark.sampled(3)

#: Commits that take several tries, so that they are done later than those of the next checkpoint.
SLOWLY = Answers(later=frozenset({1}), changed=frozenset({10, 13}))


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(Story(tmp_path))


def finished(chapter: Chapter) -> Chapter:
    assert chapter.status is JobStatus.FINISHED, chapter.error
    return chapter


def epochs(chapter: Chapter) -> int:
    return sum(isinstance(step, do.RunEpoch) for step in chapter.steps)


def checkpoints(steps: Sequence[Any]) -> list[ChainEntry]:
    entries = [step.entry for step in steps if isinstance(step, do.PutChainEntry)]
    return [entry for entry in entries if entry.kind is ChainEntryKind.CHECKPOINT]


def entry_of(path: str) -> ChainEntry:
    file = Path(path, "_metadata")
    return decode_chain_entry(file.read_bytes(), str(file))


@pytest.mark.behaviour(33, 118)
@pytest.mark.parametrize("nested", [False, True])
def test_a_job_that_ends_passes_on_what_its_last_checkpoint_has_committed(told: Told, nested: bool) -> None:
    told.nested = nested
    finished(told.run())
    told.check()


def test_one_epoch_more_runs_behind_the_last_commit_of_each_sink(told: Told) -> None:
    plain = Told(Story(told.story.place / "plain"), has_topology=False)
    alone, once = epochs(finished(plain.run())), epochs(finished(told.run()))
    twice = Told(Story(told.story.place / "twice"), nested=True)
    both = epochs(finished(twice.run()))
    assert alone < once <= alone + 2
    assert once < both <= once + 2


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("answers", [Answers(), SLOWLY], ids=["at once", "slowly"])
def test_a_driver_that_dies_at_any_step_costs_and_repeats_nothing(
    tmp_path: Path, answers: Answers, nested: bool
) -> None:
    stride = 1 if os.environ.get("PENSTOCK_ALL_CELLS") else 13
    deaths = 0
    for position in count(3 * nested + (5 if answers is SLOWLY else 0), stride):
        told = Told(Story(tmp_path / str(position)), answers, nested=nested)
        crash = CrashAt(position, after=bool(position % 2))
        try:
            told.run(step=crash)
        except CrashError:
            deaths += 1
        else:
            assert crash.count <= position
            break
        finished(told.run())
        told.check()
    assert deaths > 50 / stride


@pytest.mark.behaviour(118)
def test_what_a_committer_gives_up_is_not_passed_on(told: Told) -> None:
    told.answers = Answers(given_up=frozenset({2, 3, 12}), later=frozenset({10}))
    finished(told.run())
    left = set(published(told.story.place / "out"))
    assert 0 < len(left) < len(RECORDS)
    assert not left & told.answers.given_up
    told.check(left)


def test_what_was_changed_for_another_try_is_passed_on_as_it_was_committed(told: Told) -> None:
    told.answers = Answers(changed=frozenset({0, 1}))
    finished(told.run())
    told.check()
    assert any(name.endswith("-changed") for _, _, name, _ in published(told.story.place / "told"))


@pytest.mark.parametrize("answers", [Answers(), SLOWLY], ids=["at once", "slowly"])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("at", [2, 4])
def test_a_drain_passes_on_all_before_its_savepoint(told: Told, answers: Answers, nested: bool, at: int) -> None:
    told.answers, told.nested, told.kind = answers, nested, EndlessSource
    stopped = finished(told.run(asks={at: StopMode.DRAIN}))
    read = set(published(told.story.place / "out"))
    told.check(read)
    snapshot = entry_of(stopped.savepoint).snapshot
    assert snapshot is not None
    assert snapshot.finished
    assert not snapshot.committed
    finished(told.run(asks={3: StopMode.DRAIN}, recover=stopped.savepoint))
    told.check()


@pytest.mark.parametrize("writers", [1, 2, 3])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_savepoint_of_a_stop_has_what_was_not_passed_on(told: Told, at: int, writers: int) -> None:
    told.answers = SLOWLY
    stopped = finished(told.run(asks={at: StopMode.SUSPEND}))
    told.writers = writers
    finished(told.run(recover=stopped.savepoint))
    told.check()


@pytest.mark.parametrize("moves", [False, True])
def test_a_sink_that_gets_another_uid_in_a_savepoint_passes_on_what_it_had_committed(told: Told, moves: bool) -> None:
    stopped = finished(told.run(asks={2: StopMode.SUSPEND}))
    if moves:
        (told.story.place / "checkpoints").rename(told.story.place / "elsewhere")
    snapshot = entry_of(stopped.savepoint).snapshot
    assert snapshot is not None
    assert [commit.uid for commit in snapshot.committed] == ["out: Committed"]
    path, places = stopped.savepoint, iter(("first", "second"))
    for before, uid in (("out", "other"), ("other", "renamed")):
        writer = SavepointWriter.from_existing(path)
        for operator in Savepoint.open(path).operators:
            if operator.uid.startswith(before):
                writer.change_uid(operator.uid, operator.uid.replace(before, uid))
        path = writer.write(str(told.story.place / next(places)))
    told.uid = "renamed"
    finished(told.run(recover=path))
    told.check()


def test_a_savepoint_of_a_running_job_has_what_was_not_passed_on(told: Told) -> None:
    place = told.story.place
    path = finished(told.run(asks={2: StopMode.NO})).savepoint
    told.check()
    entry = entry_of(path)
    assert entry.snapshot is not None
    assert entry.snapshot.committed
    assert not entry.snapshot.outstanding
    first = {name for _, _, name, _ in published(place / "told")}
    for name in ("out", "told"):
        (place / name).rename(place / f"{name}-before")
    finished(told.run(recover=path))
    again = published(place / "told")
    both = {name for _, _, name, _ in again} & first
    made = [row for row in published(place / "told-before") if row[0] <= entry.checkpoint_id]
    assert both
    assert both == {name for checkpoint, _, name, _ in again if checkpoint <= entry.checkpoint_id}
    for subtask in range(told.writers):
        before = [row for row in made if row[1] == subtask and row[2] not in both]
        numbers = [number for _, of, _, number in again if of == subtask]
        assert sorted(numbers) == list(range(len(before) + 1, len(before) + len(numbers) + 1))


def fail_epoch(monkeypatch: pytest.MonkeyPatch, at: int, error: Exception) -> None:
    """Let one epoch fail, or be lost, once its tasks are done."""
    numbers, run = count(1), Epochs.run

    def failing(self: Epochs, plan: Any) -> Any:
        outcome = run(self, plan)
        if next(numbers) == at:
            raise error
        return outcome

    monkeypatch.setattr(Epochs, "run", failing)


ERRORS = pytest.mark.parametrize("error", [RuntimeError("no task"), EpochInfrastructureError("no executor")])


@ERRORS
@pytest.mark.parametrize("at", [2, 3, 4, 5, 6])
def test_an_epoch_that_fails_or_is_lost_is_run_again_with_what_it_was_to_pass_on(
    told: Told, monkeypatch: pytest.MonkeyPatch, at: int, error: Exception
) -> None:
    told.answers = SLOWLY
    fail_epoch(monkeypatch, at, error)
    finished(told.run(restart="fixed-delay", attempts="3", delay="1 ms"))
    told.check()


@pytest.mark.parametrize("at", [3, 5, 7])
def test_an_entry_whose_outcome_is_unknown_and_that_is_found_later_has_passed_on_what_it_says(
    told: Told, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    told.answers = SLOWLY
    numbers, put = count(1), CheckpointStore.put_entry

    def without_answer(self: CheckpointStore, instruction: Any) -> Any:
        answer = put(self, instruction)
        is_lost = at <= next(numbers) < at + MAX_RECORD_TRIES
        return ev.ChainEntryUncertain(OSError("no answer")) if is_lost else answer

    monkeypatch.setattr(CheckpointStore, "put_entry", without_answer)
    chapter = finished(told.run(restart="fixed-delay", attempts="3", delay="1 ms"))
    assert chapter.driver.progress.restarts == 1
    told.check()


@pytest.mark.parametrize("at", [5, 6])
def test_a_drain_that_fails_on_its_way_is_given_up_and_the_job_goes_on(
    told: Told, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    told.kind, told.answers = EndlessSource, SLOWLY
    fail_epoch(monkeypatch, at, RuntimeError("no task"))
    chapter = told.run(asks={3: StopMode.DRAIN, 9: StopMode.DRAIN}, restart="fixed-delay", attempts="3", delay="1 ms")
    finished(chapter)
    told.check()
    assert "no task" in str(chapter.answers[0].exception(0))
    assert entry_of(chapter.answers[1].result(0)).snapshot is not None


def test_a_driver_that_dies_in_a_drain_leaves_a_job_that_goes_on(tmp_path: Path) -> None:
    stride = 1 if os.environ.get("PENSTOCK_ALL_CELLS") else 7
    for position in count(40, stride):
        told = Told(Story(tmp_path / str(position)), SLOWLY, kind=EndlessSource)
        crash = CrashAt(position, after=False)
        try:
            told.run(asks={4: StopMode.DRAIN}, step=crash)
        except CrashError:
            pass
        else:
            break
        finished(told.run(asks={5: StopMode.DRAIN}))
        told.check()


def test_a_sink_without_its_topology_is_refused_as_long_as_something_is_left_to_pass_on(told: Told) -> None:
    stopped = finished(told.run(asks={2: StopMode.SUSPEND}))
    told.has_topology = False
    refused = told.run(recover=stopped.savepoint)
    assert isinstance(refused.error, UnclaimedStateError)
    assert "'out: Committed'" in str(refused.error)
    told_of = {operator.uid: operator for operator in inspect(stopped.savepoint).operators}["out: Committed"]
    assert told_of.committed_committables > 0
    assert told_of.has_state
    finished(told.run(recover=stopped.savepoint, ignore="true"))
    assert set(published(told.story.place / "out")) == RECORDS


def test_a_sink_that_has_gained_a_topology_passes_on_what_it_commits_from_then_on(told: Told) -> None:
    told.has_topology, told.answers = False, SLOWLY
    stopped = finished(told.run(asks={1: StopMode.SUSPEND}))
    snapshot = entry_of(stopped.savepoint).snapshot
    assert snapshot is not None
    left = {commit.checkpoint_id for commit in snapshot.outstanding}
    assert left
    told.has_topology = True
    finished(told.run(recover=stopped.savepoint))
    assert set(published(told.story.place / "out")) == RECORDS
    rows = published(told.story.place / "told")
    assert {checkpoint for checkpoint, *_ in rows}.isdisjoint(left)  # the stop has committed these
    assert rows
    assert set(rows.values()) == {1}


def test_what_is_behind_a_sink_goes_on_with_it(told: Told) -> None:
    folder = told.story.place / "in"
    folder.mkdir(parents=True)
    (folder / "monday").write_text("a\nb\n")

    def files(sheet: Sheet) -> Any:
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder)).build()
        return sheet.env.from_source(source, WatermarkStrategy.no_watermarks(), "files").uid("files")

    told.source = files
    finished(told.run(reopen="files"))
    told.check("ab")
    (folder / "tuesday").write_text("c\nd\n")
    finished(told.run(reopen="files"))
    told.check("abcd")


class Named(ToldSink):
    def add_post_commit_topology(self, committables: Any) -> None:
        super().add_post_commit_topology(committables.uid("own"))


def test_what_has_finished_behind_a_sink_is_refused_behind_a_new_one(tmp_path: Path) -> None:
    def of_uid(uid: str) -> Any:
        def write(sheet: Sheet) -> None:
            sink = Named(tmp_path / "out", FolderSink(tmp_path / "told"), Answers())
            sheet.source("numbers", [1, 2]).sink_to(sink).uid(uid).set_parallelism(2)

        return write

    story = Story(tmp_path)
    settings = {"interval": "1 s", "ignore": "true"}
    stopped = finished(story.run(of_uid("out"), asks={2: StopMode.NO}, **settings))
    refused = story.run(of_uid("other"), recover=stopped.savepoint, **settings)
    assert isinstance(refused.error, FinishedOperatorError), refused.error
    assert "what it commits would not be passed on" in str(refused.error)


BATCH = {"execution.runtime-mode": "BATCH"}
RECOVERS = {
    **BATCH,
    "execution.batch.job-recovery.enabled": "true",
    "execution.batch.job-recovery.operator-coordinator-snapshot.min-pause": "0 ms",
    "job-event.store.write-buffer.size": "1",
}
MODES = pytest.mark.parametrize("mode", [BATCH, RECOVERS], ids=["anew", "recovers"])


@MODES
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("answers", [Answers(), SLOWLY], ids=["at once", "slowly"])
def test_a_batch_job_runs_what_is_behind_its_commit_in_stages_and_a_checkpoint_of_their_own(
    told: Told, answers: Answers, nested: bool, mode: dict[str, str]
) -> None:
    told.answers, told.nested = answers, nested
    chapter = finished(told.run(**mode))
    told.check()
    entries = [step.entry.kind for step in chapter.steps if isinstance(step, do.PutChainEntry)]
    assert entries.count(ChainEntryKind.CHECKPOINT) == 2 + nested
    levels = [plan.levels[0].level for plan in chapter.runner.plans]
    assert levels[: levels.index(0, 1)].count(0) == 1


@MODES
@pytest.mark.parametrize("nested", [False, True])
def test_a_batch_job_whose_driver_dies_at_any_step_passes_on_what_it_has_committed(
    tmp_path: Path, nested: bool, mode: dict[str, str]
) -> None:
    stride = 1 if os.environ.get("PENSTOCK_ALL_CELLS") else 11
    deaths = 0
    for position in count(4 * nested, stride):
        told = Told(Story(tmp_path / str(position)), SLOWLY, nested=nested)
        crash = CrashAt(position, after=bool(position % 2))
        try:
            told.run(step=crash, **mode)
        except CrashError:
            deaths += 1
        else:
            assert crash.count <= position
            break
        finished(told.run(**mode))
        told.check()
    assert deaths > 30 / stride


#: By the stage of a nested job that fails: how many checkpoints the job has made before it.
COMMITS_BEFORE = {1: 0, 6: 1, 8: 2}


@MODES
@ERRORS
@pytest.mark.parametrize("at", COMMITS_BEFORE)
def test_a_stage_that_fails_or_is_lost_behind_a_commit_neither_repeats_nor_forgets_it(
    told: Told, monkeypatch: pytest.MonkeyPatch, at: int, error: Exception, mode: dict[str, str]
) -> None:
    told.answers, told.nested = SLOWLY, True
    fail_epoch(monkeypatch, at, error)
    chapter = finished(told.run(restart="fixed-delay", attempts="3", delay="1 ms", **mode))
    told.check()
    runs = (place for place, step in enumerate(chapter.steps) if isinstance(step, do.RunEpoch))
    before = chapter.steps[: next(islice(runs, at - 1, None))]
    assert len(checkpoints(before)) == COMMITS_BEFORE[at]
    made = checkpoints(chapter.steps)
    assert made[-1].snapshot is not None
    assert not made[-1].snapshot.committed, "all of it was passed on"
    tries = {(step.commit.uid, step.commit.checkpoint_id) for step in chapter.steps if isinstance(step, do.Commit)}
    assert len(tries) == len({uid for uid, _ in tries}) == 3, "each sink commits at one checkpoint"


def test_a_batch_job_refuses_another_input_of_operators_behind_a_committer(tmp_path: Path) -> None:
    sheet = Sheet(tmp_path, **BATCH)
    numbers = sheet.source("numbers", [1, 2])

    class Both(ToldSink):
        def add_post_commit_topology(self, committables: Any) -> None:
            committables.union(numbers).print()

    numbers.sink_to(Both(tmp_path / "out", FolderSink(tmp_path / "told"), Answers()))
    with pytest.raises(UnsupportedOperationError, match="behind a committer and has other input"):
        sheet.env.execute()
