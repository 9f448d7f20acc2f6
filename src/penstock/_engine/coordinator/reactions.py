"""What a table of reactions is made of: the function or method that handles an event in a phase.

The rules of a job's start stand in `life.start_reactions`, those of its life in `life.reactions`, those of its progress
in its scheduler's package (`epochs.reactions`, `stages.reactions`). An event without a rule in the job's phase is a bug
of Penstock, and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.phases import Phase
from penstock.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


PhaseT = TypeVar("PhaseT", bound=Enum)


@dataclass(frozen=True, slots=True)
class Rule(Generic[PhaseT]):
    """One reaction to some events in some phases."""

    #: Takes the start, the parts of the job or its scheduler, and the event.
    reaction: Callable[[Any, Any], Any]
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
#: The answers to a chain entry that was put.
ENTRY_ANSWERS: Final = (ev.ChainEntryStored, ev.ChainEntryTaken, ev.ChainEntryUncertain)


def table_of(*rules: Iterable[Rule[PhaseT]]) -> dict[tuple[PhaseT, type[Any]], Callable[[Any, Any], Any]]:
    """Return the reaction by phase and type of event.

    Raises:
        InternalError: Two rules are about the same event in the same phase.
    """
    table: dict[tuple[PhaseT, type[Any]], Callable[[Any, Any], Any]] = {}
    for rule in (rule for group in rules for rule in group):
        for phase in rule.phases:
            for event in rule.events:
                if (phase, event) in table:
                    raise InternalError(f"{event.__name__} has two reactions in phase {phase.name}.")
                table[phase, event] = rule.reaction
    return table
