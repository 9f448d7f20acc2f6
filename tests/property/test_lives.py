"""Whole lives of jobs: run, stopped, killed, started from anywhere; the files hold the truth, and nothing is lost.

A start from an older savepoint or checkpoint forks off a line. Users who do that remove the files that were published
behind it out of the sink's folder; here, that happens with the claim of the new line.
"""

from __future__ import annotations

import itertools
import pickle
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.kit.clock import CLOCK
from tests.kit.stories import Sheet, Story

from penstock._connectors.files.staging import FinishedPart
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.protocol.versioned import unpack
from penstock._engine.savepoints.chains import read_chains
from penstock._engine.savepoints.disposal import dispose
from penstock._engine.savepoints.leftovers import find_leftovers, remove_leftovers
from penstock._engine.savepoints.survey import LeftoverPlaces
from penstock._engine.storage.opening import open_storage
from penstock.common import Encoder
from penstock.common.job_status import JobStatus
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import NoCheckpointError, RestoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.protocol.metadata import ChainEntry

#: `tests.chaos` draws more lives; here are forks of a line, and what a savepoint that is disposed of leaves.
EXAMPLES = 10
SPLITS = 3
LENGTH = 10
KEYS = 4
JOBS = ("a" * 32, "b" * 32)
#: Later than all that was written.
LATER_MS = 1 << 50


class KilledError(BaseException):
    """Stands for SIGKILL."""


@pytest.fixture(autouse=True)
def all_state_lies_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no state be so small that it stands in the metadata, and no life so short that no chain of deltas ends."""
    monkeypatch.setattr("penstock._engine.coordinator.checkpoints.snapshots.MAX_INLINE", 0)
    monkeypatch.setattr("penstock._engine.coordinator.checkpoints.snapshots.MAX_DELTAS", 3)
    monkeypatch.setattr("penstock._engine.coordinator.epochs.sources._MAX_GRANT", 2)


@pytest.fixture(autouse=True)
def names_rise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is made later have a later name: examples choose by place, and choose the same when run again."""
    made = itertools.count()
    monkeypatch.setattr("secrets.token_hex", lambda size: f"{next(made):0{2 * size}x}")


