"""What the user decides at a start about committables that cannot be committed (``penstock.committables``).

A decision is about one committable of the checkpoint that the job starts from. What is skipped or given up is no longer
outstanding from the takeover on, whatever becomes of the driver; what is published counts as never tried, once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.instructions import LogMessage
from penstock._engine.coordinator.settings import CommitAction
from penstock._engine.protocol.committables import committable_ids
from penstock._engine.protocol.metadata import GivenUp, OutstandingCommit
from penstock.errors import UnknownStateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._engine.coordinator.settings import CommitDecision
    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.protocol.metadata import Committable, JobSnapshot

#: What the log says of each decision.
_SAID: Final = {
    CommitAction.GIVE_UP: "is given up, and its records are in no output",
    CommitAction.SKIP: "counts as committed, and is not committed",
    CommitAction.PUBLISH: "is committed, although it may have been before",
}

#: Why committables of an operator that the job does not have are lost.
_DROPPED = "the job was started without this operator (execution.state-recovery.ignore-unclaimed-state)"


def published(decisions: Iterable[CommitDecision]) -> frozenset[str]:
    """Return the ids of the committables that are published although they may have been before."""
    return frozenset(one.committable for one in decisions if one.action is CommitAction.PUBLISH)


@dataclass(frozen=True, slots=True)
class DecidedCommit:
    """A committable that is decided about."""

    decision: CommitDecision
    commit: OutstandingCommit
    committable: Committable


def decided(snapshot: JobSnapshot, decisions: Iterable[CommitDecision], path: str) -> list[DecidedCommit]:
    """Return what decisions are about.

    Args:
        snapshot: The state that the job starts from.
        decisions: The decisions.
        path: The checkpoint, for messages.

    Raises:
        UnknownStateError: The checkpoint has no such committable outstanding.
    """
    known = {
        name: (commit, item)
        for commit in snapshot.outstanding
        for name, item in zip(committable_ids(commit), commit.committables, strict=True)
    }
    for decision in decisions:
        if decision.committable not in known:
            wanted = f"committable {decision.committable} that is still to be committed"
            raise UnknownStateError(path, wanted, tuple(known))
    return [DecidedCommit(decision, *known[decision.committable]) for decision in decisions]


def decision_remarks(decisions: Iterable[DecidedCommit], snapshot: JobSnapshot) -> tuple[LogMessage, ...]:
    """Return what the log says of the decisions, also of a job that never comes to an end which would tell them."""
    return tuple(
        LogMessage(
            f"Sink {snapshot.operators[one.commit.uid].name!r} (uid {one.commit.uid!r}): committable "
            f"{one.decision.committable} of checkpoint {one.commit.checkpoint_id} {_SAID[one.decision.action]} "
            f"(penstock.committables){_kept(one.decision)}",
            unexpected=True,
        )
        for one in decisions
    )


def _kept(decision: CommitDecision) -> str:
    return "" if decision.records is None else f"; what it held is in {decision.records}"


def settled(snapshot: JobSnapshot, decisions: Iterable[DecidedCommit], graph: JobGraph) -> JobSnapshot:
    """Return a state without the committables that are skipped or given up.

    Args:
        snapshot: The state that the job starts from.
        decisions: The decisions.
        graph: The job, which says what gets committables that count as committed.
    """
    feeds: Mapping[str | None, str] = {
        head.sink_uid: head.uid for vertex in graph.feeds for head in (graph.vertices[vertex].operators[0],)
    }
    outstanding, committed, given_up = list(snapshot.outstanding), list(snapshot.committed), list(snapshot.given_up)
    for one in decisions:
        action, uid, number = one.decision.action, one.commit.uid, one.commit.checkpoint_id
        if action is CommitAction.PUBLISH:
            continue
        outstanding = [_without(commit, one) for commit in outstanding]
        if action is CommitAction.GIVE_UP:
            reason = f"committable {one.decision.committable} was given up at a start (penstock.committables)"
            reason = f"{reason}{_kept(one.decision)}"
            given_up.append(GivenUp(uid, snapshot.operators[uid].name, number, number, 1, reason))
        elif uid in feeds:
            committed = _with(committed, OutstandingCommit(feeds[uid], number, (one.committable,)))
    return replace(
        snapshot,
        outstanding=tuple(commit for commit in outstanding if commit.committables),
        committed=tuple(committed),
        given_up=tuple(given_up),
    )


def without_commits_of(snapshot: JobSnapshot, dropped: Mapping[str, str]) -> JobSnapshot:
    """Return a state in which what dropped operators had to commit is given up, so that the loss is told.

    Args:
        snapshot: The state that the job starts from.
        dropped: The operators whose state is dropped: by uid, the name.
    """
    lost = (
        GivenUp(
            commit.uid,
            dropped[commit.uid],
            commit.checkpoint_id,
            commit.checkpoint_id,
            len(commit.committables),
            _DROPPED,
        )
        for commit in snapshot.outstanding
        if commit.uid in dropped
    )
    return replace(
        snapshot,
        given_up=(*snapshot.given_up, *lost),
        outstanding=tuple(commit for commit in snapshot.outstanding if commit.uid not in dropped),
        committed=tuple(commit for commit in snapshot.committed if commit.uid not in dropped),
    )


def _without(commit: OutstandingCommit, one: DecidedCommit) -> OutstandingCommit:
    if (commit.uid, commit.checkpoint_id) != (one.commit.uid, one.commit.checkpoint_id):
        return commit
    items = list(commit.committables)
    items.remove(one.committable)
    return replace(commit, committables=tuple(items))


def _with(committed: list[OutstandingCommit], more: OutstandingCommit) -> list[OutstandingCommit]:
    """Return committed committables, oldest checkpoint first, with some more of one checkpoint."""
    for place, commit in enumerate(committed):
        if (commit.uid, commit.checkpoint_id) == (more.uid, more.checkpoint_id):
            items = sorted((*commit.committables, *more.committables), key=lambda item: item.subtask)
            return [*committed[:place], replace(commit, committables=tuple(items)), *committed[place + 1 :]]
    return sorted([*committed, more], key=lambda commit: commit.checkpoint_id)
