"""The table of reactions: the method of a job's coordinator that handles an event in a phase.

The rules of a job's start and of its life are here, those of its progress in its scheduler's package
(`epochs.reactions`). An event without a rule in the job's phase is a bug of Penstock, and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.phases import RUNNING, STOPPING, Phase, StartPhase
from penstock.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


PhaseT = TypeVar("PhaseT", bound=Enum)


@dataclass(frozen=True, slots=True)
class Rule(Generic[PhaseT]):
    """One reaction to some events in some phases."""

    #: The name of a method, which takes the event.
    reaction: str
    events: tuple[type[Any], ...]
    phases: frozenset[PhaseT]


#: The phases of a job that has not ended, and those after its takeover.
LIVE: Final = frozenset(Phase) - {Phase.ENDED}
TAKEN_OVER: Final = LIVE - {Phase.STARTING, Phase.CREATED}
#: The answers to calls (`CoordinatorContext.call`).
CALL_ANSWERS: Final = (
    ev.StateCopied,
    ev.StateStored,
    ev.EnumeratorsCalled,
    ev.EnumeratorsSnapshotted,
    ev.AccumulatorsMerged,
    ev.MergeFailed,
    ev.JobEventsClaimed,
    ev.PartitionsListed,
    ev.InstructionFailed,
)
_ENTRY_ANSWERS: Final = (ev.ChainEntryStored, ev.ChainEntryTaken, ev.ChainEntryUncertain)

#: The start of a job.
START: Final = (
    Rule("jobs_listed", (ev.JobsListed,), frozenset({StartPhase.FINDING_JOB})),
    Rule("mark_read", (ev.MarkRead,), frozenset({StartPhase.NAMING_JOB})),
    Rule("entries_listed", (ev.ChainEntriesListed,), frozenset({StartPhase.LISTING})),
    Rule("newest_read", (ev.ChainEntryRead,), frozenset({StartPhase.LOOKING})),
    Rule("newest_failed", (ev.InstructionFailed,), frozenset({StartPhase.LOOKING})),
    Rule("entry_read", (ev.ChainEntryRead,), frozenset({StartPhase.READING})),
    Rule("job_events_found", (ev.JobEventsFound,), frozenset({StartPhase.LOOKING_FOR_EVENTS})),
    Rule("later_checkpoint_found", (ev.LaterCheckpointFound,), frozenset({StartPhase.COMPARING})),
    Rule("records_handed_over", (ev.RecordsHandedOver,), frozenset({StartPhase.HANDING_OVER})),
    Rule("takeover_answered", _ENTRY_ANSWERS, frozenset({StartPhase.TAKING_OVER})),
    Rule("takeover_verified", (ev.ChainEntriesListed,), frozenset({StartPhase.VERIFYING})),
    Rule("start_recorded", (ev.StartRecorded,), frozenset({StartPhase.RECORDING_START})),
    Rule("failed", (ev.InstructionFailed,), frozenset(StartPhase) - {StartPhase.LOOKING}),
)

#: The life of a job.
LIFE: Final = (
    Rule(
        "start_answered",
        tuple(dict.fromkeys(event for rule in START for event in rule.events)),
        frozenset({Phase.STARTING}),
    ),
    Rule("state_copied", (ev.StateCopied,), frozenset({Phase.CREATED})),
    Rule("call_failed", (ev.InstructionFailed, ev.MergeFailed), RUNNING | {Phase.CREATED}),
    Rule("call_abandoned", CALL_ANSWERS, STOPPING),
    Rule("entry_answered", _ENTRY_ANSWERS, STOPPING | {Phase.RECORDING, Phase.RESUMING, Phase.CLOSING}),
    Rule("driver_failed", (ev.DriverFailed,), LIVE),
    Rule("cancel_requested", (ev.CancelRequested,), LIVE),
    Rule("checkpoint_requested", (ev.CheckpointRequested,), LIVE),
    Rule("savepoint_requested", (ev.SavepointRequested,), LIVE),
    Rule("savepoint_answered", (ev.SavepointWritten, ev.SavepointFailed), TAKEN_OVER),
    Rule("outputs_delivered", (ev.OutputsDelivered,), TAKEN_OVER),
    Rule("commit_answered", (ev.Committed, ev.CommitFailed), TAKEN_OVER),
    Rule("alarm_fired", (ev.AlarmFired,), TAKEN_OVER),
)


def table_of(*rules: Iterable[Rule[PhaseT]]) -> dict[tuple[PhaseT, type[Any]], str]:
    """Return the name of the reaction by phase and type of event.

    Raises:
        InternalError: Two rules are about the same event in the same phase.
    """
    table: dict[tuple[PhaseT, type[Any]], str] = {}
    for rule in (rule for group in rules for rule in group):
        for phase in rule.phases:
            for event in rule.events:
                if (phase, event) in table:
                    raise InternalError(f"{event.__name__} has two reactions in phase {phase.name}.")
                table[phase, event] = rule.reaction
    return table


def bound(rules: Iterable[Rule[Any]], target: object) -> dict[str, Callable[[Any], Any]]:
    """Return the reactions of an object, by name."""
    return {rule.reaction: getattr(target, rule.reaction) for rule in rules}