class Numbered(KeyedProcessFunction):
    """Each number with its place among those of its key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.seen = runtime_context.get_histogram("seen")

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.seen.add(value)
        self.count.update((self.count.value() or 0) + 1)
        yield f"{value} {value % KEYS} {self.count.value()}"


def cancel(driver: JobDriver) -> None:
    driver.cancel()


def ask_for_a_checkpoint(driver: JobDriver) -> None:
    driver.trigger_checkpoint()


ACTIONS = [*StopMode, cancel, ask_for_a_checkpoint]
ASKS = st.dictionaries(st.integers(1, 8), st.sampled_from(ACTIONS), max_size=2)


class Files:
    """The sink's folder, as it is to be along the line of checkpoints that a job stems from."""

    def __init__(self, place: Path) -> None:
        self.folder, self._elsewhere = place / "out", place / "elsewhere"
        self.folder.mkdir()
        self._elsewhere.mkdir()
        #: By path of a checkpoint or savepoint: the names of all files that were published up to it.
        self._lines: dict[str, frozenset[str]] = {}
        #: By job: the checkpoint or savepoint that it goes on from.
        self._ends: dict[str, str | None] = {}

    def stored(self, record: ChainEntry) -> None:
        """Note a record that is on a chain."""
        self._ends[record.job_id] = record.parent and record.parent.path
        line = self._lines[record.parent.path] if record.parent else frozenset[str]()
        if record.kind is ChainEntryKind.CHECKPOINT:
            assert record.snapshot is not None
            own = [commit for commit in record.snapshot.outstanding if commit.checkpoint_id == record.checkpoint_id]
            payloads = (unpack(item.payload)[1] for commit in own for item in commit.committables)
            parts = (part for part in map(pickle.loads, payloads) if isinstance(part, FinishedPart))
            path = f"{record.job_id}/chk-{record.checkpoint_id}"
            self._ends[record.job_id] = path
            self._lines[path] = line | {Path(part.target).name for part in parts}
        elif record.kind is ChainEntryKind.TAKEOVER:
            self.turn_to(record.job_id)

    def saved(self, path: str, record: ChainEntry) -> None:
        """Note a savepoint."""
        self._lines[path] = self._lines[f"{record.job_id}/chk-{record.checkpoint_id}"]

    def turn_to(self, job_id: str) -> None:
        """Let the folder have what the line of a job has."""
        end = self._ends.get(job_id)
        line = self._lines[end] if end is not None else frozenset[str]()
        for file in self.published():
            if file.name not in line:
                file.rename(self._elsewhere / file.name)
        for file in list(self._elsewhere.iterdir()):
            if file.name in line:
                file.rename(self.folder / file.name)

    def published(self) -> list[Path]:
        return [file for file in self.folder.iterdir() if not file.name.startswith(".")]

    def staged(self) -> list[Path]:
        return [file for file in self.folder.iterdir() if file.name.endswith(".staged")]

    def check(self, *, complete: bool = False, gaps: bool = False) -> None:
        """Compare what is published with the truth.

        Args:
            complete: The job has come to its end.
            gaps: A writer may finish its file by the time that has passed, and others keep theirs.
        """
        lines = [line.split() for file in self.published() for line in file.read_text().splitlines()]
        numbers, places = Counter(int(number) for number, _, _ in lines), Counter((k, n) for _, k, n in lines)
        assert all(times == 1 for times in (*numbers.values(), *places.values()))
        for key in range(KEYS):
            of_key = [int(place) for k, place in places if int(k) == key]
            assert gaps or sorted(of_key) == list(range(1, len(of_key) + 1)), "there are no gaps"
        if complete:
            assert numbers == Counter(range(SPLITS * LENGTH))


class Life:
    """One run of a job, step by step.

    Args:
        files: Hear of what is stored.
        crash_at: The step before which the process ends.
    """

    def __init__(self, files: Files, crash_at: int | None) -> None:
        self._files, self._crash_at, self._steps = files, crash_at, 0
        self.has_claimed = False

    def step(self, instruction: do.Instruction, perform: Callable[[do.Instruction], None]) -> None:
        self._steps += 1
        if self._steps == self._crash_at:
            raise KilledError
        perform(instruction)
        if isinstance(instruction, do.PutChainEntry):
            self._files.stored(instruction.entry)
            self.has_claimed = True
        elif isinstance(instruction, do.WriteSavepoint) and instruction.is_staged:
            pass  # it gets its name later
        elif isinstance(instruction, do.WriteSavepoint | do.CompleteSavepoint):
            self._files.saved(instruction.path, instruction.entry)


