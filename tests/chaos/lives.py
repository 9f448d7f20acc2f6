"""The lives of random jobs: lived in this process, chapter by chapter, and compared with the model at the end.

Calm chapters follow those that were drawn, until the job has come to its end. Lives that need real processes, a Spark
or servers have a place beside `Life`: whatever runs a drawn job and its chapters, and leaves what its sinks hold to
`truth.check`.
"""

from __future__ import annotations

import itertools
import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.chaos.chapters import AT_REQUESTS, AT_STEPS, STOPS, TASKS, Chapter, Trouble
from tests.chaos.programs import Program
from tests.chaos.store import Weather, stormy
from tests.chaos.truth import check
from tests.kit import exchange
from tests.kit.clock import CLOCK, measure_by_the_clock, wait
from tests.kit.stories import Story

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.life.start import DRAINED
from penstock._engine.operators.clocks import TaskClock
from penstock._engine.protocol.control import StopMode, TaskFailure
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.runtime.worker_cache import WorkerCache
from penstock._engine.savepoints.leftovers import find_leftovers, remove_leftovers
from penstock._engine.savepoints.survey import LeftoverPlaces, Survey
from penstock.common.job_status import JobStatus
from penstock.errors import (
    ChangedProgramError,
    EpochInfrastructureError,
    FencedError,
    FinishedOperatorError,
    InternalError,
    MixedChainError,
    MovedOperatorError,
    NoCheckpointError,
    PenstockError,
    RestoreError,
    UnclaimedStateError,
)
from penstock.testing.in_process import Chaos

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.chaos.jobs import Job
    from tests.kit.driving import Driven
    from tests.kit.stories import Chapter as Told

    from penstock._engine.driver.driver import JobDriver

JOB_ID = "c" * 32
BEGINNING_MS = 1_700_000_000_000
#: Later than all that was written.
LATER_MS = 1 << 50
#: No job takes more in one start, whatever goes wrong: else it is stuck.
MOST_EPOCHS, MOST_STEPS, MOST_CALM = 150, 10_000, 6

ASKS: dict[str, Callable[[JobDriver], object]] = {
    "checkpoint": lambda driver: driver.trigger_checkpoint(),
    "savepoint": lambda driver: driver.savepoint(None, StopMode.NO),
    "cancel": lambda driver: driver.cancel(),
}


class KilledError(BaseException):
    """Stands for SIGKILL."""


class StuckError(BaseException):
    """The job takes far more epochs or steps than it needs."""


# ------------------------------------------------------------------------------------------------------------- a life


