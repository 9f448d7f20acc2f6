"""Which scheduler a job has: by its type, from a table."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.coordinator.pure import NOW, PLAN, RUN, settings

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.epochs.epoch_scheduler import EpochScheduler
from penstock._engine.coordinator.job import TABLES, JobCoordinator
from penstock._engine.coordinator.stages.stage_scheduler import StageScheduler
from penstock._engine.graph.job_graph import JobType

BATCH = replace(PLAN, graph=replace(PLAN.graph, job_type=JobType.BATCH))


def test_a_scheduler_in_the_table_is_that_of_the_jobs_of_its_type() -> None:
    assert set(TABLES) == set(JobType)
    for plan, kind in ((BATCH, StageScheduler), (PLAN, EpochScheduler)):
        coordinator = JobCoordinator(plan, settings(), RUN)
        assert type(coordinator._parts.scheduler) is kind
        coordinator.begin(NOW)
        coordinator.handle(ev.ChainEntriesListed(()), NOW)
        coordinator.validate()
