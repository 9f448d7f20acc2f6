"""The reactions of `StageScheduler`: which phase and event lead to which method."""

from __future__ import annotations

from typing import Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.phases import STOPPING, Phase
from penstock._engine.coordinator.reactions import TAKEN_OVER, Rule

_RUNS: Final = frozenset({Phase.EPOCH})
_RECONCILES: Final = frozenset({Phase.RECONCILING})

#: The progress of a job by stages.
STAGES: Final = (
    Rule("enumerators_called", (ev.EnumeratorsCalled,), frozenset({Phase.OPENING, Phase.SETTLING})),
    Rule("splits_assigned", (ev.SplitsAssigned,), TAKEN_OVER),
    Rule("stage_ended", (ev.EpochEnded,), _RUNS),
    Rule("events_claimed", (ev.JobEventsClaimed,), _RECONCILES),
    Rule("partitions_listed", (ev.PartitionsListed,), _RECONCILES),
    Rule("events_fenced", (ev.JobEventsFenced,), TAKEN_OVER),
    Rule("subtasks_finished", (ev.SubtasksFinished,), TAKEN_OVER),
    Rule("results_lost", (ev.ResultsLost,), _RUNS),
    Rule("enumerators_snapshotted", (ev.EnumeratorsSnapshotted,), frozenset({Phase.SETTLING})),
    Rule("stage_lost", (ev.EpochLost,), _RUNS),
    Rule("epoch_failed", (ev.EpochFailed,), _RUNS),
    Rule("epoch_abandoned", (ev.EpochEnded, ev.EpochLost, ev.EpochFailed, ev.ResultsLost), STOPPING),
    Rule("accumulators_merged", (ev.AccumulatorsMerged,), frozenset({Phase.SNAPSHOTTING}) | _RECONCILES),
)