class Life:
    """Lives the chapters of a job in a folder.

    Args:
        job: The job.
        chapters: Its chapters.
        place: For all files.
        seed: Of what tasks do.
    """

    def __init__(self, job: Job, chapters: tuple[Chapter, ...], place: Path, seed: int = 0) -> None:
        self.job, self.chapters, self.place = job, chapters, place
        self.story = Story(place, seed=seed, slots=1 + seed % 2)
        self.weather = Weather()
        #: The troubles that have happened.
        self.met: set[str] = set()
        #: What happened, line by line.
        self.tale: list[str] = []
        self.tees = any(chapter.has("drain") for chapter in chapters)
        #: The job has ended by a drain, perhaps before its sources had read all.
        self.is_drained = False
        #: A drain has fired windows and timers, and then the job went on, which a warning says.
        self.goes_on_drained = False
        #: The chapter whose program and parallelism the job's newest checkpoint has.
        self.shape: Chapter | None = None
        self.savepoint: str | None = None
        self.anew = False
        #: The job was ended by a driver that was killed before it had cleaned up.
        self.was_killed_last = False
        #: A start without "latest" leaves what a cancelled run before it has kept.
        self.keeps_checkpoints = self.leaves_run = False
        (place / "savepoints").mkdir(parents=True)
        (place / "checkpoints").mkdir()

    def live(self) -> None:
        """Live it to its end, and look whether all is as it has to be.

        Raises:
            AssertionError: It is not.
        """
        with surroundings(), stormy(self.weather):
            for chapter in self.chapters:
                if self.tell(chapter):
                    break
            else:
                calm = replace(self.shape or self.chapters[-1], troubles=(), start="latest", chaos=())
                for _ in range(MOST_CALM):
                    if self.tell(calm):
                        break
                else:
                    raise AssertionError(f"the job is not at its end after {MOST_CALM} calm starts")
        self.met |= self.weather.met
        check(self)

    def tell(self, chapter: Chapter) -> bool:
        """Live a chapter; tell whether the job was at its end already."""
        run = Run(self, chapter)
        told = run.run()
        self.weather.forecast([])
        CLOCK.advance(60_000)  # "latest" goes by time
        self.met |= run.met
        status = None if told is None else told.status
        self.tale.append(f"{chapter.sizes} {chapter.start}: {run.happened or 'nothing'}; {status and status.name}")
        if run.has_claimed:  # what comes next continues this run, whatever becomes of it
            self.shape, self.savepoint, self.anew = chapter, None, False
            self.was_killed_last = told is None
        if told is None:
            return False
        if status is JobStatus.FAILED:
            self.judge(run, told)
        self.anew = isinstance(told.error, NoCheckpointError)
        self.savepoint = run.saved()
        has_stopped = any(
            isinstance(step, do.PutChainEntry) and step.entry.kind is ChainEntryKind.SUSPENDED for step in told.steps
        )  # perhaps without an epoch, where an earlier start was to stop
        is_recorded = not any(
            isinstance(step, do.LogMessage) and "could not be recorded" in step.text for step in told.steps
        )
        self.keeps_checkpoints = status is JobStatus.CANCELED or self.anew or not is_recorded
        is_at_end = status is JobStatus.FINISHED and not has_stopped and is_recorded
        return is_at_end and (run.epochs == 0 or self.job.batch)

    @property
    def may_leave(self) -> bool:
        """Whether a driver could not clean up: `penstock clean` has to find what is left.

        One that was replaced may write files of state until it knows. A start with NO_CLAIM touches nothing of earlier
        runs, not even what a failed attempt at their last epoch has staged.
        """
        not_its_own = {"second driver", "start with NO_CLAIM"} & self.met
        return self.leaves_run or self.was_killed_last or bool(not_its_own) or self.weather.has_refused_deletions

    def judge(self, run: Run, told: Told) -> None:
        """Look whether an error is one that the chapter accounts for."""
        error, met = told.error, run.met | self.weather.met
        self.tale.append(f"  {type(error).__name__}: {error!s:.300}")
        if isinstance(error, FencedError) and "second driver" in met:
            return
        other = self.shape is not None and (
            self.shape.sizes != run.chapter.sizes or self.shape.changed != run.chapter.changed
        )
        is_refusal = isinstance(error, FinishedOperatorError | MixedChainError | ChangedProgramError) or (
            isinstance(error, RestoreError) and "Start it once as it was" in str(error)
        )
        is_of_ours = "'Tag'" in str(error) or "'Map'" in str(error)  # which joins and reduces have before them
        has_uids = self.job.uids and not is_of_ours
        is_moved = isinstance(error, MovedOperatorError | UnclaimedStateError) and not has_uids
        if other and (is_refusal or is_moved):
            calm = replace(run.chapter, sizes=self.shape.sizes, changed=self.shape.changed, troubles=())
            self.tell(calm)
            return
        by_chance = "mixtures" in dict(run.chapter.chaos) and "does not count" in str(error)  # ten times in a row
        if by_chance or is_of_a_cancel_without_checkpoint(error):
            return
        if isinstance(error, PenstockError) and not isinstance(error, InternalError) and self.weather.met:
            assert "AssertionError" not in str(error), error
            return
        raise AssertionError(f"the job failed: {error}") from error

    def left_over(self, abandoned_age_ms: int = LATER_MS) -> Survey:
        """Return what `penstock clean` would find, were it an hour later.

        Args:
            abandoned_age_ms: As long as that, batch jobs may still be resumed.
        """
        sinks = tuple(str(path) for path in sorted(self.place.glob("out-*")))
        checkpoints, savepoints = (str(self.place / "checkpoints"),), (str(self.place / "savepoints"),)
        places = LeftoverPlaces(checkpoints, savepoints, sinks, retained=self.leaves_run, local=False)
        return find_leftovers(places, min_age_ms=0, abandoned_age_ms=abandoned_age_ms, now_ms=LATER_MS)


def is_of_a_cancel_without_checkpoint(error: BaseException | None) -> bool:
    return isinstance(error, NoCheckpointError) and "before its first checkpoint" in str(error)


