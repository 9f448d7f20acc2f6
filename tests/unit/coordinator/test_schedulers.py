"""Which scheduler a job has: by its type, from a table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.coordinator.pure import NOW, RUN, TOPOLOGY, settings

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.epochs.epoch_scheduler import EpochScheduler
from penstock._engine.coordinator.epochs.reactions import EPOCHS
from penstock._engine.coordinator.job import JobCoordinator
from penstock._engine.coordinator.schedulers import SCHEDULERS, SchedulerFactory
from penstock._engine.graph.job_graph import JobType
from penstock.errors import UnsupportedOperationError

BATCH = replace(TOPOLOGY, graph=replace(TOPOLOGY.graph, job_type=JobType.BATCH))


class Stages(EpochScheduler):
    """Stands for a scheduler by stages."""


def test_a_type_of_jobs_without_a_scheduler_is_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match="a job of type BATCH"):
        JobCoordinator(BATCH, settings(), RUN, 2)


def test_a_scheduler_in_the_table_is_that_of_the_jobs_of_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCHEDULERS, JobType.BATCH, SchedulerFactory(Stages, EPOCHS))
    for topology, kind in ((BATCH, Stages), (TOPOLOGY, EpochScheduler)):
        coordinator = JobCoordinator(topology, settings(), RUN, 2)
        assert type(coordinator._scheduler) is kind
        coordinator.begin(NOW)
        coordinator.handle(ev.ChainEntriesListed(()), NOW)
        coordinator.validate()
