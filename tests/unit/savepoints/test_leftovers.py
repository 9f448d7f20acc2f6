"""What counts as left over, what never does, and that removing takes exactly what was listed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.stories import Sheet, Story
from tests.unit.savepoints.jobs import cancelled_job, environment, run, savepoint_of

from penstock._connectors.files.staging import segment_name
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.paths import staged_path
from penstock._engine.savepoints.chains import read_chains
from penstock._engine.savepoints.inspection import inspect
from penstock._engine.savepoints.leftovers import find_leftovers, remove_leftovers
from penstock._engine.savepoints.survey import LeftoverKind, LeftoverPlaces, Survey
from penstock._engine.state.keyed_state import KeyedState
from penstock._engine.state.local.local_backend import LocalBackend
from penstock._engine.storage.opening import open_storage
from penstock._engine.storage.scratch import DirectoryLock, ScratchDirectory
from penstock.common import Encoder, WatermarkStrategy
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.protocol.metadata import ChainEntry
    from penstock.datastream import StreamExecutionEnvironment

DAY_MS = 86_400_000


def tomorrow() -> int:
    return int(time.time() * 1000) + DAY_MS


def found(tmp_path: Path, *, now_ms: int | None = None, **others: Any) -> Survey:
    places = LeftoverPlaces(
        checkpoint_directories=(str(tmp_path / "checkpoints"),),
        savepoint_directories=(str(tmp_path / "savepoints"),),
        sink_directories=(str(tmp_path / "out"),),
        **{"local": False, **others},
    )
    return find_leftovers(places, now_ms=tomorrow() if now_ms is None else now_ms)


def names(survey: Survey, kind: LeftoverKind) -> list[str]:
    return [leftover.path.rpartition("/")[2] for leftover in survey.leftovers if leftover.kind is kind]


def job_directory(tmp_path: Path) -> Path:
    [job] = (path for path in (tmp_path / "checkpoints").iterdir() if len(path.name) == 32)
    return job


def writing_job(tmp_path: Path, **settings: str) -> StreamExecutionEnvironment:
    """Return a job whose sink has an unfinished part from each epoch on."""
    env = environment(2, checkpoints=str(tmp_path / "checkpoints"), **settings)
    source = NumberSequenceSource(0, 20_000)
    sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers").sink_to(sink).uid("sink")
    return env


def staged(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "out").rglob(".*.staged"))


# ------------------------------------------------------------------------------------------ staged sink files


def segment(job_id: str, run_id: str) -> str:
    return segment_name("ab", 1, job_id=job_id, run_id=run_id, sink="c0", checkpoint_id=2, token="7f")


def stage(tmp_path: Path, job_id: str) -> Path:
    """Write a staged file that nothing names."""
    [chain] = read_chains(open_storage(str(tmp_path / "checkpoints")))
    dead = tmp_path / "out" / segment(job_id, min(chain.runs))
    dead.write_text("nobody's")
    return dead


def stage_in_storage(tmp_path: Path, job_id: str) -> Path:
    """Write what a sink stages in checkpoint storage, which nothing names."""
    [chain] = read_chains(open_storage(str(tmp_path / "checkpoints")))
    path = staged_path(job_id, min(chain.runs), "sink", (0, 2, 127), 0)
    open_storage(str(tmp_path / "checkpoints")).put(path, b"nobody's")
    return tmp_path / "checkpoints" / path


def expect_everything(tmp_path: Path) -> None:
    lines = [line for part in (tmp_path / "out").rglob("part-*") for line in part.read_text().split()]
    assert sorted(map(int, lines)) == list(range(20_001))


def test_parts_that_a_cancelled_job_goes_on_with_are_not_left_over(tmp_path: Path) -> None:
    path = run(writing_job(tmp_path), tmp_path, cancel_in=2)[0].checkpoint
    assert path is not None
    assert staged(tmp_path)
    dead = stage(tmp_path, job_directory(tmp_path).name)
    survey = found(tmp_path)
    assert names(survey, LeftoverKind.STAGED_FILE) == [dead.name]
    assert not survey.unclear
    assert remove_leftovers(survey.leftovers).failed == ()
    assert not dead.exists()
    run(writing_job(tmp_path, recover=path), tmp_path)
    expect_everything(tmp_path)


def test_copies_that_another_job_goes_on_with_are_not_left_over_but_what_they_were_made_of_is(tmp_path: Path) -> None:
    path = run(writing_job(tmp_path), tmp_path, cancel_in=2)[0].checkpoint
    others = {file.name for file in staged(tmp_path)}
    again = run(writing_job(tmp_path, recover=str(path)), tmp_path, cancel_in=2)[0].checkpoint
    shutil.rmtree(str(path))  # as a claim does
    copies = {file.name for file in staged(tmp_path)} - others
    assert copies
    survey = found(tmp_path)
    assert not survey.unclear
    assert set(names(survey, LeftoverKind.STAGED_FILE)) == others
    remove_leftovers(survey.leftovers)
    assert {file.name for file in staged(tmp_path)} == copies
    run(writing_job(tmp_path, recover=str(again)), tmp_path)
    expect_everything(tmp_path)


def unknown_job(tmp_path: Path) -> frozenset[str]:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / segment("f" * 32, "e" * 32)).write_text("its checkpoints are in a directory of its own")
    return frozenset({"f" * 32})


def unreadable_job(tmp_path: Path) -> frozenset[str]:
    damaged = tmp_path / "checkpoints" / ("d" * 32) / "chk-1" / "_metadata"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"{")
    return frozenset()


@pytest.mark.parametrize("of_which_it_is_not_known_what_it_needs", [unknown_job, unreadable_job])
def test_job_of_which_it_is_not_known_what_it_needs_protects_all_staged_files(
    tmp_path: Path, of_which_it_is_not_known_what_it_needs: Callable[[Path], frozenset[str]]
) -> None:
    run(writing_job(tmp_path), tmp_path, cancel_in=2)
    dead = stage(tmp_path, job_directory(tmp_path).name)
    kept = stage_in_storage(tmp_path, job_directory(tmp_path).name)
    folders = (str(tmp_path / "out"), str(tmp_path / "other"))
    (tmp_path / "out").mkdir(exist_ok=True)

    def look(**changes: Any) -> Survey:
        places = LeftoverPlaces((str(tmp_path / "checkpoints"),), (), folders, local=False, **changes)
        return find_leftovers(places, now_ms=tomorrow())

    assert names(look(), LeftoverKind.STAGED_FILE) == [dead.name]
    assert names(look(), LeftoverKind.STAGED_DATA) == [kept.name]
    said_to_have_ended = of_which_it_is_not_known_what_it_needs(tmp_path)
    survey = look()
    assert names(survey, LeftoverKind.STAGED_FILE) + names(survey, LeftoverKind.STAGED_DATA) == []
    assert len(survey.unclear) == 1
    if said_to_have_ended:
        assert dead.name in names(look(ended_jobs=said_to_have_ended), LeftoverKind.STAGED_FILE)


def test_staged_files_of_a_job_that_is_not_known_or_has_not_ended_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    unknown = tmp_path / "out" / segment("f" * 32, "e" * 32)
    unknown.write_text("?")
    survey = found(tmp_path)
    assert names(survey, LeftoverKind.STAGED_FILE) == []
    assert [(unclear.path, "f" * 32 in unclear.reason) for unclear in survey.unclear] == [(str(unknown), True)]
    assert names(found(tmp_path, ended_jobs=frozenset({"f" * 32})), LeftoverKind.STAGED_FILE) == [unknown.name]


def test_staged_files_of_another_job_of_the_same_id_are_left_alone(tmp_path: Path) -> None:
    run(writing_job(tmp_path), tmp_path, cancel_in=2)
    job_id = job_directory(tmp_path).name
    [chain] = read_chains(open_storage(str(tmp_path / "checkpoints")))
    others = tmp_path / "out" / segment(job_id, "e" * 32)
    others.write_text("a living one's")
    survey = found(tmp_path)
    assert names(survey, LeftoverKind.STAGED_FILE) == []
    assert {unclear.path for unclear in survey.unclear} == {str(others)}
    survey = found(tmp_path, ended_jobs=frozenset({job_id}))
    assert names(survey, LeftoverKind.STAGED_FILE) == [others.name]
    assert "e" * 32 not in chain.runs


def test_staged_files_of_a_run_that_a_copied_directory_knows_as_living_are_left_alone(tmp_path: Path) -> None:
    run(writing_job(tmp_path), tmp_path, cancel_in=2)
    stage(tmp_path, job_directory(tmp_path).name)
    copy = shutil.copytree(tmp_path / "checkpoints", tmp_path / "copy")
    [terminal] = (max(job.glob("chk-*"), key=lambda path: int(path.name[4:])) for job in copy.glob("?" * 32))
    shutil.rmtree(terminal)  # as if that one ran
    both = (str(tmp_path / "checkpoints"), str(copy))
    for directories in (both, both[::-1]):
        survey = find_leftovers(
            LeftoverPlaces(directories, (), (str(tmp_path / "out"),), local=False), now_ms=tomorrow()
        )
        assert names(survey, LeftoverKind.STAGED_FILE) == []


def test_suspended_job_whose_savepoint_was_moved_away_keeps_what_it_staged(tmp_path: Path) -> None:
    path = run(writing_job(tmp_path), tmp_path, stop_in=1)[1]
    job_id = job_directory(tmp_path).name
    dead = stage(tmp_path, job_id)
    Path(str(path)).rename(tmp_path / "moved")
    survey = found(tmp_path)
    assert names(survey, LeftoverKind.STAGED_FILE) == []
    [unclear] = survey.unclear
    assert unclear.path == path
    assert "--ended-job" in unclear.reason
    survey = found(tmp_path, ended_jobs=frozenset({job_id}))  # by the user's word it is not resumed
    assert (names(survey, LeftoverKind.STAGED_FILE), survey.unclear) == ([dead.name], ())


def test_savepoint_that_cannot_be_read_protects_all_staged_files(tmp_path: Path) -> None:
    run(writing_job(tmp_path), tmp_path, cancel_in=2)
    dead = stage(tmp_path, job_directory(tmp_path).name)
    assert names(found(tmp_path), LeftoverKind.STAGED_FILE) == [dead.name]
    nobodys = tmp_path / "savepoints" / "savepoint-ffffff-000000000000" / "_metadata"
    nobodys.parent.mkdir(parents=True)
    nobodys.write_bytes(b"{")
    survey = found(tmp_path)
    assert names(survey, LeftoverKind.STAGED_FILE) == []
    assert [unclear.path for unclear in survey.unclear] == [str(nobodys.parent)]


def test_savepoint_that_a_job_goes_on_from_and_that_cannot_be_read_protects_what_it_staged(tmp_path: Path) -> None:
    path = Path(str(run(writing_job(tmp_path), tmp_path, stop_in=1)[1]))
    stage(tmp_path, job_directory(tmp_path).name)
    (path / "_metadata").write_bytes(b"{")
    assert names(found(tmp_path), LeftoverKind.STAGED_FILE) == []


# ------------------------------------------------------------------------------------------ checkpoint directories


def test_state_files_and_programs_of_ended_jobs_go_but_for_what_a_checkpoint_names(tmp_path: Path) -> None:
    job = cancelled_job(tmp_path, inline="0 b")
    orphan = job / "shared" / "totals-0-2-00000000000000aa"
    orphan.write_text("orphan")
    (job / "blobs").mkdir()
    (job / "blobs" / ("0" * 64)).write_text("program")
    survey = found(tmp_path)
    [chain] = read_chains(open_storage(str(tmp_path / "checkpoints")))
    named = {path.rpartition("/")[2] for path in chain.state_files}
    assert named
    assert orphan.name in names(survey, LeftoverKind.STATE_FILE)
    assert not named & set(names(survey, LeftoverKind.STATE_FILE))
    assert names(survey, LeftoverKind.PROGRAM) == ["0" * 64]
    assert remove_leftovers(survey.leftovers).failed == ()
    assert {path.name for path in (job / "shared").iterdir()} == named
    assert found(tmp_path).leftovers == ()
    for record in job.glob("chk-*"):
        inspect(str(record), verify=True)


def test_checkpoints_of_runs_that_nothing_goes_on_from_are_left_over_when_they_are_asked_for(tmp_path: Path) -> None:
    def program(sheet: Sheet) -> None:
        keyed = sheet.source("numbers", list(range(40))).key_by(lambda number: number % 3)
        sheet.collect(keyed.reduce(lambda left, right: left + right))

    def cancel(driver: Any) -> None:
        driver.cancel()

    story = Story(tmp_path)
    story.run(program, asks={4: cancel}, job_id="ab" * 16)
    first = story.chapters[0].driver.checkpoint
    story.run(program, asks={3: cancel}, job_id="ab" * 16)
    second = story.chapters[1].driver.checkpoint
    assert not found(tmp_path).leftovers
    survey = found(tmp_path, retained=True)
    left = {item.path.rpartition("/")[0] for item in survey.leftovers}
    assert first in left
    assert second not in left
    assert not remove_leftovers(survey.leftovers).failed
    assert not found(tmp_path, retained=True).leftovers
    assert Path(str(second), "_metadata").is_file()
    assert story.run(program, job_id="ab" * 16, recover="latest").error is None


class KilledError(BaseException):
    """Stands for SIGKILL."""


def test_checkpoints_that_a_job_had_no_time_to_delete_at_its_end_are_left_over(tmp_path: Path) -> None:
    def program(sheet: Sheet) -> None:
        sheet.collect(sheet.source("numbers", list(range(9))))

    def step(instruction: do.Instruction, perform: Callable[[do.Instruction], None]) -> None:
        if isinstance(instruction, do.SweepOrphans) and records[-1].is_terminal:
            raise KilledError
        if isinstance(instruction, do.PutChainEntry):
            records.append(instruction.entry)
        perform(instruction)

    records: list[ChainEntry] = []
    with pytest.raises(KilledError):
        Story(tmp_path).run(program, step=step)
    checkpoints = list((tmp_path / "checkpoints").glob("*/chk-*/_metadata"))
    survey = found(tmp_path)
    left = {Path(item.path) for item in survey.leftovers if item.kind is LeftoverKind.CHECKPOINT}
    assert left
    assert left < set(checkpoints), "the records of the job's start and end stay"
    assert not remove_leftovers(survey.leftovers).failed
    assert not found(tmp_path).leftovers


def test_job_that_has_not_ended_is_not_looked_into(tmp_path: Path) -> None:
    savepoint_of(tmp_path)
    job = job_directory(tmp_path)
    newest = max(job.glob("chk-*"), key=lambda path: int(path.name[4:]))
    (newest / "_metadata").unlink()  # then its last record is a checkpoint, as after a crash
    (job / "shared").mkdir(exist_ok=True)
    (job / "shared" / "totals-0-2-00000000000000aa").write_text("orphan")
    assert names(found(tmp_path), LeftoverKind.STATE_FILE) == []
    survey = found(tmp_path, ended_jobs=frozenset({job.name}))
    assert "totals-0-2-00000000000000aa" in names(survey, LeftoverKind.STATE_FILE)


def test_chain_that_cannot_be_read_whole_is_left_alone_and_told(tmp_path: Path) -> None:
    savepoint_of(tmp_path)
    job = job_directory(tmp_path)
    first = job / "chk-1" / "_metadata"
    first.write_bytes(first.read_bytes()[:-20])
    (job / "shared").mkdir(exist_ok=True)
    (job / "shared" / "totals-0-2-00000000000000aa").write_text("orphan")
    survey = found(tmp_path)
    assert names(survey, LeftoverKind.STATE_FILE) == []
    assert [unclear.path for unclear in survey.unclear] == [str(first)]


def test_damaged_record_of_a_job_that_is_given_up_keeps_what_it_may_name_and_nothing_else(tmp_path: Path) -> None:
    savepoint_of(tmp_path)
    job = job_directory(tmp_path)
    first = job / "chk-1" / "_metadata"
    first.write_bytes(first.read_bytes()[:-20])
    (job / "shared").mkdir(exist_ok=True)
    (job / "blobs").mkdir(exist_ok=True)
    files = [job / "shared" / f"totals-0-{number}-00000000000000aa" for number in (1, 2, 3)]
    for file in (*files, job / "blobs" / "ab"):
        file.write_text("orphan")
    survey = found(tmp_path, ended_jobs=frozenset({job.name}))
    assert not remove_leftovers(survey.leftovers).failed
    assert [file.exists() for file in files] == [True, False, False]
    assert not (job / "blobs" / "ab").exists()
    [unclear] = survey.unclear
    assert unclear.path == str(first)
    assert "Restore it from a copy; or delete it" in unclear.reason
    first.unlink()
    survey = found(tmp_path, ended_jobs=frozenset({job.name}))
    remove_leftovers(survey.leftovers)
    assert not any(file.exists() for file in files)
    assert not survey.unclear


def test_job_that_runs_here_is_not_given_up(tmp_path: Path) -> None:
    savepoint_of(tmp_path)
    job = job_directory(tmp_path)
    (job / "blobs").mkdir(exist_ok=True)
    (job / "blobs" / "ab").write_text("its program")
    survey = found(tmp_path, ended_jobs=frozenset({job.name}), running_jobs=frozenset({job.name}))
    assert names(survey, LeftoverKind.PROGRAM) == []
    assert ["it runs" in one.reason or "runs on this machine" in one.reason for one in survey.unclear] == [True]


def test_what_is_young_is_left_alone(tmp_path: Path) -> None:
    savepoint_of(tmp_path)
    job = job_directory(tmp_path)
    (job / "shared").mkdir(exist_ok=True)
    for name in ("totals-0-2-00000000000000aa", ".tmp-7-ab"):
        (job / "shared" / name).write_text("orphan")
    assert found(tmp_path, now_ms=int(time.time() * 1000)).leftovers == ()
    assert set(names(found(tmp_path), LeftoverKind.TEMPORARY_FILE)) == {".tmp-7-ab"}
    remove_leftovers(found(tmp_path).leftovers)
    assert not list(job.rglob(".tmp-*"))


def test_savepoint_without_metadata_is_left_over_unless_its_job_is_stopping_into_it(tmp_path: Path) -> None:
    path = Path(savepoint_of(tmp_path, inline="0 b"))
    given_up = path.with_name(f"{path.name[:-12]}{'0' * 12}")
    given_up.mkdir()
    (given_up / "totals-0-2-00000000000000aa").write_text("half of it")
    unknown = path.with_name("savepoint-ffffff-000000000000")
    unknown.mkdir()
    (unknown / "file").write_text("?")
    (path / "_metadata").rename(tmp_path / "kept")  # as if the driver was killed behind the stop's commit point
    assert found(tmp_path, now_ms=int(time.time() * 1000)).leftovers == ()  # all is young
    survey = found(tmp_path)
    assert names(survey, LeftoverKind.UNFINISHED_SAVEPOINT) == [given_up.name]
    assert str(unknown) in [unclear.path for unclear in survey.unclear]
    remove_leftovers(survey.leftovers)
    assert not given_up.exists()
    assert path.exists()
    assert unknown.exists()


def test_savepoint_without_metadata_of_a_job_that_goes_on_is_not_known_to_be_given_up(tmp_path: Path) -> None:
    """As while a stop waits for commits: its files are there, and no record names it yet."""
    path = Path(savepoint_of(tmp_path, inline="0 b"))
    (path / "_metadata").unlink()
    job = job_directory(tmp_path)
    records = sorted(job.glob("chk-*/_metadata"), key=lambda record: int(record.parent.name[4:]))
    for record in records[-2:]:  # the end of the job, and the checkpoint that says where it stops into
        record.unlink()
    survey = found(tmp_path)
    assert names(survey, LeftoverKind.UNFINISHED_SAVEPOINT) == []
    assert str(path) in [unclear.path for unclear in survey.unclear]
    assert names(found(tmp_path, ended_jobs=(job.name,)), LeftoverKind.UNFINISHED_SAVEPOINT) == [path.name]


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


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def local_names(tmp_path: Path) -> set[str]:
    return {
        path.rpartition("/")[2]
        for path in (leftover.path for leftover in find_leftovers(LeftoverPlaces(), now_ms=tomorrow()).leftovers)
    }


def test_local_directories_go_when_their_process_is_dead(temporary: Path, tmp_path: Path) -> None:
    state = temporary / f"penstock-{os.geteuid()}" / "state" / ("a" * 32)
    state.parent.mkdir(parents=True, mode=0o700)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(state / "totals-0")],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        assert local_names(tmp_path) == set()
    finally:
        holder.kill()
        holder.communicate()
    survey = find_leftovers(LeftoverPlaces(), now_ms=tomorrow())
    [checkpoints] = temporary.glob("penstock-checkpoints-*")
    [modules] = temporary.glob("penstock-modules-*")
    assert {leftover.path for leftover in survey.leftovers} == {str(checkpoints), str(modules), str(state)}
    assert find_leftovers(LeftoverPlaces()).leftovers == ()  # they are young
    removal = remove_leftovers(survey.leftovers)
    assert (len(removal.removed), removal.failed) == (3, ())
    assert not checkpoints.exists()
    assert not modules.exists()
    assert not state.exists()


def test_directories_of_this_process_are_in_use(temporary: Path, tmp_path: Path) -> None:
    state = temporary / f"penstock-{os.geteuid()}" / "state" / ("b" * 32)
    state.parent.mkdir(parents=True, mode=0o700)
    store = KeyedState(LocalBackend(state / "op-0", range(4), 4, 1 << 20), lambda _: b"")
    store.catch_up(())
    store._move()
    with ScratchDirectory("penstock-savepoint-"):
        assert local_names(tmp_path) == set()


def test_directory_that_was_taken_into_use_since_is_not_removed(temporary: Path, tmp_path: Path) -> None:
    scratch = ScratchDirectory("penstock-savepoint-")
    scratch._lock.close()
    survey = find_leftovers(LeftoverPlaces(), now_ms=tomorrow())
    assert len(survey.leftovers) == 1
    with contextlib.closing(DirectoryLock(scratch.path)):
        removal = remove_leftovers(survey.leftovers)
    assert [reason for _, reason in removal.failed] == ["a process uses it now"]
    assert scratch.path.exists()


def test_directories_without_a_lock_are_left_alone(temporary: Path, tmp_path: Path) -> None:
    (temporary / "penstock-checkpoints-old").mkdir()
    (temporary / "penstock-savepoint-file").write_text("a file")
    assert local_names(tmp_path) == set()


def test_directories_of_other_users_are_left_alone(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = ScratchDirectory("penstock-savepoint-")
    scratch._lock.close()
    assert local_names(tmp_path) == {scratch.path.name}
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert local_names(tmp_path) == set()


def test_removing_twice_does_no_harm(tmp_path: Path) -> None:
    savepoint_of(tmp_path)
    job = job_directory(tmp_path)
    (job / "shared").mkdir(exist_ok=True)
    (job / "shared" / "totals-0-2-00000000000000aa").write_text("orphan")
    survey = found(tmp_path)
    assert [remove_leftovers(survey.leftovers).failed for _ in range(2)] == [(), ()]
