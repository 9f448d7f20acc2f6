"""The reactions of `EpochScheduler`: which phase and event lead to which method."""

from __future__ import annotations

from typing import Final

from penstock._engine.coordinator import alarms
from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.epochs.epoch_scheduler import EpochScheduler
from penstock._engine.coordinator.phases import STOPPING, Phase
from penstock._engine.coordinator.reactions import TAKEN_OVER, Rule

_OVER: Final = (ev.EpochEnded, ev.EpochLost, ev.EpochFailed)
_RUNS: Final = frozenset({Phase.EPOCH, Phase.RELEASING})

#: The progress of a job by epochs.
EPOCHS: Final = (
    Rule(
        EpochScheduler.enumerators_called,
        (ev.EnumeratorsCalled,),
        frozenset({Phase.OPENING, Phase.NOTIFYING_SOURCES, Phase.NOTIFYING}),
    ),
    Rule(EpochScheduler.splits_assigned, (ev.SplitsAssigned,), TAKEN_OVER),
    Rule(EpochScheduler.observed, (ev.EpochObserved,), TAKEN_OVER),
    Rule(EpochScheduler.look_due, (alarms.EpochLookDue,), TAKEN_OVER),
    Rule(EpochScheduler.trigger_now, (alarms.PauseOver,), TAKEN_OVER),
    Rule(EpochScheduler.epoch_ended, (ev.EpochEnded,), _RUNS),
    Rule(EpochScheduler.epoch_lost, (ev.EpochLost,), _RUNS),
    Rule(EpochScheduler.epoch_failed, (ev.EpochFailed,), _RUNS),
    Rule(EpochScheduler.epoch_abandoned, _OVER, STOPPING),
    Rule(EpochScheduler.accumulators_merged, (ev.AccumulatorsMerged,), frozenset({Phase.SNAPSHOTTING})),
    Rule(EpochScheduler.enumerators_snapshotted, (ev.EnumeratorsSnapshotted,), frozenset({Phase.SNAPSHOTTING})),
    Rule(EpochScheduler.state_stored, (ev.StateStored,), frozenset({Phase.STORING})),
)