class Run:
    """One start of a job, step by step."""

    def __init__(self, life: Life, chapter: Chapter) -> None:
        self.life, self.chapter = life, chapter
        self.met: set[str] = set()
        self.happened: list[str] = []
        self.steps = self.epochs = self.dry = 0
        self.has_claimed = False
        self.driven: Driven = None  # type: ignore[assignment]
        self.stop: Any = None
        self.found: Any = None

    def run(self) -> Told | None:
        """Run it; None when it was killed."""
        life, chapter, story = self.life, self.chapter, self.life.story
        story.records, story.workers, story.hosts = chapter.records, chapter.workers, chapter.hosts
        story.chaos = Chaos(**dict(chapter.chaos))
        life.weather.forecast([trouble for trouble in chapter.troubles if trouble.kind in AT_REQUESTS])
        from_savepoint, shape = self.is_restored_from_savepoint, life.shape or chapter
        life.leaves_run |= life.keeps_checkpoints and (self.is_restored_from_savepoint or life.anew)
        program = Program(life.job, chapter.sizes, life.place, chapter.changed, life.tees)
        try:
            told = story.run(program, step=self.step, watch=self.begin, **self.settings())
        except KilledError:
            told = None
        except PenstockError as error:  # before there is a driver
            if not life.weather.met:
                raise
            self.happened.append(f"{type(error).__name__}: {error!s:.200}")
            told = None
        self.met |= {kind for kind, (name, _) in TASKS.items() if name in dict(chapter.chaos) and self.epochs > 3}
        self.met |= {f"start with {chapter.start}"} if from_savepoint and self.has_claimed else set()
        self.met |= {"rescale"} if shape.sizes != chapter.sizes and self.epochs else set()
        self.met |= {"changed program"} if shape.changed != chapter.changed and self.epochs else set()
        self.met |= {"small memory"} if chapter.memory == "1 b" and self.epochs > 1 else set()
        return told

    @property
    def is_restored_from_savepoint(self) -> bool:
        return self.chapter.start != "latest" and self.life.savepoint is not None

    def settings(self) -> dict[str, str]:
        job, chapter = self.life.job, self.chapter
        settings = {
            "job_id": JOB_ID,
            "first": "true",
            "interval": "1 s",
            "retained": str(chapter.retained),
            "restart": "fixed-delay",
            "attempts": str(chapter.restarts),
            "delay": "1 s",
            "penstock.state.memory": chapter.memory,
            "execution.sorted-inputs.memory": chapter.memory,
        }
        if self.is_restored_from_savepoint:
            settings |= {"recover": str(self.life.savepoint), "claim": chapter.start}
        elif not self.life.anew:
            settings["recover"] = "latest"
        if job.pipelined:
            settings |= exchange.SETTINGS
        if job.in_files:
            settings["inline"] = "0 b"
        if job.recovers:
            settings |= {
                "execution.batch.job-recovery.enabled": "true",
                "execution.batch.job-recovery.operator-coordinator-snapshot.min-pause": "0 ms",
                "job-event.store.write-buffer.size": "1",
            }
        return settings

    def begin(self, driven: Driven) -> None:
        self.driven = driven

    def step(self, instruction: do.Instruction, perform: Callable[[do.Instruction], None]) -> None:
        """Perform a step of the driver, with what happens before it."""
        self.steps += 1
        if isinstance(instruction, do.RunEpoch):
            self.epochs += 1
            self.drain_if_dry()
        if self.steps > MOST_STEPS or self.epochs > MOST_EPOCHS:
            raise StuckError
        for trouble in self.chapter.troubles:
            if trouble.kind in AT_STEPS and trouble.at == self.steps:
                self.happen(trouble)
        if isinstance(instruction, do.ReportFailure):
            self.account_for(instruction.cause)
        if isinstance(instruction, do.LogMessage) and instruction.text.endswith(DRAINED.partition("{}")[2]):
            self.life.goes_on_drained = True
        if self.found is not None and self.found[0] == self.steps:
            remove_leftovers(self.found[1])
        perform(instruction)
        if isinstance(instruction, do.PutChainEntry):
            self.has_claimed = True
            self.life.is_drained |= instruction.entry.kind is ChainEntryKind.DRAINED

    def account_for(self, cause: TaskFailure | Exception) -> None:
        """Look whether something has happened from which a failure may follow, of which a restart shows nothing."""
        is_of_task = isinstance(cause, TaskFailure)
        said = cause.error if is_of_task else f"{type(cause).__name__}: {cause}"
        is_ours = said.startswith("penstock.errors.") if is_of_task else isinstance(cause, PenstockError)
        chaos, is_met = dict(self.chapter.chaos), bool(self.life.weather.met)
        if isinstance(cause, EpochInfrastructureError):
            is_met |= "losses" in chaos
        elif "does not count" in said:
            is_met = "mixtures" in chaos
        else:
            is_met |= "second driver" in self.met
        is_met &= is_ours
        assert is_met, f"the job failed for nothing: {said}"

    def drain_if_dry(self) -> None:
        """End a job without an end once there is nothing more to read."""
        if not self.life.job.endless:
            return
        driver = self.driven.driver
        self.dry = 0 if self.epochs <= 2 or driver.progress.epoch_records else self.dry + 1
        if self.dry and self.dry % 8 == 0:  # one may fail
            driver.savepoint(None, StopMode.DRAIN)

    def happen(self, trouble: Trouble) -> None:
        """Let something happen."""
        kind, driver = trouble.kind, self.driven.driver
        if kind in {"savepoint", *STOPS} and not self.epochs:  # whoever asks then waits for the job's id
            return
        if kind in {"lost worker", "lost host"} and not self.epochs:  # they have nothing yet
            return
        self.happened.append(f"{kind} at step {trouble.at}")
        if kind != "second driver":
            self.met.add(kind)
        match kind:
            case "kill":
                raise KilledError
            case "lost worker" | "lost host":
                self.lose(trouble.size, whole_host=kind == "lost host")
            case "clock ahead" | "clock back":
                by_ms = (1_000, 30_000, 90_000, 86_400_000)[trouble.size % 4]
                CLOCK.jump(by_ms if kind == "clock ahead" else -by_ms)
            case "clean":
                survey = self.life.left_over()
                self.found = self.steps + trouble.size - 1, survey.leftovers
            case "second driver":
                self.take_over()
            case "checkpoint" | "savepoint" | "cancel":
                ASKS[kind](driver)
            case _:
                self.stop = kind, driver.savepoint(None, STOPS[kind])

    def lose(self, which: int, *, whole_host: bool) -> None:
        """Lose a worker with all that it keeps, or a host with its workers and its disk."""
        runner = self.driven.runner
        host = which % runner._hosts
        for number in range(host, len(runner.workers) if whole_host else host + 1, runner._hosts):
            runner.workers[number] = WorkerCache(TaskClock.by_hand(CLOCK.now_ms, CLOCK.passed_ms, wait))
        for path in self.life.place.glob(f"state-*/**/host-{host}") if whole_host else ():
            shutil.rmtree(path)

    def take_over(self) -> None:
        """Let another driver start the job, and come to its end or be killed; then this one goes on."""
        if not self.has_claimed:  # else it is this one that takes over
            return
        self.met.add("second driver")
        steps = Trouble("kill", 10 + 7 * self.epochs) if self.epochs % 2 else None
        chapter = replace(self.chapter, start="latest", troubles=(steps,) if steps else (), chaos=())
        self.life.shape, self.life.anew = chapter, False
        other = Run(self.life, chapter)
        told = other.run()
        if other.has_claimed:
            self.stop = None  # whose savepoint the other one has gone on from: a start from that repeats what it wrote
        self.happened.append(f"(the other one: {other.happened or (told and told.status.name)})")
        if told is None or is_of_a_cancel_without_checkpoint(told.error):
            return
        if told.status is JobStatus.FAILED:
            raise AssertionError(f"the second driver failed: {told.error}") from told.error

    def saved(self) -> str | None:
        """Return the savepoint that it was stopped into, or None."""
        if self.stop is None or not self.stop[1].done() or self.stop[1].exception() is not None:
            return None
        return None if self.stop[0] == "drain" else self.stop[1].result()


@contextmanager
def surroundings() -> Iterator[None]:
    """Let time and names be the same each time a life is lived."""
    made = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("secrets.token_hex", lambda size=32: f"{next(made):0{2 * size}x}")
        patch.setattr(CLOCK, "_passed_ms", BEGINNING_MS)
        patch.setattr(CLOCK, "_jumped_ms", 0)
        measure_by_the_clock(patch)
        yield
