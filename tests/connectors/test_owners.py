"""Who may delete what: each cell of the table in docs/restoring.md, seen on whole jobs and commands.

In each experiment one job, the original, stands still in the middle of its work, and another has been cancelled and
has left a checkpoint, a savepoint and unfinished files. Then an actor does its work beside them. What is deleted
meanwhile is told by what was there before and after each of the steps.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import suppress
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.connectors.test_two_jobs import NUMBERS, Counted, _remainder, truth
from tests.kit.clock import Threads
from tests.kit.driving import CrashError, Driven, Epochs
from tests.kit.frames import frame_of
from tests.kit.program import Program

from penstock._connectors.files.staging import segment_name, sink_name
from penstock._engine.caches.place import CACHES, cache_directory
from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.epochs import execution as epochs
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.protocol.metadata_document import decode_chain_entry
from penstock._engine.protocol.paths import MARK, START_ORDER, shared_path
from penstock._engine.runtime import subtask_state
from penstock._engine.savepoints.disposal import dispose
from penstock._engine.savepoints.leftovers import find_leftovers, remove_leftovers
from penstock._engine.savepoints.survey import LeftoverPlaces
from penstock.common import Encoder, WatermarkStrategy
from penstock.common.job_status import JobStatus
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.datastream import DataStream

DOCUMENT = Path(__file__).parents[2] / "docs" / "restoring.md"
DAY_MS = 86_400_000


# ------------------------------------------------------------------------------------------------------------ the table


def table() -> dict[tuple[str, str], str]:
    """Return the cells of the document's table, by thing and actor."""
    _, _, behind = DOCUMENT.read_text(encoding="utf-8").partition("## Who may delete what")
    begins = dropwhile(lambda line: not line.startswith("|"), behind.splitlines())
    lines = takewhile(lambda line: line.startswith("|"), begins)
    actors, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {(row[0], actor): cell for row in rows for actor, cell in zip(actors[1:], row[1:], strict=True)}


# ---------------------------------------------------------------------------------------------------------- the things


def kind_of(place: Path, path: Path) -> str | None:
    """Return the row of the table that a file belongs to; None for what is no thing of a job's, such as locks."""
    found: str | None = None
    match path.relative_to(place).parts:
        case ("checkpoints", name, *_) if name in {MARK, START_ORDER}:
            found = "the mark, and the start order"
        case ("checkpoints", _, "shared", name):
            found = "undelivered output" if name.endswith(".out") else "state files"
        case ("checkpoints", ".caches", *_, name) if name != "lock":
            found = "cached streams"
        case ("checkpoints", _, "frames", *_):
            found = "data frames"
        case ("checkpoints", _, "blobs", *_):
            found = "programs"
        case ("checkpoints", _, _, "_metadata"):
            found = record_kind(path)
        case ("savepoints", *_):
            found = "savepoints"
        case (folder, *_, name) if folder.startswith("out"):
            kinds = {".staged": "staged files", ".runs": "a file sink's note"}
            found = kinds.get(Path(name).suffix, "published files")
        case ("tmp", _, "state", *_):
            found = "local state"
        case _:
            pass
    return found


def record_kind(path: Path) -> str | None:
    try:
        kind = decode_chain_entry(path.read_bytes(), "").kind
    except FileNotFoundError:
        return None
    return "checkpoints" if kind is ChainEntryKind.CHECKPOINT else "takeover and terminal entries"


