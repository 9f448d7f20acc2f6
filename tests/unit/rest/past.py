"""Runs that are over, in every way in which a run can be: what each leaves in a directory of archives."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.kit.driving import CrashError
from tests.kit.world import World, numbers_job

from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock._engine.rest.archiving import Archivist
from penstock.common.job_status import JobStatus
from penstock.errors import EpochInfrastructureError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.driver.loop import JobLoop

_names = itertools.count()


@dataclass(frozen=True)
class Past:
    """A run that is over."""

    name: str
    job_id: str
    run_id: str
    #: Its state by Flink's paths, and whether its driver is gone without having ended it.
    state: str
    is_lost: bool = False


class Runs:
    """Makes runs that end, one beside the other below a directory."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.archives = place / "archives"
        self.archives.mkdir()
        self._starts = itertools.count()
        self._ended = subprocess.Popen([sys.executable, "-c", ""])
        self._ended.wait()

    def run(
        self,
        name: str,
        at_epoch_2: Callable[[JobDriver], Any] | None = None,
        *,
        trouble: BaseException | None = None,
        directory: str | None = None,
        stop_at: Callable[[do.Instruction], bool] = lambda _: False,
        **settings: str,
    ) -> JobDriver:
        """Run a job; `stop_at` says where its driver is killed."""
        world = World(numbers_job(f"past-{next(_names)}"), patience=3)
        world.time_ms += 60_000 * next(self._starts)
        if trouble is not None:
            world.trouble[3] = trouble
        kept = str(self._place / (directory or name))
        defaults = {"interval": "1 s", "savepoints": f"{kept}-savepoints", "retention": "RETAIN_ON_CANCELLATION"}
        driver, loop = world.driver(kept, None, **(defaults | settings))
        driver.watch.view = _named(driver, name)
        archivist = Archivist(str(self.archives), {}, kept)
        driver.watch.on_named.append(archivist.job_named)
        driver.watch.on_end.append(archivist.job_ended)
        self._watch(driver, loop, at_epoch_2, stop_at)
        with contextlib.suppress(CrashError):
            driver.run(loop)
        return driver

    @staticmethod
    def _watch(
        driver: JobDriver,
        loop: JobLoop,
        at_epoch_2: Callable[[JobDriver], Any] | None,
        stop_at: Callable[[do.Instruction], bool],
    ) -> None:
        perform, epochs = loop.perform, itertools.count(1)

        def watched(instruction: do.Instruction) -> None:
            if stop_at(instruction):
                raise CrashError
            perform(instruction)
            if isinstance(instruction, do.RunEpoch) and next(epochs) == 2 and at_epoch_2 is not None:
                at_epoch_2(driver)

        loop.perform = watched  # type: ignore[method-assign]

    def bury(self, driver: JobDriver, host: str | None = None) -> None:
        """Let the note of a run name a process that has ended, or one on another host."""
        driver._clean_up.local_state.remove()  # its lock, which the end of a process gives back
        [note] = self.archives.glob(f".running/*-{driver.view.run_id}.json")
        known = json.loads(note.read_text()) | {"pid": self._ended.pid, "process": None}
        note.write_text(json.dumps(known if host is None else {**known, "host": host}))


def _named(driver: JobDriver, name: str) -> Any:
    return replace(driver.watch.view, name=name)


class _At:
    """Tells where to kill: when so many instructions of a kind have come."""

    def __init__(self, kind: type[do.Instruction], number: int) -> None:
        self._kind, self._left = kind, number

    def __call__(self, instruction: do.Instruction) -> bool:
        self._left -= isinstance(instruction, self._kind)
        return self._left <= 0


def past_of_all_kinds(place: Path) -> tuple[Path, list[Past]]:
    """Return a directory of archives with a run of each kind, and what is true of them."""
    runs = Runs(place)
    made: list[Past] = []

    def over(driver: JobDriver, state: str, **more: bool) -> None:
        view = driver.view
        made.append(Past(view.name, view.job_id, view.run_id, state, **more))

    over(runs.run("finished"), "FINISHED")
    over(runs.run("stopped", lambda job: job.savepoint(None, StopMode.SUSPEND)), "FINISHED")
    over(runs.run("drained", lambda job: job.savepoint(None, StopMode.DRAIN)), "FINISHED")
    over(runs.run("cancelled", lambda job: job.cancel()), "CANCELED")
    over(runs.run("cancelled with a savepoint", lambda job: job.cancel_with_savepoint(None)), "CANCELED")
    over(runs.run("failed", trouble=ValueError("for good"), restart="none"), "FAILED")
    over(runs.run("lost an executor's host", trouble=EpochInfrastructureError("a host is gone")), "FINISHED")
    winners: list[JobDriver] = []
    share = partial(runs.run, directory="shared", recover="latest")
    over(share("taken over", lambda _: winners.append(share("took over"))), "SUSPENDED")
    over(winners[0], "FINISHED")
    broken = runs.run("killed and resumed", stop_at=_At(do.RunEpoch, 4), directory="resumed", recover="latest")
    runs.bury(broken)
    over(broken, "SUSPENDED", is_lost=True)
    over(runs.run("resumed", directory="resumed", recover="latest"), "FINISHED")
    killed = runs.run("killed", stop_at=_At(do.RunEpoch, 4))
    runs.bury(killed)
    over(killed, "SUSPENDED", is_lost=True)
    early = runs.run("killed before its first checkpoint", stop_at=_At(do.RunEpoch, 1))
    runs.bury(early)
    over(early, "SUSPENDED", is_lost=True)
    silent = runs.run("killed with its host", stop_at=_At(do.RunEpoch, 4))
    runs.bury(silent, "another-host")
    over(silent, "SUSPENDED", is_lost=True)
    late = runs.run("killed behind its last record", stop_at=_At(do.EndDriver, 1))
    runs.bury(late)
    over(late, "FINISHED")
    assert killed.view.status is JobStatus.RUNNING
    return runs.archives, made
