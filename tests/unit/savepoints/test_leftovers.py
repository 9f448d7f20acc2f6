"""What counts as left over, what never does, and that removing takes exactly what was listed: a story for each owner.

Each story yields how a search is to look at that point. The harness compares; asks again as if all was just changed;
removes, and sees that nothing but the listed is gone; and asks once more.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.stories import Sheet, Story
from tests.unit.savepoints.jobs import cancelled_job, environment, run, savepoint_of

from penstock._connectors.files.staging import segment_name
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.paths import staged_path
from penstock._engine.savepoints.chains import JobChain, read_chains
from penstock._engine.savepoints.inspection import inspect
from penstock._engine.savepoints.leftovers import OWNERS, find_leftovers, remove_leftovers
from penstock._engine.savepoints.survey import LeftoverKind, LeftoverPlaces, Survey
from penstock._engine.state.keyed_state import KeyedState
from penstock._engine.state.local.local_backend import LocalBackend
from penstock._engine.storage.opening import open_storage
from penstock._engine.storage.scratch import DirectoryLock, ScratchDirectory
from penstock.common import Encoder, WatermarkStrategy
from penstock.common.job_status import JobStatus
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from penstock._engine.protocol.metadata import ChainEntry
    from penstock.datastream import StreamExecutionEnvironment

Kind = LeftoverKind
DAY_MS = 86_400_000
UNNAMED = "totals-0-2-00000000000000aa"
OTHER_JOB, OTHER_RUN = "f" * 32, "e" * 32


@dataclass
class Look:
    """What a search is to find.

    Attributes:
        left: The leftovers; those of kinds that are not in `of` are not compared.
        of: The kinds that are compared; all of them by default.
        unclear: What it leaves alone, and says so.
        asked: Words of the user beside the directories.
        removes: Whether the leftovers are then removed.
    """

    left: Collection[Path] = ()
    of: Collection[LeftoverKind] = tuple(LeftoverKind)
    unclear: Collection[Path] = ()
    asked: dict[str, Any] = field(default_factory=dict[str, Any])
    removes: bool = True


def now_ms() -> int:
    return int(time.time() * 1000)


class Place:
    """The directories of jobs, all below one."""

    def __init__(self, path: Path) -> None:
        self.path, self.out = path, path / "out"
        self.checkpoints, self.savepoints, self.temporary = path / "checkpoints", path / "savepoints", path / "tmp"
        self.temporary.mkdir()
        self.out.mkdir()

    def found(self, at_ms: int | None = None, **asked: Any) -> Survey:
        directories = {
            "checkpoint_directories": (str(self.checkpoints),),
            "savepoint_directories": (str(self.savepoints),),
            "sink_directories": (str(self.out),),
        }
        places = LeftoverPlaces(**{**directories, **asked})
        return find_leftovers(places, now_ms=now_ms() + DAY_MS if at_ms is None else at_ms)

    def files(self) -> set[Path]:
        return {path for path in self.path.rglob("*") if path.is_file()}

    @property
    def job(self) -> Path:
        [job] = (path for path in self.checkpoints.iterdir() if len(path.name) == 32)
        return job

    @property
    def chain(self) -> JobChain:
        [chain] = read_chains(open_storage(str(self.checkpoints)))
        return chain

    @property
    def records(self) -> list[Path]:
        return sorted(self.job.glob("chk-*/_metadata"), key=lambda record: int(record.parent.name[4:]))

    def put(self, path: Path) -> Path:
        """Write a file that nothing names."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("nobody's")
        return path

    def shared(self, name: str = UNNAMED) -> Path:
        return self.put(self.job / "shared" / name)

    def stage(self, job_id: str | None = None, run_id: str | None = None, folder: str = "out") -> Path:
        job_id, run_id = job_id or self.job.name, run_id or min(self.chain.runs)
        name = segment_name("ab", 1, job_id=job_id, run_id=run_id, sink="c0", checkpoint_id=2, token="7f")
        return self.put(self.path / folder / name)

    def staged(self) -> set[Path]:
        return set(self.out.rglob(".*.staged"))

    def writing_job(self, **settings: str) -> StreamExecutionEnvironment:
        """Return a job whose sink has an unfinished part from each epoch on."""
        env = environment(2, checkpoints=str(self.checkpoints), **settings)
        source = NumberSequenceSource(0, 20_000)
        sink = FileSink.for_row_format(str(self.out), Encoder.simple_string_encoder()).build()
        env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers").sink_to(sink).uid("sink")
        return env

    def cancel(self, **settings: str) -> str:
        """Run that job, cancel it, and return the checkpoint that it keeps."""
        return str(run(self.writing_job(**settings), self.path, cancel_in=2)[0].checkpoint)

    def stop(self) -> Path:
        """Run that job, stop it, and return its savepoint."""
        return Path(str(run(self.writing_job(), self.path, stop_in=1)[1]))

    def finish(self, path: str) -> None:
        """Run that job to its end; all that it was to write is there once."""
        run(self.writing_job(recover=path), self.path)
        lines = [line for part in self.out.rglob("part-*") for line in part.read_text().split()]
        assert sorted(map(int, lines)) == list(range(20_001))


