"""The reactions of `StageScheduler`: which phase and event lead to which method."""

from __future__ import annotations

from typing import Final

from penstock._engine.coordinator import alarms
from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.life.reactions import driver_failed
from penstock._engine.coordinator.phases import STOPPING, Phase
from penstock._engine.coordinator.reactions import TAKEN_OVER, Rule
from penstock._engine.coordinator.stages.stage_scheduler import StageScheduler

_RUNS: Final = frozenset({Phase.EPOCH})
_RECONCILES: Final = frozenset({Phase.RECONCILING})

#: The progress of a job by stages.
STAGES: Final = (
    Rule(
        StageScheduler.enumerators_called, (ev.EnumeratorsCalled,), frozenset({Phase.OPENING, Phase.NOTIFYING_SOURCES})
    ),
    Rule(StageScheduler.splits_assigned, (ev.SplitsAssigned,), TAKEN_OVER),
    Rule(StageScheduler.trigger_now, (alarms.PauseOver,), TAKEN_OVER),
    Rule(StageScheduler.partitions_look_due, (alarms.PartitionsLookDue,), TAKEN_OVER),
    Rule(StageScheduler.stage_ended, (ev.EpochEnded,), _RUNS),
    Rule(StageScheduler.events_claimed, (ev.JobEventsClaimed,), _RECONCILES),
    Rule(StageScheduler.partitions_listed, (ev.PartitionsListed,), _RECONCILES),
    Rule(driver_failed, (ev.JobEventsFenced,), TAKEN_OVER),  # the job is another driver's
    Rule(StageScheduler.subtasks_finished, (ev.SubtasksFinished,), TAKEN_OVER),
    Rule(StageScheduler.results_lost, (ev.ResultsLost,), _RUNS),
    Rule(StageScheduler.enumerators_snapshotted, (ev.EnumeratorsSnapshotted,), frozenset({Phase.NOTIFYING_SOURCES})),
    Rule(StageScheduler.stage_lost, (ev.EpochLost,), _RUNS),
    Rule(StageScheduler.epoch_failed, (ev.EpochFailed,), _RUNS),
    Rule(StageScheduler.epoch_abandoned, (ev.EpochEnded, ev.EpochLost, ev.EpochFailed, ev.ResultsLost), STOPPING),
    Rule(StageScheduler.accumulators_merged, (ev.AccumulatorsMerged,), frozenset({Phase.SNAPSHOTTING}) | _RECONCILES),
)
