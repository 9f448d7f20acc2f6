"""Which scheduler makes the progress of a job: one line for each type of job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.coordinator.epochs.epoch_scheduler import EpochScheduler
from penstock._engine.coordinator.epochs.reactions import EPOCHS
from penstock._engine.coordinator.reactions import LIFE, table_of
from penstock._engine.coordinator.stages.reactions import STAGES
from penstock._engine.coordinator.stages.stage_scheduler import StageScheduler
from penstock._engine.graph.job_graph import JobType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock._engine.coordinator.phases import Phase
    from penstock._engine.coordinator.reactions import Rule
    from penstock._engine.coordinator.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class SchedulerFactory:
    """A way to make progress: what makes its scheduler, and which events that takes."""

    #: Takes what `EpochScheduler` does.
    make: Callable[..., Scheduler]
    rules: Iterable[Rule[Phase]]
    #: Why it makes no checkpoints and savepoints on request: what follows the job's id; "" where it makes them.
    refusal: str = ""
    #: All reactions of a job that makes progress in this way: those of its life, too.
    reactions: Mapping[tuple[Phase, type[Any]], str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reactions", table_of(LIFE, self.rules))


SCHEDULERS: Final[dict[JobType, SchedulerFactory]] = {
    JobType.STREAMING: SchedulerFactory(EpochScheduler, EPOCHS),
    JobType.BATCH: SchedulerFactory(
        StageScheduler, STAGES, "is not a streaming job: a batch job commits once, at its end, and has no savepoints"
    ),
}