# ------------------------------------------------------------------------------------------ staged files of sinks

FILES = (Kind.STAGED_FILE,)
STAGED = (Kind.STAGED_FILE, Kind.STAGED_DATA)


def parts_that_a_cancelled_job_continues_with(place: Place) -> Iterator[Look]:
    path = place.cancel()
    assert place.staged()
    yield Look([place.stage()], FILES)
    place.finish(path)


def copies_that_another_job_continues_with_and_what_they_were_made_of(place: Place) -> Iterator[Look]:
    path = place.cancel()
    others = place.staged()
    again = place.cancel(recover=path)
    shutil.rmtree(path)  # as a claim does
    copies = place.staged() - others
    assert copies
    yield Look(others, FILES)
    assert place.staged() == copies
    place.finish(again)


def job_whose_needs_are_not_known_protects_all_staged_files(place: Place) -> Iterator[Look]:
    place.cancel()
    dead = place.stage()
    path = staged_path(place.job.name, min(place.chain.runs), "sink", (0, 2, 127), 0)
    kept = place.put(place.checkpoints / path)
    yield Look([dead, kept], STAGED, removes=False)
    unknown = place.stage(OTHER_JOB, OTHER_RUN, "other")
    both = (str(place.out), str(place.path / "other"))
    yield Look((), STAGED, [unknown], asked={"sink_directories": both})
    given_up = {"sink_directories": both, "ended_jobs": frozenset({OTHER_JOB})}
    yield Look([dead, kept, unknown], STAGED, asked=given_up, removes=False)
    damaged = place.checkpoints / ("d" * 32) / "chk-1" / "_metadata"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"{")
    yield Look((), STAGED, [damaged])


def staged_file_of_a_job_that_is_not_known(place: Place) -> Iterator[Look]:
    unknown = place.stage(OTHER_JOB, OTHER_RUN)
    yield Look((), unclear=[unknown])
    yield Look([unknown], asked={"ended_jobs": frozenset({OTHER_JOB})})


def staged_file_of_another_job_of_the_same_id(place: Place) -> Iterator[Look]:
    place.cancel()
    others = place.stage(run_id=OTHER_RUN)
    yield Look((), FILES, [others])
    yield Look([others], FILES, asked={"ended_jobs": frozenset({place.job.name})})


def staged_file_of_a_run_that_a_copied_directory_knows_as_living(place: Place) -> Iterator[Look]:
    place.cancel()
    place.stage()
    copy = shutil.copytree(place.checkpoints, place.path / "copy")
    shutil.rmtree(copy / place.job.name / place.records[-1].parent.name)  # as if that one ran
    both = (str(place.checkpoints), str(copy))
    for directories in (both, both[::-1]):
        yield Look((), FILES, asked={"checkpoint_directories": directories})


def suspended_job_whose_savepoint_was_moved_away_keeps_what_it_staged(place: Place) -> Iterator[Look]:
    path = place.stop()
    dead = place.stage()
    path.rename(place.path / "moved")
    yield Look((), FILES, [path])
    assert "--ended-job" in place.found().unclear[0].reason
    yield Look([dead], FILES, asked={"ended_jobs": frozenset({place.job.name})})  # by the user's word