class Watch:
    """Notes which files are there, and in which steps they go."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.kinds: dict[Path, str] = {}
        self.gone: dict[Path, str] = {}
        self.look("")
        self.before = set(self.kinds)

    def look(self, step: str) -> None:
        here: set[Path] = set()
        for folder, _, names in os.walk(self.place):
            here.update(Path(folder, name) for name in names)
        for path in here - self.kinds.keys():
            kind = kind_of(self.place, path)
            if kind is not None and ".tmp-" not in path.name:
                self.kinds[path] = kind
        for path in self.kinds.keys() - here - self.gone.keys():
            self.gone[path] = step

    def deleted(self, kind: str, *, own: bool, steps: frozenset[str] | None = None) -> set[str]:
        """Return what is gone of a kind: of what there was before, or of what has come since."""
        return {
            str(path.relative_to(self.place))
            for path, step in self.gone.items()
            if self.kinds[path] == kind and (path not in self.before) is own and (steps is None or step in steps)
        }


# ------------------------------------------------------------------------------------------------------------- the jobs


class Steps(Threads):
    """Threads that tell a watch which instruction the work is for."""

    def __init__(self, watch: Watch | None) -> None:
        super().__init__()
        self.watch, self.step = watch, ""

    def run(self, work: Any) -> None:
        step = self.step

        def watched() -> None:
            work()
            if self.watch is not None:
                self.watch.look(step)

        super().run(watched)

    run_epoch = run


class Job:
    """One run of the program."""

    def __init__(
        self,
        place: Path,
        name: str,
        *,
        out: str = "out",
        watch: Watch | None = None,
        at: Callable[[do.Instruction, Job], None] | None = None,
        **settings: str,
    ) -> None:
        program = Program(
            place,
            checkpoints=str(place / "checkpoints"),
            savepoints=str(place / "savepoints"),
            **{"interval": "10 ms", "inline": "0 b", "restart": "none", **settings},
        )
        happened = place / f"events {name}"
        happened.mkdir(exist_ok=True)
        numbers = program.source(NUMBERS, events=happened).uid("numbers")
        counted: DataStream[Any] = numbers.key_by(_remainder).process(Counted(name)).uid("counted")  # pyright: ignore[reportUnknownVariableType]
        sink = FileSink.for_row_format(str(place / out), Encoder.simple_string_encoder())
        counted.sink_to(sink.with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=100)).build()).uid(
            "sink"
        )
        program.collect(numbers, "collected", uid="collected")
        frame = program.env.from_source(frame_of([[{"n": 1}], [{"n": 2}]]), WatermarkStrategy.no_watermarks(), "frame")
        program.collect(frame.uid("frame"), "rows", uid="rows")
        self.threads = Steps(watch)
        state = place / "tmp" / f"penstock-{os.geteuid()}" / "state"
        driven = Driven(program.env, state, Epochs(4, passed=None, sleep=None), self.threads, name=name)
        self.driver, self.loop, self._perform = driven.driver, driven.loop, driven.perform
        self.counts: dict[type[Any], int] = defaultdict(int)
        self._watch, self._at = watch, at
        self.loop._handlers[do.DeliverOutputs] = lambda _: ev.OutputsDelivered()
        driven.perform = self._watched

    def _watched(self, instruction: do.Instruction) -> None:
        self.counts[type(instruction)] += 1
        if self._at is not None:
            self._at(instruction, self)
        self.threads.step = type(instruction).__name__
        self._perform(instruction)
        if self._watch is not None:
            self._watch.look(type(instruction).__name__)

    def run(self) -> Job:
        with suppress(CrashError):
            self.driver.run(self.loop)
        if self._watch is not None:
            self._watch.look("EndDriver")
        return self

    @property
    def run_id(self) -> str:
        return self.loop.coordinator.chain.identity.run_id


def cancel_at(epoch: int, *, savepoint_at: int = 0) -> Callable[[do.Instruction, Job], None]:
    def at(instruction: do.Instruction, job: Job) -> None:
        if isinstance(instruction, do.RunEpoch) and job.counts[do.RunEpoch] == savepoint_at:
            job.driver.savepoint(None, StopMode.NO)
        if isinstance(instruction, do.RunEpoch) and job.counts[do.RunEpoch] == epoch:
            job.driver.cancel()

    return at


class Original:
    """A job that stands still where it has everything: results that are not handed over, and files on the way."""

    def __init__(self, place: Path) -> None:
        self._place, self._reached, self._go_on = place, threading.Event(), threading.Event()
        self.to_publish: list[bytes] = []
        self.job = Job(place, "original", at=self._at, retained="9")
        self._thread = threading.Thread(target=self.job.run, daemon=True)
        self._thread.start()
        assert self._reached.wait(60)

    def _at(self, instruction: do.Instruction, job: Job) -> None:
        if isinstance(instruction, do.RunEpoch) and job.counts[do.RunEpoch] == 2:
            job.driver.savepoint(None, StopMode.NO)
        waits = (
            isinstance(instruction, do.DeliverOutputs)
            and job.counts[do.DeliverOutputs] >= 4
            and not self._reached.is_set()
        )
        if waits and self._has_a_part_to_publish():
            self._reached.set()
            assert self._go_on.wait(120)

    def checkpoint(self, place: Path) -> str:
        return str(
            max((place / "checkpoints" / self.job.driver.job_id).glob("chk-*"), key=lambda path: int(path.name[4:]))
        )

    def _has_a_part_to_publish(self) -> bool:
        """Tell whether the newest checkpoint names a finished part that is not published."""
        record = decode_chain_entry(Path(self.checkpoint(self._place), "_metadata").read_bytes(), "")
        assert record.snapshot is not None
        self.to_publish = [part.payload for commit in record.snapshot.outstanding for part in commit.committables]
        return any(b"FinishedPart" in part for part in self.to_publish)

    def finish(self) -> None:
        self._go_on.set()
        self._thread.join(120)


class Experiment:
    """The world of one actor: what it has deleted, of its own and of others."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.original = Original(place)
        self.cancelled = Job(place, "cancelled", at=cancel_at(6, savepoint_at=3)).run()
        assert self.cancelled.driver.checkpoint is not None
        [self.savepoint] = (place / "savepoints").glob(f"savepoint-{self.cancelled.driver.job_id[:6]}-*")
        self.leftovers = self._leave(self.cancelled) | self._leave(self.original.job)
        #: What a program keeps that lives, and what one that is dead has left.
        self.kept = cache_directory(str(place / "checkpoints"), {})
        self.kept.storage.put("writing/0", b"kept")
        self.dead = place / "checkpoints" / CACHES / f"{Path(self.kept.storage.full_path('')).name}dead"
        self.dead.mkdir()
        (self.dead / "lock").touch()
        (self.dead / "0").write_text("left")
        self.watch = Watch(place)
        #: The steps that count; all of them where none are named.
        self.steps: frozenset[str] | None = None
        #: What of others the actor was told to take.
        self.taken: set[str] = set()

    def _leave(self, job: Job) -> set[Path]:
        """Leave what attempts leave that were killed: a state file, results and a staged file."""
        job_id = job.driver.job_id
        files = [
            self.place / "checkpoints" / shared_path(job_id, "counted", 0, 2, 7, suffix=end) for end in ("", ".out")
        ]
        name = segment_name(
            "0", 0, job_id=job_id, run_id=job.run_id, sink=sink_name("sink"), checkpoint_id=2, token="0"
        )
        files.append(self.place / "out" / name)
        for file in files:
            file.write_text("left over")
            os.utime(file, (0, 0))
        return set(files)

    def published_by_the_original(self) -> list[str]:
        """Let the original go on to its end, and return what it has published."""
        self.original.finish()
        assert self.original.job.driver.status is JobStatus.FINISHED, self.original.job.driver.result.exception()
        mine = {path for path, kind in self.watch.kinds.items() if kind == "published files"} - self.watch.before
        # Whichever of the two comes first publishes what the checkpoint lists: it is the original's as well.
        mine = {path for path in mine if not any(path.name.encode() in part for part in self.original.to_publish)}
        parts = [path for path in (self.place / "out").rglob("part-*") if path not in mine]
        lines = [line for path in parts for line in path.read_text().splitlines() if line.startswith("original ")]
        return sorted(lines)


