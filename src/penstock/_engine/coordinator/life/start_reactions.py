"""The reactions of `JobStart`: which phase and event lead to which method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.life.start import JobStart
from penstock._engine.coordinator.phases import StartPhase
from penstock._engine.coordinator.reactions import ENTRY_ANSWERS, Rule, table_of
from penstock.errors import InternalError

if TYPE_CHECKING:
    from penstock._engine.coordinator.instructions import Instruction

#: The start of a job.
START: Final = (
    Rule(JobStart.jobs_listed, (ev.JobsListed,), frozenset({StartPhase.FINDING_JOB})),
    Rule(JobStart.mark_read, (ev.MarkRead,), frozenset({StartPhase.NAMING_JOB})),
    Rule(JobStart.entries_listed, (ev.ChainEntriesListed,), frozenset({StartPhase.LISTING})),
    Rule(JobStart.newest_read, (ev.ChainEntryRead,), frozenset({StartPhase.LOOKING})),
    Rule(JobStart.newest_failed, (ev.InstructionFailed,), frozenset({StartPhase.LOOKING})),
    Rule(JobStart.entry_read, (ev.ChainEntryRead,), frozenset({StartPhase.READING})),
    Rule(JobStart.job_events_found, (ev.JobEventsFound,), frozenset({StartPhase.LOOKING_FOR_EVENTS})),
    Rule(JobStart.later_checkpoint_found, (ev.LaterCheckpointFound,), frozenset({StartPhase.COMPARING})),
    Rule(JobStart.records_handed_over, (ev.RecordsHandedOver,), frozenset({StartPhase.HANDING_OVER})),
    Rule(JobStart.driver_found, (ev.DriverFound,), frozenset({StartPhase.LOOKING_FOR_DRIVER})),
    Rule(JobStart.takeover_answered, ENTRY_ANSWERS, frozenset({StartPhase.TAKING_OVER})),
    Rule(JobStart.takeover_verified, (ev.ChainEntriesListed,), frozenset({StartPhase.VERIFYING})),
    Rule(JobStart.start_recorded, (ev.StartRecorded,), frozenset({StartPhase.RECORDING_START})),
    Rule(JobStart.failed, (ev.InstructionFailed,), frozenset(StartPhase) - {StartPhase.LOOKING}),
)
_TABLE: Final = table_of(START)


def react(start: JobStart, event: ev.Event, now_ms: int) -> list[Instruction]:
    """Continue a start after the answer to an instruction.

    Raises:
        PenstockError: The job cannot start; the error says why.
    """
    reaction = _TABLE.get((start.phase, type(event)))
    if reaction is None:
        raise InternalError(f"A starting driver got {event} while {start.phase.name}.")
    start.now_ms = now_ms
    return reaction(start, event)