def savepoint_that_cannot_be_read_protects_all_staged_files(place: Place) -> Iterator[Look]:
    place.cancel()
    yield Look([place.stage()], FILES, removes=False)
    nobodys = place.put(place.savepoints / "savepoint-ffffff-000000000000" / "_metadata")
    yield Look((), FILES, [nobodys.parent])


def savepoint_that_a_job_continues_from_and_that_cannot_be_read(place: Place) -> Iterator[Look]:
    path = place.stop()
    place.stage()
    place.put(path / "_metadata")
    yield Look((), FILES, [path])


# ------------------------------------------------------------------------------------------ files of jobs


def state_and_program_of_an_ended_job_but_for_what_a_checkpoint_names(place: Place) -> Iterator[Look]:
    job = cancelled_job(place.path, inline="0 b")
    unnamed, program = place.shared(), place.put(job / "blobs" / ("0" * 64))
    named = {place.checkpoints / path for path in place.chain.state_files}
    assert named
    others = set((job / "shared").iterdir()) - named
    assert unnamed in others
    yield Look([*others, program])
    assert set((job / "shared").iterdir()) == named
    for record in place.records:
        inspect(str(record.parent), verify=True)


def checkpoints_of_runs_that_nothing_continues_from_when_they_are_asked_for(place: Place) -> Iterator[Look]:
    def program(sheet: Sheet) -> None:
        keyed = sheet.source("numbers", list(range(40))).key_by(lambda number: number % 3)
        sheet.collect(keyed.reduce(lambda left, right: left + right))

    def cancel(driver: Any) -> None:
        driver.cancel()

    story = Story(place.path)
    for epoch in (4, 3):
        story.run(program, asks={epoch: cancel}, job_id="ab" * 16)
    first, second = (Path(str(chapter.driver.checkpoint)) for chapter in story.chapters)
    yield Look()
    left = [Path(one.path) for one in place.found(retained=True).leftovers]
    assert first in [path.parent for path in left]
    yield Look(left, asked={"retained": True})
    assert (second / "_metadata").is_file()
    assert story.run(program, job_id="ab" * 16, recover="latest").error is None


class KilledError(BaseException):
    """Stands for SIGKILL."""


def checkpoints_that_a_job_had_no_time_to_delete_at_its_end(place: Place) -> Iterator[Look]:
    def program(sheet: Sheet) -> None:
        sheet.collect(sheet.source("numbers", list(range(9))))

    def step(instruction: do.Instruction, perform: Callable[[do.Instruction], None]) -> None:
        if isinstance(instruction, do.SweepLeftovers) and records[-1].is_terminal:
            raise KilledError
        if isinstance(instruction, do.PutChainEntry):
            records.append(instruction.entry)
        perform(instruction)

    records: list[ChainEntry] = []
    with pytest.raises(KilledError):
        Story(place.path).run(program, step=step)
    to_be_deleted = [record for record in place.records if int(record.parent.name[4:]) in place.chain.to_be_deleted]
    assert 0 < len(to_be_deleted) < len(place.records), "the records of the job's start and end stay"
    yield Look(to_be_deleted, [Kind.CHECKPOINT])


def checkpoints_that_a_stopped_job_could_not_delete_before_it_went_on_from_its_savepoint(
    place: Place,
) -> Iterator[Look]:
    def program(sheet: Sheet) -> None:
        sheet.collect(sheet.source("numbers", list(range(9))))

    def unable(instruction: do.Instruction, perform: Callable[[do.Instruction], None]) -> None:
        if not isinstance(instruction, (do.DeleteFiles, do.SweepLeftovers)):
            perform(instruction)

    story, job_id = Story(place.path), "ab" * 16
    stopped = story.run(program, asks={3: StopMode.SUSPEND}, step=unable, job_id=job_id)
    left = [record for record in place.records if record.parent.name in {"chk-2", "chk-3", "chk-4", "chk-5"}]
    assert story.run(program, recover=stopped.savepoint, job_id=job_id).status is JobStatus.FINISHED
    assert sorted(story.output()) == list(range(9))
    yield Look(left, [Kind.CHECKPOINT])


