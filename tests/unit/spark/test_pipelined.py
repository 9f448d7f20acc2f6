"""A pipelined plan whose slots are still taken."""

from __future__ import annotations

from typing import Any

import pytest

from penstock._engine.spark import pipelined
from penstock._engine.spark.pipelined import PipelinedPlan

TAKEN = "[CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT] it needs 4 concurrent task slots, but only 0 are currently free"


class Plan:
    """Stands for that of Spark.

    Args:
        refusals: What it says before it runs.
    """

    def __init__(self, *refusals: str) -> None:
        self.refusals = list(refusals)

    def clone(self) -> Plan:
        return self

    def executeCollectPublic(self) -> list[str]:
        if self.refusals:
            raise RuntimeError(self.refusals.pop(0))
        return ["row"]


def planned(plan: Plan) -> PipelinedPlan:
    made: Any = PipelinedPlan.__new__(PipelinedPlan)
    made._plan = plan
    return made


@pytest.fixture(autouse=True)
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelined, "_SLOTS_LOOK_S", 0.001)


def test_epoch_waits_for_slots_that_other_tasks_are_about_to_leave() -> None:
    assert planned(Plan(TAKEN, TAKEN))._rows() == ["row"]


def test_wait_for_slots_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelined, "_SLOTS_WAIT_S", 0.01)
    with pytest.raises(RuntimeError, match="INSUFFICIENT_SLOT"):
        planned(Plan(*[TAKEN] * 1_000))._rows()


def test_other_errors_are_not_waited_for() -> None:
    plan = Plan("Job aborted", TAKEN)
    with pytest.raises(RuntimeError, match="Job aborted"):
        planned(plan)._rows()
    assert plan.refusals == [TAKEN]