# ----------------------------------------------------------------------------------------------------------- the actors


def job(it: Experiment) -> None:
    ended = Job(it.place, "actor", watch=it.watch).run()
    assert ended.driver.status is JobStatus.FINISHED, ended.driver.result.exception()


def retention(it: Experiment) -> None:
    for at_the_end in ("RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION"):
        settings = {"retention": at_the_end}
        Job(it.place, "actor", watch=it.watch, at=cancel_at(6, savepoint_at=3), **settings).run()
    it.steps = frozenset({"DeleteFiles"})


def sweep(it: Experiment) -> None:
    def crash(instruction: do.Instruction, job: Job) -> None:
        if isinstance(instruction, do.DeleteFiles) and instruction.leftovers.checkpoints:
            raise CrashError

    killed = Job(it.place, "actor", watch=it.watch, at=crash, recover="latest").run()
    it._leave(killed)
    it.watch.look("")
    settings = {"recover": "latest"}
    again = Job(it.place, "actor", watch=it.watch, at=cancel_at(4), **settings).run()
    assert again.driver.job_id == killed.driver.job_id
    it.steps = frozenset({"SweepLeftovers", "Commit"})


def copy(it: Experiment) -> None:
    for out, origin in (
        ("out", it.original.checkpoint(it.place)),
        ("out of the copy", str(it.cancelled.driver.checkpoint)),
    ):
        ended = Job(it.place, "actor", out=out, watch=it.watch, recover=origin).run()
        assert ended.driver.status is JobStatus.FINISHED, ended.driver.result.exception()


