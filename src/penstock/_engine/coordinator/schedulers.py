"""The schedulers by type of job: a stream runs epochs, a batch job runs stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.epochs.epoch_scheduler import EpochScheduler
from penstock._engine.coordinator.epochs.reactions import EPOCHS
from penstock._engine.coordinator.stages.reactions import STAGES
from penstock._engine.coordinator.stages.stage_scheduler import StageScheduler
from penstock._engine.graph.job_graph import JobType

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.coordinator.phases import Phase
    from penstock._engine.coordinator.reactions import Rule
    from penstock._engine.coordinator.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class SchedulerFactory:
    """How jobs of one type make progress: the class of their scheduler, and the events that it handles."""

    #: Makes the scheduler; takes the arguments of `EpochScheduler`.
    make: Callable[..., Scheduler]
    rules: tuple[Rule[Phase], ...]
    #: Why requests for checkpoints and savepoints are refused, as a text that follows the job's id; "" if they are
    #: accepted.
    refusal: str = ""


SCHEDULERS: Final[dict[JobType, SchedulerFactory]] = {
    JobType.STREAMING: SchedulerFactory(EpochScheduler, EPOCHS),
    JobType.BATCH: SchedulerFactory(
        StageScheduler, STAGES, "is not a streaming job: a batch job commits once, at its end, and has no savepoints"
    ),
}
