"""The jobs that savepoints are made of: how far they are when they stop does not depend on the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.savepoints import jobs

from penstock._engine.operators.clocks import TaskClock
from penstock._engine.runtime import subtask
from penstock.testing import in_process

if TYPE_CHECKING:
    from pathlib import Path


class Passing:
    """Time that passes by this many milliseconds with each look at it."""

    def __init__(self, step_ms: float) -> None:
        self.now, self.step_ms = 0.0, step_ms

    def ms(self) -> float:
        self.now += self.step_ms
        return self.now

    def perf_counter(self) -> float:
        return self.ms() / 1000


@pytest.mark.parametrize("step_ms", [0.0, 1.0, 300.0])
def test_job_reads_as_much_on_any_machine_until_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_ms: float
) -> None:
    passing = Passing(step_ms)
    monkeypatch.setattr(in_process, "TaskClock", lambda: TaskClock(passed_ms=passing.ms))
    monkeypatch.setattr(subtask, "time", passing)
    env = jobs.environment(checkpoints=str(tmp_path / "checkpoints"))
    jobs.totals(env, 20_000)
    path = jobs.run(env, tmp_path, stop_in=3)[1]
    assert path is not None
    totals = [seen for seen in jobs.SEEN if isinstance(seen[0], tuple)]
    assert len(totals) == 3 * 2 * jobs.EPOCH_RECORDS
