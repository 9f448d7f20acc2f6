"""The table of phases and events."""

from __future__ import annotations

import typing
from typing import Any

import pytest
from tests.docs.reactions import BEGIN, DOCUMENT, END, table

from penstock._engine.coordinator import alarms
from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.epochs.epoch_scheduler import EpochScheduler
from penstock._engine.coordinator.epochs.reactions import EPOCHS
from penstock._engine.coordinator.instructions import ANSWERED
from penstock._engine.coordinator.job import TABLES
from penstock._engine.coordinator.life.reactions import LIFE
from penstock._engine.coordinator.phases import RUNNING, STOPPING, Phase
from penstock._engine.coordinator.reactions import TAKEN_OVER, Rule, table_of
from penstock._engine.graph.job_graph import JobType
from penstock.errors import InternalError

EVENTS = typing.get_args(ev.Event)
REACTIONS, BATCH = TABLES[JobType.STREAMING], TABLES[JobType.BATCH]


def test_each_event_has_a_reaction_in_some_phase_and_each_phase_but_the_last_one_some_event() -> None:
    every = REACTIONS.keys() | BATCH.keys()
    assert {event for _, event in every} == set(EVENTS)
    assert {phase for phase, _ in every} == set(Phase) - {Phase.ENDED}


@pytest.mark.parametrize(
    "phase", sorted(RUNNING | STOPPING, key=lambda phase: phase.value), ids=lambda phase: phase.name
)
def test_what_fails_has_a_reaction_in_each_phase_of_a_claimed_job(phase: Phase) -> None:
    for event in (
        ev.InstructionFailed,
        ev.DriverFailed,
        ev.CancelRequested,
        ev.Committed,
        ev.CommitFailed,
        ev.OutputsDelivered,
    ):
        assert (phase, event) in REACTIONS


def test_a_job_that_breaks_off_takes_the_answer_to_whatever_was_on_its_way() -> None:
    answers = set(EVENTS) - {
        ev.JobsListed,
        ev.MarkRead,
        ev.LaterCheckpointFound,
        ev.StartRecorded,
        ev.ChainEntriesListed,
        ev.ChainEntryRead,
        ev.DriverFound,
        ev.JobEventsFound,
        ev.RecordsHandedOver,
    }
    for phase in STOPPING:
        both = REACTIONS.keys() | BATCH.keys()
        assert {event for at, event in both if at is phase} == answers


@pytest.mark.parametrize(
    ("table", "of_the_other"), [(REACTIONS, alarms.PartitionsLookDue), (BATCH, alarms.EpochLookDue)]
)
def test_an_alarm_may_ring_in_whatever_phase_the_job_has_come_to_meanwhile(table: Any, of_the_other: type[Any]) -> None:
    rings = set(typing.get_args(alarms.Alarm)) - {of_the_other}
    assert {(phase, alarm) for phase in TAKEN_OVER for alarm in rings} <= table.keys()


def test_life_and_progress_share_no_reaction() -> None:
    assert not {rule.reaction for rule in LIFE} & {rule.reaction for rule in EPOCHS}
    assert ANSWERED  # each of them is answered by an event of the table


def test_two_rules_for_one_event_in_one_phase_are_refused() -> None:
    rule = Rule(EpochScheduler.observed, (ev.CancelRequested,), frozenset({Phase.EPOCH}))
    with pytest.raises(InternalError, match="CancelRequested has two reactions in phase EPOCH"):
        table_of(LIFE, [rule])


def test_the_table_in_the_docs_is_this_one() -> None:
    """`python -m tests.docs.reactions` writes it anew."""
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)] == table()