class Lives:
    """Jobs over one checkpoint directory and one folder of files.

    Args:
        place: For all files.
        rolls: Whether the sink finishes its files with each checkpoint.
    """

    def __init__(self, place: Path, *, rolls: bool) -> None:
        self.place, self.rolls = place, rolls
        self.story, self.files = Story(place), Files(place)
        self.checkpoints, self.savepoints = place / "checkpoints", place / "savepoints"
        self.savepoints.mkdir()
        self.checkpoints.mkdir()
        #: What is in the savepoints that are complete and belong to the user.
        self.untouched: dict[str, dict[str, bytes]] = {}
        #: Those that jobs have claimed.
        self._given: set[str] = set()
        #: How many subtasks the operators of each job had at its last start.
        self._sizes: dict[str, list[int]] = {}
        #: How often each number was counted along the line of the job that ended last.
        self.seen: dict[int, int] = {}

    def program(self, sizes: list[int]) -> Callable[[Sheet], None]:
        policy = RollingPolicy.on_checkpoint_rolling_policy() if self.rolls else RollingPolicy.default_rolling_policy()

        def program(sheet: Sheet) -> None:
            builder = FileSink.for_row_format(str(self.files.folder), Encoder.simple_string_encoder())
            builder = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
            numbers = range(SPLITS * LENGTH)
            lists = [list(numbers[start::SPLITS]) for start in range(SPLITS)]
            stream = sheet.source("numbers", *lists).set_parallelism(sizes[0])
            stream = stream.key_by(lambda n: n % KEYS).process(Numbered()).uid("numbered").set_parallelism(sizes[1])
            stream.sink_to(builder.with_rolling_policy(policy).build()).uid("files").set_parallelism(sizes[2])

        return program

    def run(self, sizes: list[int], asks: dict[int, Any], crash_at: int | None, **how: str) -> JobStatus | None:
        """Run a job to its end; None when it was killed."""
        life = Life(self.files, crash_at)
        try:
            chapter = self.story.run(
                self.program(sizes), asks=asks, step=life.step, restart="none", first="true", **how
            )
        except KilledError:
            status = None
        else:
            status = chapter.status
            self.seen = chapter.driver.accumulators().get("seen", {})
            assert set(self.seen.values()) <= {1}, "no number is counted twice"
            if isinstance(chapter.error, RestoreError) and "Start it once as it was" in str(chapter.error):
                return self.run(self._sizes[how["job_id"]], {}, None, **how)
            if status is JobStatus.FAILED:
                assert isinstance(chapter.error, NoCheckpointError), chapter.error
                # It is another job's that it was to start from, and that one has come to its end meanwhile.
                is_gone = how["job_id"] not in chapter.error.path
                assert is_gone or "before its first checkpoint" in str(chapter.error)
        if life.has_claimed:
            self._sizes[how["job_id"]] = sizes
        if life.has_claimed and how.get("claim") == "CLAIM":
            self._given.add(how["recover"])
        self._look_at_savepoints()
        self.files.check(gaps=not self.rolls)
        return status

    def _look_at_savepoints(self) -> None:
        complete = [str(path) for path in sorted(self.savepoints.iterdir()) if (path / "_metadata").exists()]
        for path in complete:
            self.untouched.setdefault(path, contents(Path(path)))
        for path in self._given:
            self.untouched.pop(path, None)
        for path, before in self.untouched.items():
            assert contents(Path(path)) == before, path

    def starts(self, job_id: str) -> list[dict[str, str]]:
        """Return all ways in which a job may be started now."""
        chains = read_chains(open_storage(str(self.checkpoints)))
        needed = {path for chain in chains if chain.job_id != job_id for path in chain.start()}
        found: list[dict[str, str]] = [{"recover": "latest"}, {}]
        for path in self.untouched:
            found.append({"recover": path, "claim": "NO_CLAIM"})
            if path not in needed:
                found.append({"recover": path, "claim": "CLAIM"})
        for chain in chains if self.rolls else ():
            for number, record in chain.entries.items():
                if record.kind is ChainEntryKind.CHECKPOINT:
                    path = str(self.checkpoints / chain.job_id / f"chk-{number}")
                    found.append({"recover": path, "claim": "NO_CLAIM"})
                    if chain.job_id == job_id:
                        found.append({"recover": path, "claim": "CLAIM"})
        return found

    def dispose_all(self) -> None:
        """Delete what belongs to the user."""
        for path in self.untouched:
            dispose(path, [str(self.checkpoints)])
        for chain in read_chains(open_storage(str(self.checkpoints))):
            begins = chain.newest.begins if chain.newest else 0
            # The records of starts stay: they tell whose the staged files are.
            checkpoints = (
                number for number, record in chain.entries.items() if record.kind is ChainEntryKind.CHECKPOINT
            )
            for number in (number for number in checkpoints if number < begins):
                shutil.rmtree(self.checkpoints / chain.job_id / f"chk-{number}", ignore_errors=True)

    def clean(self) -> None:
        """Remove what is said to be left over."""
        places = LeftoverPlaces(
            (str(self.checkpoints),), (str(self.savepoints),), (str(self.files.folder),), local=False
        )
        survey = find_leftovers(places, min_age_ms=0, now_ms=LATER_MS)
        removal = remove_leftovers(survey.leftovers)
        assert not removal.failed


