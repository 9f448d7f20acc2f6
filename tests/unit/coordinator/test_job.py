"""A job's coordinator alone: which instructions follow from which event."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.coordinator.pure import RUN, SNAPSHOTS, STARTED, Told, ended

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.alarms import RestartDue
from penstock._engine.coordinator.instructions import SavepointRequest
from penstock._engine.coordinator.phases import Phase
from penstock._engine.plan.epoch_plan import EpochOutcome
from penstock._engine.protocol.control import OperatorAck, StopMode, TaskFailure
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock.common.job_status import JobStatus
from penstock.errors import FencedError, InternalError

if TYPE_CHECKING:
    from penstock._engine.protocol.metadata import ChainEntry

RESTARTS = {"restart__strategy_type": "fixed-delay", "restart__strategy_fixed__delay_attempts": "1"}
ERROR = OSError("no space")
FAILURE = TaskFailure("map", "map", 1, 0, "", None, "ValueError: bad", "", None)


def test_a_start_claims_the_job_and_runs_its_first_epoch() -> None:
    job = Told()
    assert job.first == [do.ChangeStatus(JobStatus.INITIALIZING), do.ListChainEntries("b" * 32)]
    names = [job.names(event) for event in STARTED]
    assert names == [
        "PutChainEntry",
        "ListChainEntries",
        "RecordStart",
        "ChangeStatus LogMessage ChangeStatus StartEnumerators",
        "SetAlarm RunEpoch",
    ]
    assert job.phase is Phase.EPOCH


def test_an_epoch_that_counts_becomes_a_checkpoint_and_the_next_one_follows() -> None:
    job = Told(*STARTED)
    assert job.tell(ended(2)) == [do.SnapshotEnumerators(2)]
    [put] = job.tell(SNAPSHOTS)
    assert isinstance(put, do.PutChainEntry)
    assert (put.entry.kind, put.entry.checkpoint_id) == (ChainEntryKind.CHECKPOINT, 2)
    publish, sweep, hear = job.tell(ev.ChainEntryStored())
    assert isinstance(publish, do.PublishProgress)
    assert isinstance(sweep, do.SweepLeftovers)
    assert hear == do.CallEnumerators(2, {})
    [run] = job.tell(ev.EnumeratorsCalled({}))
    assert isinstance(run, do.RunEpoch)
    assert (run.checkpoint_id, run.attempt, run.job_attempt) == (3, 1, 0)


def test_commits_begin_behind_the_commit_point_and_the_second_checkpoint_after_waits_for_them() -> None:
    job = Told(*STARTED, ended(2, committable=b"x"), SNAPSHOTS)
    commit, *_ = job.tell(ev.ChainEntryStored())
    assert isinstance(commit, do.Commit)
    assert (commit.commit.checkpoint_id, commit.may_be_done) == (2, False)
    for event in (ev.EnumeratorsCalled({}), ended(3, committable=b"y"), SNAPSHOTS, ev.ChainEntryStored()):
        job.tell(event)
    for event in (ev.EnumeratorsCalled({}), ended(4), SNAPSHOTS):
        job.tell(event)
    assert job.phase is Phase.WAITING_FOR_COMMITS
    assert job.names(ev.Committed("target")) == "Commit PutChainEntry"


def test_an_epoch_whose_tasks_disagree_is_void_and_runs_again() -> None:
    job = Told(*STARTED)
    assert job.names(ended(7)) == "ReportFailure LogMessage RunEpoch"
    assert job.phase is Phase.EPOCH


def test_the_end_of_all_input_is_the_end_of_the_job() -> None:
    job = Told(*STARTED, ended(2, finished=True), SNAPSHOTS, ev.ChainEntryStored())
    close, put = job.tell(ev.EnumeratorsCalled({}))
    assert isinstance(close, do.CloseEnumerators)
    assert isinstance(put, do.PutChainEntry)
    assert put.entry.kind is ChainEntryKind.FINISHED
    assert job.tell(ev.ChainEntryStored())[-1] == do.EndDriver(JobStatus.FINISHED, None, None)


@pytest.mark.parametrize("cause", [FAILURE, ERROR])
def test_a_failure_restarts_the_job_as_often_as_the_strategy_says(cause: TaskFailure | Exception) -> None:
    job = Told(*STARTED, **RESTARTS)
    in_a_task = isinstance(cause, TaskFailure)
    event = ev.EpochEnded(EpochOutcome((), (cause,)), 1, 2) if in_a_task else ev.EpochFailed(cause)
    assert job.names(event) == "ReportFailure LogMessage ChangeStatus CloseEnumerators SetAlarm"
    assert job.phase is Phase.BACKING_OFF
    assert job.names(RestartDue()) == "ChangeStatus StartEnumerators"
    job.tell(ev.EnumeratorsCalled({}))
    assert job.names(ev.EpochFailed(ERROR)) == "ReportFailure LogMessage ChangeStatus CloseEnumerators PutChainEntry"
    assert job.tell(ev.ChainEntryStored())[-1] == do.EndDriver(JobStatus.FAILED, ERROR, None)


def test_a_cancel_waits_for_the_epoch_that_runs() -> None:
    job = Told(*STARTED)
    assert job.tell(ev.CancelRequested()) == [do.CancelEpoch(), do.ChangeStatus(JobStatus.CANCELLING)]
    assert job.names(ev.EpochLost(ERROR)) == "CloseEnumerators PutChainEntry"
    assert isinstance(job.tell(ev.ChainEntryStored())[-1], do.EndDriver)


def test_another_driver_in_the_place_of_a_checkpoint_ends_this_one() -> None:
    job = Told(*STARTED, ended(2))
    [put] = job.tell(SNAPSHOTS)
    assert isinstance(put, do.PutChainEntry)
    *_, end = job.tell(ev.ChainEntryTaken(_of_another(put.entry)))
    assert isinstance(end, do.EndDriver)
    assert end.status is JobStatus.SUSPENDED
    assert isinstance(end.error, FencedError)


def _of_another(record: ChainEntry) -> ChainEntry:
    assert record.run_id == RUN.run_id
    return replace(record, run_id="c" * 32, nonce="other")


def test_a_stop_writes_its_savepoint_before_the_record_and_names_it_behind() -> None:
    job = Told(*STARTED)
    request = SavepointRequest(1, "s", StopMode.SUSPEND)
    assert job.tell(ev.SavepointRequested(request)) == [do.EndEpoch(at_once=True)]
    for event in (ended(2), SNAPSHOTS, ev.ChainEntryStored()):
        job.tell(event)
    [run] = job.tell(ev.EnumeratorsCalled({}))
    assert isinstance(run, do.RunEpoch)
    assert run.stop is StopMode.SUSPEND
    job.tell(ended(3))
    [write] = job.tell(SNAPSHOTS)
    assert isinstance(write, do.WriteSavepoint)
    assert write.is_staged
    [put] = job.tell(ev.SavepointWritten("s"))
    assert isinstance(put, do.PutChainEntry)
    assert put.entry.savepoint == "s"
    assert job.names(ev.ChainEntryStored()) == "PublishProgress CompleteSavepoint"
    assert job.tell(ev.SavepointWritten("s")) == [do.CallEnumerators(3, {})]
    assert job.names(ev.EnumeratorsCalled({})) == "CloseEnumerators PutChainEntry"
    *_, answer, status, end = job.tell(ev.ChainEntryStored())
    assert answer == do.AnswerSavepoint(request, None)
    assert status == do.ChangeStatus(JobStatus.FINISHED)
    assert end == do.EndDriver(JobStatus.FINISHED, None, None)


def test_a_savepoint_is_a_copy_of_the_next_checkpoint_once_all_of_it_is_committed() -> None:
    asked = ev.SavepointRequested(SavepointRequest(1, "s", StopMode.NO))
    job = Told(*STARTED, ended(2), SNAPSHOTS, ev.ChainEntryStored(), asked)
    for event in (ev.EnumeratorsCalled({}), ended(3, committable=b"x"), SNAPSHOTS):
        job.tell(event)
    assert job.names(ev.ChainEntryStored()) == "Commit SetAlarm PublishProgress CallEnumerators"
    [write] = job.tell(ev.Committed("target"))
    assert isinstance(write, do.WriteSavepoint)
    assert (write.path, write.entry.checkpoint_id, write.is_staged) == ("s", 3, False)


def test_splits_end_the_epoch_that_runs_and_not_the_one_that_they_begin() -> None:
    splits = ev.SplitsAssigned({"numbers": {0: (b"split",)}})
    assert Told(*STARTED).tell(splits) == [do.EndEpoch(at_once=False)]

    quiet = ended(2)
    acks = tuple(
        replace(ack, operators={uid: OperatorAck(split_requests=0) for uid in ack.operators})
        for ack in quiet.outcome.acks
    )
    events = replace(quiet, outcome=replace(quiet.outcome, acks=acks)), SNAPSHOTS, ev.ChainEntryStored()
    job = Told(*STARTED, *events, ev.EnumeratorsCalled({}))
    assert job.phase is Phase.PAUSED
    assert job.names(splits) == "RunEpoch"


def test_a_checkpoint_that_is_asked_for_is_the_one_of_the_running_epoch() -> None:
    job = Told(*STARTED)
    assert job.tell(ev.CheckpointRequested(5)) == [do.EndEpoch(at_once=True)]
    job.tell(ended(2))
    job.tell(SNAPSHOTS)
    assert do.AnswerCheckpoint(5, 2) in job.tell(ev.ChainEntryStored())


# --------------------------------------------------------------------------------------------- what should never happen


def test_an_event_that_no_rule_expects_fails_the_job_and_tells_the_last_events() -> None:
    job = Told(*STARTED)
    note, *_ = job.tell(ev.StateStored())
    assert isinstance(note, do.ReportFailure)
    assert isinstance(note.cause, InternalError)
    assert str(note.cause).startswith("A job in phase EPOCH got StateStored.\nThe last events of the job:\n")
    assert [line.rpartition(", ")[2] for line in str(note.cause).splitlines()[2:]] == [
        "STARTING: ChainEntriesListed()",
        "STARTING: ChainEntryStored()",
        "STARTING: ChainEntriesListed()",
        "STARTING: StartRecorded()",
        "OPENING: EnumeratorsCalled(backlog=False)",
        "EPOCH: StateStored()",
    ]


def test_no_more_than_fifty_events_are_told_and_nothing_that_a_record_may_hold() -> None:
    job = Told(*STARTED)
    for number in range(60):
        job.tell(ev.CheckpointRequested(number))
    job.tell(ended(2, committable=b"secret"))
    note, *_ = job.tell(ev.StateStored())
    assert isinstance(note, do.ReportFailure)
    text = str(note.cause)
    assert text.count("\n") == 51
    assert "CheckpointRequested(id=12)" in text
    assert "CheckpointRequested(id=11)" not in text
    assert "secret" not in text


def test_a_bug_leaves_the_coordinator_as_an_internal_error_with_the_last_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = Told(*STARTED)
    monkeypatch.setattr(job.coordinator.state, "void_reason", lambda *_: {}["missing"])
    told = r"(?s)KeyError: 'missing'\n.*EPOCH: EpochEnded\(wall_ms=100, slots=2\)"
    with pytest.raises(InternalError, match=told) as raised:
        job.tell(ended(2))
    assert isinstance(raised.value.__cause__, KeyError)
