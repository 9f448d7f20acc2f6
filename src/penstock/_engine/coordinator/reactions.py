"""What a job's coordinator does in which phase about which event: a table, and the making of it.

The rules of a job's life are here. Those of its progress are its scheduler's (`epochs.reactions`). An event that no
rule expects in the phase of the job is refused: something has gone wrong inside of Penstock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.phases import RUNNING, STOPPING, Phase
from penstock.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Rule:
    """In some phases, some events have one reaction."""

    #: The name of a method, which takes the event.
    reaction: str
    events: tuple[type[Any], ...]
    phases: frozenset[Phase]


#: By phase and type of event: the name of the reaction.
Table: TypeAlias = "Mapping[tuple[Phase, type[Any]], str]"

#: The phases of a job that has not ended, and of those that are behind its claim.
LIVE: Final = frozenset(Phase) - {Phase.ENDED}
TAKEN_OVER: Final = LIVE - {Phase.STARTING, Phase.CREATED}
#: The answers to calls (`Desk.call`).
CALL_ANSWERS: Final = (
    ev.StateCopied,
    ev.StateStored,
    ev.EnumeratorsCalled,
    ev.EnumeratorsSnapshotted,
    ev.AccumulatorsMerged,
    ev.MergeFailed,
    ev.InstructionFailed,
)
_RECORDS: Final = (ev.ChainEntryStored, ev.ChainEntryTaken, ev.ChainEntryUncertain)

#: The life of a job.
LIFE: Final = (
    Rule(
        "start_answered",
        (
            ev.JobsListed,
            ev.MarkRead,
            ev.LaterCheckpointFound,
            ev.StartRecorded,
            ev.ChainEntriesListed,
            ev.ChainEntryRead,
            *_RECORDS,
            ev.InstructionFailed,
        ),
        frozenset({Phase.STARTING}),
    ),
    Rule("state_copied", (ev.StateCopied,), frozenset({Phase.CREATED})),
    Rule("call_failed", (ev.InstructionFailed, ev.MergeFailed), RUNNING | {Phase.CREATED}),
    Rule("call_abandoned", CALL_ANSWERS, STOPPING),
    Rule("entry_answered", _RECORDS, STOPPING | {Phase.RECORDING, Phase.RESUMING, Phase.CLOSING}),
    Rule("driver_failed", (ev.DriverFailed,), LIVE),
    Rule("cancel_requested", (ev.CancelRequested,), LIVE),
    Rule("checkpoint_requested", (ev.CheckpointRequested,), LIVE),
    Rule("savepoint_requested", (ev.SavepointRequested,), LIVE),
    Rule("savepoint_answered", (ev.SavepointWritten, ev.SavepointFailed), TAKEN_OVER),
    Rule("outputs_delivered", (ev.OutputsDelivered,), TAKEN_OVER),
    Rule("commit_answered", (ev.Committed, ev.CommitFailed), TAKEN_OVER),
    Rule("alarm_fired", (ev.AlarmFired,), TAKEN_OVER),
)


def table_of(*rules: Iterable[Rule]) -> dict[tuple[Phase, type[Any]], str]:
    """Return the table of all rules.

    Raises:
        InternalError: Two of them are about the same event in the same phase.
    """
    table: dict[tuple[Phase, type[Any]], str] = {}
    for rule in (rule for group in rules for rule in group):
        for phase in rule.phases:
            for event in rule.events:
                if (phase, event) in table:
                    raise InternalError(f"{event.__name__} has two reactions in phase {phase.name}.")
                table[phase, event] = rule.reaction
    return table


def bound(rules: Iterable[Rule], target: object) -> dict[str, Callable[[Any], None]]:
    """Return the reactions of an object, by name."""
    return {rule.reaction: getattr(target, rule.reaction) for rule in rules}
