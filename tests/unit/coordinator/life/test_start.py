"""The start of a job alone: which instructions follow from what its driver finds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.coordinator.pure import PLAN, RUN, Told, settings

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.chain import ChainWriter
from penstock._engine.coordinator.checkpoints.snapshots import fresh_snapshot
from penstock._engine.coordinator.life.start import JobStart
from penstock._engine.coordinator.life.start_reactions import react
from penstock._engine.coordinator.phases import Phase, StartPhase
from penstock._engine.protocol.metadata import ChainEntryKind, ParentCheckpoint
from penstock.errors import (
    CheckpointStorageError,
    CorruptCheckpointError,
    FencedError,
    InternalError,
    JobRunningError,
    NoCheckpointError,
    UndeliveredResultsError,
)

if TYPE_CHECKING:
    from penstock._engine.protocol.metadata import ChainEntry

OTHER = replace(RUN, run_id="c" * 32)
LATEST = {"execution_state__recovery_path": "latest", "execution_checkpointing_dir": "/c"}


class Start:
    def __init__(self, **keys: str) -> None:
        self.machine = JobStart(settings(**keys), RUN, PLAN.graph)
        self.first = self.machine.begin()

    def tell(self, *events: ev.Event) -> list[do.Instruction]:
        """Hand in events; return the instructions behind the last one."""
        told: list[do.Instruction] = []
        for event in events:
            told = react(self.machine, event, 1_000)
        return told


def record(number: int, kind: ChainEntryKind = ChainEntryKind.CHECKPOINT, job_id: str = "d" * 32) -> ChainEntry:
    snapshot = fresh_snapshot(PLAN.graph) if kind is ChainEntryKind.CHECKPOINT else None
    return ChainWriter(OTHER, job_id, "numbers", number).make(kind, 1, snapshot)


def test_a_fresh_start_has_an_id_of_its_own_and_claims_the_first_record() -> None:
    start = Start()
    assert start.first == [do.ListChainEntries("b" * 32)]
    [claim] = start.tell(ev.ChainEntriesListed(()))
    assert isinstance(claim, do.PutChainEntry)
    assert (claim.entry.kind, claim.entry.checkpoint_id, claim.entry.parent) == (ChainEntryKind.TAKEOVER, 1, None)
    assert start.tell(ev.ChainEntryStored()) == [do.ListChainEntries("b" * 32)]
    assert start.tell(ev.ChainEntriesListed((1,))) == [do.RecordStart("numbers", "b" * 32)]
    assert start.tell(ev.StartRecorded()) == []
    assert start.machine.phase is StartPhase.DONE


def test_latest_goes_on_with_the_newest_record_of_the_job_that_was_claimed_last() -> None:
    start = Start(**LATEST)
    assert start.first == [do.ListJobs("numbers")]
    assert start.tell(ev.JobsListed((), started_last="d" * 32)) == [do.ListChainEntries("d" * 32)]
    [read] = start.tell(ev.ChainEntriesListed((1, 2)))
    assert isinstance(read, do.ReadChainEntry)
    assert start.tell(ev.ChainEntryRead(record(2), read.path)) == [do.FindDriver("d" * 32)]
    [claim] = start.tell(ev.DriverFound(""))
    assert isinstance(claim, do.PutChainEntry)
    assert claim.entry.checkpoint_id == 3
    assert claim.entry.parent is not None
    assert claim.entry.parent.checkpoint_id == 2


def test_latest_without_a_job_of_the_name_takes_its_id_from_the_mark() -> None:
    start = Start(**LATEST)
    assert start.tell(ev.JobsListed(())) == [do.ReadMark("b" * 32)]
    [listing] = start.tell(ev.MarkRead("e" * 32))
    assert isinstance(listing, do.ListChainEntries)
    assert listing.job_id == start.machine.job_id


def test_a_job_that_has_finished_has_nothing_to_do() -> None:
    start = Start(**LATEST)
    finished = record(2, ChainEntryKind.FINISHED)
    assert (
        start.tell(
            ev.JobsListed((), started_last="d" * 32), ev.ChainEntriesListed((2,)), ev.ChainEntryRead(finished, "")
        )
        == []
    )
    assert start.machine.already_ended is finished
    assert start.machine.phase is StartPhase.DONE


def test_a_driver_whose_claim_comes_after_the_end_of_the_job_has_not_taken_it_over() -> None:
    finished = record(2, ChainEntryKind.FINISHED)
    listed, read = ev.ChainEntriesListed((1,)), ev.ChainEntryRead(record(1), "")
    late = Told(ev.JobsListed((), started_last="d" * 32), listed, read, ev.DriverFound(""), **LATEST)
    for event in (ev.ChainEntryTaken(finished), ev.ChainEntriesListed((1, 2)), ev.ChainEntryRead(finished, "")):
        late.tell(event)
    assert late.phase is Phase.ENDED
    assert not late.coordinator.has_taken_over
    assert late.coordinator.runs == finished.runs


def test_what_a_finished_job_has_collected_cannot_be_delivered_again() -> None:
    start = Start(**LATEST)
    start.machine._settings = replace(start.machine._settings, collects=True)
    start.tell(ev.JobsListed((), started_last="d" * 32), ev.ChainEntriesListed((1, 2)))
    with pytest.raises(UndeliveredResultsError, match=r"'numbers'.* has finished in an earlier run"):
        start.tell(ev.ChainEntryRead(record(2, ChainEntryKind.FINISHED), "d/chk-2/_metadata"))


def test_a_claim_that_another_driver_has_taken_starts_fresh() -> None:
    start = Start()
    start.tell(ev.ChainEntriesListed(()))
    assert start.tell(ev.ChainEntryTaken(record(1, ChainEntryKind.TAKEOVER))) == [do.ListChainEntries("b" * 32)]
    assert start.machine.phase is StartPhase.LISTING


def test_a_claim_whose_outcome_is_unknown_is_put_again_under_the_same_mark() -> None:
    start = Start()
    [first] = start.tell(ev.ChainEntriesListed(()))
    assert start.tell(ev.ChainEntryUncertain(OSError())) == [first]
    assert isinstance(first, do.PutChainEntry)
    assert start.tell(ev.ChainEntryTaken(first.entry)) == [do.ListChainEntries("b" * 32)]


def test_a_claim_behind_this_one_wins() -> None:
    start = Start()
    start.tell(ev.ChainEntriesListed(()), ev.ChainEntryStored())
    assert start.tell(ev.ChainEntriesListed((1, 2))) == [do.ListChainEntries("b" * 32)]


def test_a_driver_whose_start_another_one_has_continued_is_fenced_though_that_one_has_ended() -> None:
    start = Start()
    [put] = start.tell(ev.ChainEntriesListed(()))
    assert isinstance(put, do.PutChainEntry)
    start.tell(ev.ChainEntryStored(), ev.ChainEntriesListed((1, 2)), ev.ChainEntriesListed((1, 2)))
    finished = replace(record(2, ChainEntryKind.FINISHED), runs=(*put.entry.runs, "c" * 32))
    with pytest.raises(FencedError, match="checkpoint 2 belongs to run"):
        start.tell(ev.ChainEntryRead(finished, ""))


@pytest.mark.parametrize(("begins", "is_fenced"), [(3, True), (8, True), (1, False)])
def test_a_driver_is_fenced_by_one_that_has_begun_the_job_anew_behind_its_takeover(
    begins: int, is_fenced: bool
) -> None:
    """The one with the smaller id has skipped ids: it had not seen this takeover, and yields."""
    start = Start()
    listed = ev.ChainEntriesListed((1, 2, 8, 9))
    start.tell(ev.ChainEntriesListed((1,)), ev.ChainEntryRead(record(1), ""), ev.DriverFound(""), ev.ChainEntryStored())
    start.tell(listed, listed)
    read = ev.ChainEntryRead(replace(record(9, ChainEntryKind.FINISHED), begins=begins), "")
    if is_fenced:
        with pytest.raises(FencedError, match="checkpoint 9 belongs to run"):
            start.tell(read)
    else:
        [put] = start.tell(read)
        assert isinstance(put, do.PutChainEntry)
        assert put.entry.checkpoint_id == 10


def test_the_driver_that_has_skipped_ids_yields() -> None:
    start = Start(execution_state__recovery_path="/elsewhere/chk-7")
    start.tell(ev.ChainEntriesListed(()), ev.ChainEntryRead(record(7), "/elsewhere/chk-7"))
    [second] = start.tell(ev.LaterCheckpointFound(None, "chk-7"), ev.ChainEntryStored())
    assert isinstance(second, do.PutChainEntry)
    assert second.entry.checkpoint_id == 8
    start.tell(ev.ChainEntryStored())
    with pytest.raises(FencedError):
        start.tell(ev.ChainEntriesListed((1, 2, 8)))


@pytest.mark.parametrize("listed", ["the newest record", "what it names"])
def test_latest_goes_on_from_the_record_for_which_another_driver_has_deleted_the_listed_one(listed: str) -> None:
    start = Start(**LATEST)
    start.tell(ev.JobsListed((), started_last="d" * 32), ev.ChainEntriesListed((1, 9)))
    if listed == "what it names":
        parent = ParentCheckpoint(8, f"{'d' * 32}/chk-8")
        start.tell(ev.ChainEntryRead(replace(record(9, ChainEntryKind.TAKEOVER), parent=parent), "d/chk-9/_metadata"))
    assert start.tell(ev.ChainEntryRead(None, "gone")) == [do.ListChainEntries("d" * 32)]
    [read] = start.tell(ev.ChainEntriesListed((1, 9, 10)))
    assert isinstance(read, do.ReadChainEntry)
    start.tell(ev.ChainEntryRead(record(10), read.path))
    [claim] = start.tell(ev.DriverFound(""))
    assert isinstance(claim, do.PutChainEntry)
    assert claim.entry.checkpoint_id == 11
    assert claim.entry.parent is not None
    assert claim.entry.parent.checkpoint_id == 10


@pytest.mark.parametrize("left", [(), (1,), (1, 9)])
def test_latest_whose_record_is_gone_without_a_newer_one_has_no_checkpoint(left: tuple[int, ...]) -> None:
    start = Start(**LATEST)
    start.tell(ev.JobsListed((), started_last="d" * 32), ev.ChainEntriesListed((1, 9)), ev.ChainEntryRead(None, "gone"))
    with pytest.raises(NoCheckpointError, match="gone"):
        start.tell(ev.ChainEntriesListed(left))


def test_a_path_is_compared_with_what_its_job_has_completed_since() -> None:
    start = Start(execution_state__recovery_path="/elsewhere/chk-7")
    assert start.tell(ev.ChainEntriesListed(())) == [do.ReadChainEntry("/elsewhere/chk-7")]
    [look] = start.tell(ev.ChainEntryRead(record(7), "/elsewhere/chk-7"))
    assert isinstance(look, do.FindLaterCheckpoint)
    start.tell(ev.LaterCheckpointFound(9, "chk-7"))
    assert "resumes from checkpoint 7" in start.machine.remarks[0].text
    assert "checkpoints 8 to 9" in start.machine.remarks[1].text


@pytest.mark.parametrize("phase_events", [(), (ev.ChainEntriesListed(()),)])
def test_what_fails_ends_the_start_with_its_own_error(phase_events: tuple[ev.Event, ...]) -> None:
    start = Start()
    start.tell(*phase_events)
    error = CheckpointStorageError("/c", "no space")
    with pytest.raises(CheckpointStorageError) as raised:
        start.tell(ev.InstructionFailed(error))
    assert raised.value is error


def test_a_damaged_newest_record_stops_only_a_start_that_wants_it() -> None:
    damaged = CorruptCheckpointError("/c", "not a record")
    start = Start(**LATEST)
    start.tell(ev.JobsListed((), started_last="d" * 32), ev.ChainEntriesListed((2,)))
    with pytest.raises(CorruptCheckpointError):
        start.tell(ev.InstructionFailed(damaged))
    fresh = Start()
    fresh.tell(ev.ChainEntriesListed((2,)))
    assert fresh.tell(ev.InstructionFailed(damaged)) == [do.FindDriver("b" * 32)]
    [claim] = fresh.tell(ev.DriverFound(""))
    assert isinstance(claim, do.PutChainEntry)


def test_a_job_is_taken_over_from_a_driver_that_runs_after_that_is_said_unless_it_is_not_to_be() -> None:
    for keys, is_refused in ((LATEST, False), (LATEST | {"penstock_takeover": "false"}, True)):
        start = Start(**keys)
        start.tell(ev.JobsListed((), started_last="d" * 32), ev.ChainEntriesListed((2,)))
        start.tell(ev.ChainEntryRead(record(2), "d/chk-2/_metadata"))
        if is_refused:
            with pytest.raises(JobRunningError, match="runs in process 7, and this start is not to take it over"):
                start.tell(ev.DriverFound("process 7"))
        else:
            said, claim = start.tell(ev.DriverFound("process 7"))
            assert isinstance(said, do.LogMessage)
            assert isinstance(claim, do.PutChainEntry)
            assert (said.shown, "runs in process 7. This start takes it over" in said.text) == (True, True)


def test_an_event_out_of_its_turn_is_a_bug() -> None:
    with pytest.raises(InternalError, match=r"A starting driver got ChainEntryStored.* while LISTING"):
        Start().tell(ev.ChainEntryStored())


def test_a_start_whose_claim_is_never_known_to_be_stored_fails_with_the_error_of_the_storage() -> None:
    start, gone = Start(), CheckpointStorageError("/c", "it does not answer")
    [first] = start.tell(ev.ChainEntriesListed(()))
    for _ in range(4):
        assert start.tell(ev.ChainEntryUncertain(gone)) == [first]
    with pytest.raises(CheckpointStorageError, match="it does not answer"):
        start.tell(ev.ChainEntryUncertain(gone))