def contents(directory: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def end(lives: Lives, job_id: str, drained: frozenset[str] | set[str] = frozenset()) -> None:
    """Run all jobs to their ends, that of the line last, clean up, and compare what is there with the truth.

    Args:
        lives: The jobs.
        job_id: The job that has the line.
        drained: The jobs that may have been drained.
    """
    stuck = set[str]()  # without a checkpoint to go on from
    for last in (*(other for other in JOBS if other != job_id), job_id):
        for _ in range(2):  # the first one may only bring a stop to its end
            status = lives.run([2, 1, 2], {}, None, job_id=last, recover="latest")
        if status is JobStatus.FAILED:
            stuck.add(last)
    lives.files.turn_to(job_id)
    complete = job_id not in drained and status is not JobStatus.FAILED
    lives.files.check(complete=complete)
    assert not complete or set(lives.seen) == set(range(SPLITS * LENGTH))
    lives.dispose_all()
    lives.clean()
    # What such a job, or the one before it under its id, has left could still be needed: somebody has to say that
    # it has ended.
    jobs = lives.checkpoints.glob("?" * 32)
    files = [file for job in jobs for file in job.rglob("*") if file.is_file() and file.name != "_metadata"]
    left = [str(file) for file in (*files, *lives.files.staged())]
    assert not [path for path in left if not any(job in path for job in stuck)]


SIZES = st.lists(st.integers(1, 3), min_size=3, max_size=3)
CRASHES = st.none() | st.integers(1, 100)


@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data(), rolls=st.booleans())
def test_lives_of_jobs_leave_the_truth_and_nothing_else(data: st.DataObject, rolls: bool) -> None:
    place = Path(tempfile.mkdtemp(prefix="penstock-lives-"))
    try:
        lives = Lives(place, rolls=rolls)
        job_id, drained = JOBS[0], set[str]()
        for _ in range(data.draw(st.integers(1, 5))):
            job_id = data.draw(st.sampled_from(JOBS))
            start = data.draw(st.sampled_from(lives.starts(job_id)))
            asks, crash_at = data.draw(ASKS), data.draw(CRASHES)
            note(f"{job_id[0]} from {start}, asked {asks}, killed at {crash_at}")
            retained = str(data.draw(st.integers(1, 3)))
            status = lives.run(data.draw(SIZES), asks, crash_at, job_id=job_id, retained=retained, **start)
            note(f"ended: {status}")
            if StopMode.DRAIN in asks.values():
                drained.add(job_id)
            CLOCK.advance(data.draw(st.sampled_from([0, 10_000_000])))
            if data.draw(st.booleans()):
                lives.clean()
        end(lives, job_id, drained)
    finally:
        shutil.rmtree(place)


def test_what_a_former_start_knew_of_the_commits_of_a_checkpoint_keeps_no_staged_file() -> None:
    job_id, were_outstanding = JOBS[0], 0
    for crash_at in (30, 45):
        place = Path(tempfile.mkdtemp(prefix="penstock-lives-"))
        try:
            lives = Lives(place, rolls=True)
            lives.run([1, 2, 1], {}, 100, job_id=job_id, retained="2", recover="latest")
            newest = max(int(path.name[4:]) for path in (lives.checkpoints / job_id).glob("chk-*"))
            path = str(lives.checkpoints / job_id / f"chk-{newest}")
            lives.run([3, 2, 1], {}, crash_at, job_id=job_id, retained="3", recover=path, claim="NO_CLAIM")
            [chain] = read_chains(open_storage(str(lives.checkpoints)))
            known = [entry.commits for entry in chain.entries.values() if entry.kind is ChainEntryKind.TAKEOVER]
            were_outstanding += sum(commits is not None and bool(commits.outstanding) for commits in known)
            end(lives, job_id)
        finally:
            shutil.rmtree(place)
    assert were_outstanding
