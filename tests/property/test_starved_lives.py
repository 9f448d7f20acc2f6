"""Random lives of a job whose keyed state has next to no room: killed, stopped and started with other sizes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit import diaries
from tests.kit.clock import CLOCK
from tests.kit.diaries import Ending, Run
from tests.kit.driving import CrashError
from tests.property.starved_job import check, program

from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from pathlib import Path

#: `tests.chaos` draws more lives; the jobs here have states of all kinds side by side.
LIVES = 5
KEYS, ROUNDS = 24, 6
#: The parts of a job, one life after the other; the first has states and windows, see `starved_job`.
JOBS = ((), ("living", "timed", "trigger"), ("interval join", "async"), ("window join", "co-group"))
#: Starts after which a life is to come to its end.
MOST_STARTS = 6


@pytest.mark.parametrize("seed", range(LIVES))
def test_every_count_is_exact_after_a_life_with_kills_and_rescales(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    choose = random.Random(seed)
    monkeypatch.setattr(diaries, "PER_EPOCH", 12)
    place, out = tmp_path, tmp_path / "out"
    restore: str | None = None
    parts = JOBS[seed % len(JOBS)]
    for start in range(MOST_STARTS):
        CLOCK.set(CLOCK.now_ms() + 60_000)  # "latest" goes by time
        parallelism, memory = choose.randrange(1, 4), choose.choice(["1 b", "1 b", "3 kb", "1 mb"])

        def build(env: Any, parallelism: int = parallelism) -> None:
            program(env.set_parallelism(parallelism), out, KEYS, ROUNDS, parts)

        run = Run(build, place, monkeypatch, restore, {"penstock.state.memory": memory}, workers=choose.randrange(1, 3))
        what = choose.choice(["kill", "kill", "suspend", "cancel"]) if start < MOST_STARTS - 1 else "end"
        if what == "kill":
            last = choose.randrange(4, 60)
            run.watchers.append(lambda _, run=run, last=last: kill_at(run, last))
            try:
                run.to_its_end()
            except CrashError:
                restore = "latest"
                continue
        else:
            ending = {"suspend": Ending.SUSPEND, "cancel": Ending.CANCEL}.get(what, Ending.ENDS)
            run.to_its_end(ending, after=choose.randrange(0, 60))
        if run.driver.status is JobStatus.FINISHED and run.stopped is None:
            break
        restore = run.goes_on_from
    check(out, KEYS, ROUNDS, parts)


def kill_at(run: Run, step: int) -> None:
    if len(run.steps) == step:
        raise CrashError
