"""When a job's commits begin, and when no more do."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.alarms import CommitRetryDue
from penstock._engine.coordinator.commits.commits import CommitLedger, CommitScheduler
from penstock._engine.coordinator.phases import Phase
from penstock._engine.protocol.metadata import Committable, OutstandingCommit
from penstock.errors import JobRunError

COMMITS = [("a", 2), ("b", 2), ("a", 3)]


class Commits:
    """A job with two checkpoints of one sink and one of another, all of which are to be committed."""

    def __init__(self) -> None:
        self.phase, self.now_ms = Phase.EPOCH, 0
        outstanding = [OutstandingCommit(uid, number, (Committable(0, b""),)) for uid, number in COMMITS]
        ledger, committed = CommitLedger(), SimpleNamespace(add=lambda *_: None)
        ledger.restore(outstanding)
        graph: Any = SimpleNamespace(operators={uid: SimpleNamespace(name=f"Sink: {uid}") for uid in "ab"})
        self.cycle = CommitScheduler(graph, ledger, committed, retries=3)  # type: ignore[arg-type]
        assert self.start() == [("a", 2), ("b", 2)]
        self.first_alarms = self.alarms

    def begun(self, told: list[do.Instruction]) -> list[tuple[str, int]]:
        """Return the commits that begin by some instructions."""
        self.alarms = [step for step in told if isinstance(step, do.SetAlarm)]
        return [(step.commit.uid, step.commit.checkpoint_id) for step in told if isinstance(step, do.Commit)]

    def start(self) -> list[tuple[str, int]]:
        return self.begun(self.cycle.start(self.phase, self.now_ms))

    def done(self, uid: str, retry: tuple[Committable, ...] = ()) -> list[tuple[str, int]]:
        return self.begun(self.cycle.on_committed(ev.Committed(uid, retry), self.phase, self.now_ms))


def test_next_one_of_a_sink_begins_when_the_one_before_is_done() -> None:
    commits = Commits()
    assert commits.done("b") == []
    assert commits.done("a") == [("a", 3)]


@pytest.mark.parametrize("phase", [Phase.TEARDOWN, Phase.FAILING])
def test_none_begins_while_a_job_breaks_off_because_of_an_error(phase: Phase) -> None:
    commits = Commits()
    commits.phase = phase
    assert commits.done("a") == []
    commits.phase = Phase.RECOVERING
    assert commits.start() == [("a", 3)]


def test_one_that_failed_while_the_job_is_cancelled_is_not_tried_again_by_it() -> None:
    commits = Commits()
    commits.phase = Phase.CANCELLING
    commits.cycle.on_failed("a", commits.phase)
    assert commits.done("b") == []
    assert commits.start() == []


def test_one_that_is_put_off_too_often_is_tried_again_by_a_restart_alone() -> None:
    commits = Commits()
    with pytest.raises(JobRunError, match="put 1 committables off more than 3 times"):
        commits.done("a", (Committable(0, b"", 4),))
    assert commits.start() == [("a", 2)]


@pytest.mark.parametrize(("phase", "again"), [(Phase.PAUSED, [("a", 2)]), (Phase.CANCELLING, []), (Phase.CLOSING, [])])
def test_one_that_was_put_off_is_tried_again_while_the_job_runs(phase: Phase, again: list[tuple[str, int]]) -> None:
    commits = Commits()
    assert commits.done("a", (Committable(0, b"", 1),)) == []
    [alarm] = commits.alarms
    commits.phase = phase
    assert isinstance(alarm.event, CommitRetryDue)
    assert commits.begun(commits.cycle.retry(alarm.event.uid, phase, 0)) == again


def test_outstanding_ones_are_told_oldest_checkpoint_first() -> None:
    ledger = CommitLedger()
    ledger.restore(OutstandingCommit(uid, number, ()) for uid, number in COMMITS)
    assert [(commit.uid, commit.checkpoint_id) for commit in ledger.outstanding] == COMMITS


def test_only_what_this_driver_has_completed_and_not_begun_is_known_not_to_be_done() -> None:
    ledger = CommitLedger()
    ledger.restore([OutstandingCommit("a", 1, ())])
    ledger.add([OutstandingCommit("a", 2, ()), OutstandingCommit("b", 2, ())])
    assert [(one.commit.uid, one.may_be_done) for one in ledger.start()] == [("a", True), ("b", False)]
    ledger.failed("b")
    ledger.done("a")
    assert [(one.commit.uid, one.may_be_done) for one in ledger.start()] == [("a", False), ("b", True)]
    ledger.put_off("a", ())
    ledger.retry("a")
    assert [one.may_be_done for one in ledger.start()] == [True]


def said(commits: Commits, until_ms: int) -> list[tuple[int, str]]:
    """Let time pass; return what the log gets, each with its time in seconds."""
    lines: list[tuple[int, str]] = []
    while commits.alarms:
        [alarm] = commits.alarms
        now_ms = commits.now_ms + alarm.delay_ms
        if now_ms > until_ms:
            break
        commits.now_ms = now_ms
        told = commits.cycle.look(now_ms)
        commits.alarms = [step for step in told if isinstance(step, do.SetAlarm)]
        lines += [(now_ms // 1000, step.text) for step in told if isinstance(step, do.LogMessage) and step.unexpected]
    return lines


def test_a_committer_that_does_not_return_is_named_again_and_again_and_ever_less_often() -> None:
    commits = Commits()
    commits.done("b")
    commits.alarms = commits.first_alarms
    lines = said(commits, 3_600_000)
    times = [at for at, _ in lines]
    assert times[:4] == [30, 90, 210, 450]
    assert {late - soon for soon, late in pairwise(times[4:])} == {600}
    assert "committer of sink 'Sink: a' (uid 'a') has been committing checkpoint 2 for 30 s" in lines[0][1]
    assert all("'Sink: b'" not in text for _, text in lines)


def test_committers_that_return_are_not_named_and_not_looked_at_any_more() -> None:
    commits = Commits()
    commits.done("b")
    assert commits.done("a") == [("a", 3)]
    commits.done("a")
    commits.alarms = commits.first_alarms
    assert said(commits, 3_600_000) == []
    assert commits.now_ms == 30_000


def test_the_time_of_a_commit_begins_with_its_call() -> None:
    commits = Commits()
    commits.done("b")
    commits.now_ms = 20_000
    commits.done("a")
    commits.now_ms = 0
    commits.alarms = commits.first_alarms
    assert [at for at, _ in said(commits, 100_000)] == [60]