def job_that_has_not_ended_is_not_looked_into(place: Place) -> Iterator[Look]:
    savepoint_of(place.path)
    place.records[-1].unlink()  # then its last record is a checkpoint, as after a crash
    unnamed = place.shared()
    yield Look((), [Kind.STATE_FILE])
    yield Look([unnamed], [Kind.STATE_FILE], asked={"ended_jobs": frozenset({place.job.name})})


def damaged_record_of_a_job_keeps_what_it_may_name_and_nothing_else(place: Place) -> Iterator[Look]:
    savepoint_of(place.path)
    first = place.records[0]
    first.write_bytes(first.read_bytes()[:-20])
    older, *younger = (place.shared(f"totals-0-{number}-00000000000000aa") for number in (1, 2, 3))
    program = place.put(place.job / "blobs" / "ab")
    kinds, given_up = [Kind.STATE_FILE, Kind.PROGRAM], {"ended_jobs": frozenset({place.job.name})}
    yield Look((), kinds, [first])
    yield Look((), kinds, [place.job, first], asked={**given_up, "running_jobs": frozenset({place.job.name})})
    yield Look([*younger, program], kinds, [first], asked=given_up)
    assert "Restore it from a copy; or delete it" in place.found(**given_up).unclear[0].reason
    first.unlink()
    yield Look([older], kinds, asked=given_up)


def files_that_never_got_their_names(place: Place) -> Iterator[Look]:
    savepoint_of(place.path)
    yield Look([place.shared(".tmp-7-ab"), place.shared()])


# ------------------------------------------------------------------------------------------ savepoints

UNFINISHED = [Kind.UNFINISHED_SAVEPOINT]


def savepoint_without_metadata_unless_its_job_is_stopping_into_it(place: Place) -> Iterator[Look]:
    path = Path(savepoint_of(place.path, inline="0 b"))
    given_up = path.with_name(f"{path.name[:-12]}{'0' * 12}")
    place.put(given_up / UNNAMED)
    unknown = place.put(place.savepoints / "savepoint-ffffff-000000000000" / "file").parent
    (path / "_metadata").rename(place.path / "kept")  # as if the driver was killed behind the stop's commit point
    yield Look([given_up], UNFINISHED, [unknown, path])


def savepoint_without_metadata_of_a_job_that_has_not_ended(place: Place) -> Iterator[Look]:
    """As while a stop waits for commits: its files are there, and no record names it yet."""
    path = Path(savepoint_of(place.path, inline="0 b"))
    (path / "_metadata").unlink()
    for record in place.records[-2:]:  # the end of the job, and the checkpoint that says where it stops into
        record.unlink()
    yield Look((), UNFINISHED, [path])
    yield Look([path], UNFINISHED, asked={"ended_jobs": frozenset({place.job.name})})


# ------------------------------------------------------------------------------------------ local directories

HOLDER = """
import sys, time
from pathlib import Path
from penstock._engine.state.keyed_state import KeyedState
from penstock._engine.state.local.local_backend import LocalBackend
from penstock._engine.storage.scratch import ScratchDirectory
scratch = ScratchDirectory("penstock-checkpoints-")
from penstock._engine.spark.shipping import process_folder
process_folder()
store = KeyedState(LocalBackend(Path(sys.argv[1]), range(4), 4, 1 << 20), lambda handle: b"")
store.catch_up(())
store._move()
print("ready", flush=True)
time.sleep(600)
"""


def state_directory(place: Place, run_id: str) -> Path:
    state = place.temporary / f"penstock-{os.geteuid()}" / "state" / run_id
    state.parent.mkdir(parents=True, mode=0o700)
    return state


def local_directories_of_a_process_once_it_is_dead(place: Place) -> Iterator[Look]:
    state = state_directory(place, "a" * 32)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(state / "totals-0")],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(place.temporary)},
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        yield Look()
    finally:
        holder.kill()
        holder.communicate()
    [checkpoints], [modules] = (place.temporary.glob(f"penstock-{name}-*") for name in ("checkpoints", "modules"))
    yield Look([checkpoints, modules, state])
    assert not any(path.exists() for path in (checkpoints, modules, state))