def claim(it: Experiment) -> None:
    checkpoint = Path(str(it.cancelled.driver.checkpoint))
    job_id = it.cancelled.driver.job_id
    for origin in (it.savepoint, checkpoint):
        it.taken |= {str(path.relative_to(it.place)) for path in origin.rglob("*") if path.is_file()}
        ended = Job(
            it.place,
            "actor",
            watch=it.watch,
            recover=str(origin),
            claim="CLAIM",
        ).run()
        assert ended.driver.status is JobStatus.FINISHED, ended.driver.result.exception()
    it.taken |= {f"checkpoints/{job_id}/shared/{path.name}" for path in (checkpoint.parent / "shared").iterdir()}
    it.taken |= {path for path in it.watch.deleted("state files", own=False) if job_id in path}


def clean(it: Experiment) -> None:
    again = Job(it.place, "cancelled", at=cancel_at(4), job_id=it.cancelled.driver.job_id).run()
    assert again.driver.job_id == it.cancelled.driver.job_id, "a run that did not go on from the one before"
    state = it.place / "tmp" / f"penstock-{os.geteuid()}" / "state" / ("d" * 32)
    state.mkdir()
    (state / "data.mdb").write_text("a driver that was killed has left it")
    blob = it.place / "checkpoints" / it.cancelled.driver.job_id / "blobs" / ("d" * 32)
    blob.parent.mkdir(exist_ok=True)
    blob.write_text("the same")
    it.watch.look("")
    it.watch.before |= it.watch.kinds.keys()
    places = LeftoverPlaces(
        (str(it.place / "checkpoints"),), (str(it.place / "savepoints"),), (str(it.place / "out"),), retained=True
    )
    survey = find_leftovers(places, now_ms=time.time_ns() // 1_000_000 + DAY_MS)
    assert not remove_leftovers(survey.leftovers).failed
    it.watch.look("clean")
    job_id = it.cancelled.driver.job_id
    ended = (path for path in it.watch.before if job_id in str(path) or "d" * 32 in str(path))
    it.taken = {str(path.relative_to(it.place)) for path in ended} | {str((it.dead / "0").relative_to(it.place))}


def disposal(it: Experiment) -> None:
    it.taken = {str(path.relative_to(it.place)) for path in it.savepoint.rglob("*") if path.is_file()}
    dispose(str(it.savepoint), [str(it.place / "checkpoints")])
    it.watch.look("dispose")


ACTORS: dict[str, Callable[[Experiment], None]] = {
    "a job at its end": job,
    "its retention": retention,
    "its sweeps": sweep,
    "a copy (`NO_CLAIM`)": copy,
    "a job that claims": claim,
    "`penstock clean`": clean,
    "a disposal": disposal,
}


@pytest.fixture(scope="module")
def experiments() -> Iterator[dict[str, Experiment]]:
    """Run each actor's experiment once."""
    done: dict[str, Experiment] = {}
    root, patch = Path(tempfile.mkdtemp()), pytest.MonkeyPatch()
    patch.setattr(epochs, "MAX_INLINE_PROGRAM", 0)
    patch.setattr(subtask_state, "_INLINE_OUTPUT_BYTES", 0)

    for actor, act in ACTORS.items():
        place = root / str(len(done))
        (place / "tmp").mkdir(parents=True)
        patch.setattr(tempfile, "tempdir", str(place / "tmp"))
        (place / "checkpoints").mkdir()
        (place / "checkpoints" / MARK).write_text(f"{'ab' * 16}\n")
        done[actor] = Experiment(place)
        act(done[actor])
    yield done
    patch.undo()
    for it in done.values():
        it.original.finish()
        it.kept.remove()
    shutil.rmtree(root)


CELLS = table()


def test_table_has_a_column_for_each_actor() -> None:
    assert {actor for _, actor in CELLS} == set(ACTORS)


@pytest.mark.parametrize(("thing", "actor"), CELLS, ids=[f"{thing}-{actor}" for thing, actor in CELLS])
def test_actor_deletes_what_the_table_says_and_nothing_else(
    experiments: dict[str, Experiment], thing: str, actor: str
) -> None:
    it, says = experiments[actor], CELLS[thing, actor]
    assert thing in it.watch.kinds.values(), "there is such a thing in the experiment"
    others, own = (it.watch.deleted(thing, own=own, steps=it.steps) for own in (False, True))
    match says:
        case "never":
            assert (others, own) == (set(), set())
        case "own":
            assert (others, bool(own)) == (set(), True)
        case "claimed":
            assert others
            assert others <= it.taken
        case "ended" | "named":
            assert others
            assert others <= it.taken
            assert own == set()
        case _:
            pytest.fail(f"the table says {says!r}")


@pytest.mark.parametrize("actor", ACTORS)
def test_original_loses_nothing_by_what_is_done_beside_it(experiments: dict[str, Experiment], actor: str) -> None:
    assert experiments[actor].published_by_the_original() == truth("original")
