"""The reactions of `StageScheduler`: which phase and event lead to which method."""

from __future__ import annotations

from typing import Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.phases import STOPPING, Phase
from penstock._engine.coordinator.reactions import TAKEN_OVER, Rule

_RUNS: Final = frozenset({Phase.EPOCH})

#: The progress of a job by stages.
STAGES: Final = (
    Rule("enumerators_called", (ev.EnumeratorsCalled,), frozenset({Phase.OPENING, Phase.SETTLING})),
    Rule("splits_assigned", (ev.SplitsAssigned,), TAKEN_OVER),
    Rule("stage_ended", (ev.EpochEnded,), _RUNS),
    Rule("stage_lost", (ev.EpochLost,), _RUNS),
    Rule("epoch_failed", (ev.EpochFailed,), _RUNS),
    Rule("epoch_abandoned", (ev.EpochEnded, ev.EpochLost, ev.EpochFailed), STOPPING),
    Rule("accumulators_merged", (ev.AccumulatorsMerged,), frozenset({Phase.SNAPSHOTTING})),
)