def directories_of_this_process(place: Place) -> Iterator[Look]:
    store = KeyedState(LocalBackend(state_directory(place, "b" * 32) / "op-0", range(4), 4, 1 << 20), lambda _: b"")
    store.catch_up(())
    store._move()
    with ScratchDirectory("penstock-savepoint-"):
        yield Look()


def local_directories_without_a_lock(place: Place) -> Iterator[Look]:
    (place.temporary / "penstock-checkpoints-old").mkdir()
    (place.temporary / "penstock-savepoint-file").write_text("a file")
    yield Look()


def local_directory_of_another_user(place: Place) -> Iterator[Look]:
    scratch = ScratchDirectory("penstock-savepoint-")
    scratch._lock.close()
    yield Look([scratch.path], removes=False)
    user = os.geteuid()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: user + 1)
        yield Look()


STORIES = (
    parts_that_a_cancelled_job_continues_with,
    copies_that_another_job_continues_with_and_what_they_were_made_of,
    job_whose_needs_are_not_known_protects_all_staged_files,
    staged_file_of_a_job_that_is_not_known,
    staged_file_of_another_job_of_the_same_id,
    staged_file_of_a_run_that_a_copied_directory_knows_as_living,
    suspended_job_whose_savepoint_was_moved_away_keeps_what_it_staged,
    savepoint_that_cannot_be_read_protects_all_staged_files,
    savepoint_that_a_job_continues_from_and_that_cannot_be_read,
    state_and_program_of_an_ended_job_but_for_what_a_checkpoint_names,
    checkpoints_of_runs_that_nothing_continues_from_when_they_are_asked_for,
    checkpoints_that_a_job_had_no_time_to_delete_at_its_end,
    checkpoints_that_a_stopped_job_could_not_delete_before_it_went_on_from_its_savepoint,
    job_that_has_not_ended_is_not_looked_into,
    damaged_record_of_a_job_keeps_what_it_may_name_and_nothing_else,
    files_that_never_got_their_names,
    savepoint_without_metadata_unless_its_job_is_stopping_into_it,
    savepoint_without_metadata_of_a_job_that_has_not_ended,
    local_directories_of_a_process_once_it_is_dead,
    directories_of_this_process,
    local_directories_without_a_lock,
    local_directory_of_another_user,
)


@pytest.mark.parametrize("story", STORIES)
def test_leftovers_of(
    story: Callable[[Place], Iterator[Look]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(place.temporary))
    for look in story(place):
        survey = place.found(**look.asked)
        listed = {Path(one.path) for one in survey.leftovers if one.kind in look.of}
        assert listed == set(look.left)
        assert {Path(one.path) for one in survey.unclear} == set(look.unclear)
        assert place.found(now_ms(), **look.asked).leftovers == (), "all is young"
        if not look.removes:
            continue
        everything = {Path(one.path) for one in survey.leftovers}
        before = place.files()
        assert remove_leftovers(survey.leftovers).failed == ()
        in_storage = [one for one in survey.leftovers if one.kind is not Kind.LOCAL_DIRECTORY]
        assert remove_leftovers(in_storage).failed == (), "another command may remove the same"
        gone = before - place.files()
        assert {path for path in before if everything & {path, *path.parents}} == gone
        assert place.found(**look.asked).leftovers == ()


def test_directory_that_was_taken_into_use_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratch = ScratchDirectory("penstock-savepoint-")
    scratch._lock.close()
    survey = find_leftovers(LeftoverPlaces(), now_ms=now_ms() + DAY_MS)
    assert len(survey.leftovers) == 1
    with contextlib.closing(DirectoryLock(scratch.path)):
        removal = remove_leftovers(survey.leftovers)
    assert [reason for _, reason in removal.failed] == ["a process uses it now"]
    assert scratch.path.exists()


def test_each_kind_has_one_owner() -> None:
    assert sorted(kind for owner in OWNERS for kind in owner.kinds) == sorted(LeftoverKind)
