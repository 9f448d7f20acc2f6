"""Assigns the state of a checkpoint to the operators and subtasks of the job that starts from it.

Operators are matched by uid. Keyed state follows its key groups to any parallelism, operator state and the states of
writers are redistributed, splits go back to the enumerator, and watermarks start fresh. A finished operator stays
finished. If only some subtasks of an operator have finished, all of them run again and share the state of those that
had not: what a finished subtask has left in a list is counted and not assigned (FLIP-147).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock._engine.coordinator.checkpoints.snapshots import fresh_snapshot
from penstock._engine.coordinator.checkpoints.subtask_state import items_left, redistribute, splits_of
from penstock._engine.coordinator.restore.belonging import misfit
from penstock._engine.coordinator.restore.finished import Extent, extents
from penstock._engine.coordinator.restore.max_parallelism import take_over_max_parallelism
from penstock._engine.coordinator.restore.places import differences
from penstock._engine.protocol.control import decode, encode
from penstock._engine.protocol.events import EndOfInputEvent, SourceEventWrapper, decode_event, encode_event
from penstock._engine.protocol.key_groups import key_group_range
from penstock._engine.protocol.metadata import (
    ChainEntryKind,
    JobSnapshot,
    OperatorMetadata,
    OperatorSubtaskState,
    SourceCoordinatorState,
    VertexMetadata,
    VertexSubtaskState,
)
from penstock._engine.protocol.rows import MAX_WATERMARK
from penstock._engine.protocol.state_handle import rescale
from penstock.errors import MovedOperatorError, OtherOperatorError, RestoreError, UnclaimedStateError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock._engine.coordinator.instructions import LogMessage
    from penstock._engine.graph.job_graph import JobGraph, OperatorNode
    from penstock._engine.protocol.metadata import ChainEntry


@dataclass(frozen=True, slots=True)
class StateAssignment:
    """A checkpoint's state, assigned to the operators and subtasks of a job."""

    snapshot: JobSnapshot
    #: The job graph, with the max parallelism of the state where the program sets none.
    graph: JobGraph
    #: The operators whose state was dropped: by uid, the name. What they had to commit is still in the snapshot.
    dropped: Mapping[str, str] = field(default_factory=dict[str, str])
    #: List items that finished subtasks have left and nobody gets: the operator by name and uid, and how many.
    left: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class RestoredCheckpoint:
    """The checkpoint that a job continues from."""

    entry: ChainEntry
    #: A path below the checkpoint directory, or a URL outside of it.
    path: str
    #: Its state, assigned to the job.
    assignment: StateAssignment
    #: The savepoint that the job was stopping into when its driver ended; the rest of that stop is done first.
    stopping: str | None = None
    #: Remarks for the user who starts the job.
    remarks: tuple[LogMessage, ...] = ()
    #: The last checkpoint that its job has completed after it: output between the two is published again.
    later: int | None = None

    def knowing(self, snapshot: JobSnapshot) -> RestoredCheckpoint:
        """Return it with another state."""
        return replace(self, assignment=replace(self.assignment, snapshot=snapshot))

    @property
    def resumes(self) -> bool:
        """Whether the job was to stop with this checkpoint, and continues from it instead."""
        return (
            self.stopping is None and self.entry.kind is ChainEntryKind.CHECKPOINT and self.entry.savepoint is not None
        )


def assign_state(
    stored: JobSnapshot, graph: JobGraph, path: str, *, ignore_unclaimed: bool, stops: bool
) -> StateAssignment:
    """Return a checkpoint's state as the state of a job.

    Args:
        stored: The state of the checkpoint.
        graph: The job.
        path: The checkpoint, for messages.
        ignore_unclaimed: Whether to drop the state of operators that the job does not have.
        stops: Whether the job was stopping with this checkpoint, so that it only completes the stop.

    Raises:
        OtherOperatorError: An operator is of another kind than the one whose state the checkpoint has.
        MovedOperatorError: An operator without a uid may not be the one whose state the checkpoint has.
        UnclaimedStateError: The checkpoint has state of an operator that the job lacks.
        RestoreError: The job has changed in a way that the state does not fit.
    """
    nodes = graph.operators
    unclaimed = _unclaimed(stored, graph)
    if unclaimed and not ignore_unclaimed:
        raise _refusal(stored, graph, path, *next(iter(unclaimed.items())))
    dropped = {uid: stored.operators[uid].name for uid in unclaimed}
    stored = _without(stored, unclaimed)
    graph = take_over_max_parallelism(stored, graph, path)
    fresh = fresh_snapshot(graph)
    if not unclaimed and _shape(stored) == _shape(fresh):
        renamed = {uid: replace(stored.operators[uid], name=new.name) for uid, new in fresh.operators.items()}
        return StateAssignment(replace(stored, operators=renamed, places=fresh.places), graph)
    if stops:
        raise RestoreError(
            f"{path} is the checkpoint with which this job was stopping when its process ended, and the job has "
            "changed since. Start it once as it was, with 'latest': that only brings the stop to its end. Then start "
            "it from the savepoint in its new form."
        )
    found = extents(stored, graph, path)
    vertices = tuple(map(_placed, fresh.vertices, found))
    operators = {
        uid: _fit(nodes[uid], stored.operators.get(uid), wanted, found[wanted.vertex])
        for uid, wanted in fresh.operators.items()
    }
    kept = replace(fresh, outstanding=stored.outstanding, given_up=stored.given_up, committed=stored.committed)
    snapshot = replace(kept, vertices=vertices, operators=operators)
    left = tuple(
        (str(nodes[uid]), count)
        for uid, wanted in fresh.operators.items()
        if found[wanted.vertex] is Extent.PARTLY
        if (count := items_left(stored.operators[uid].subtasks).total())
    )
    return StateAssignment(snapshot, graph, dropped, left)


def _shape(snapshot: JobSnapshot) -> object:
    """Return the part of a snapshot that must be equal for the state to fit unchanged."""
    ordered = [snapshot.operators[uid] for vertex in snapshot.vertices for uid in vertex.operators]
    sizes = [(operator.vertex, operator.parallelism, operator.max_parallelism) for operator in ordered]
    return [(vertex.operators, vertex.inputs) for vertex in snapshot.vertices], sizes


def _unclaimed(stored: JobSnapshot, graph: JobGraph) -> dict[str, str]:
    """Return the uids of the operators whose state no operator of the job may get, each with the reason."""
    nodes = graph.operators
    moved = differences(stored.places, graph.places)
    outstanding = {commit.uid for commit in (*stored.outstanding, *stored.committed)}
    unclaimed: dict[str, str] = {}
    for uid, operator in stored.operators.items():
        keeps = uid in outstanding or _has_state(operator)
        if uid not in nodes and keeps:
            unclaimed[uid] = "no operator is at that place"
        elif uid in moved and (keeps or any(part.finished for part in operator.subtasks)):
            unclaimed[uid] = moved[uid]
        elif keeps and (reason := _misfit(stored, graph, uid)) is not None:
            unclaimed[uid] = reason
    return unclaimed


def _misfit(stored: JobSnapshot, graph: JobGraph, uid: str) -> str | None:
    """Return why the operator with a uid cannot have the state of the one that had it; None if it can."""
    before, after = stored.places.get(uid), graph.places.get(uid)
    return None if before is None or after is None else misfit(before, after)


def _refusal(stored: JobSnapshot, graph: JobGraph, path: str, uid: str, reason: str) -> RestoreError:
    """Return the error about state that no operator may have."""
    nodes = graph.operators
    place = stored.places.get(uid)
    if reason == _misfit(stored, graph, uid):
        return OtherOperatorError(path, stored.operators[uid].name, uid, str(nodes[uid]), reason)
    if uid not in nodes and (place is None or place.has_own_uid):
        commits = sum(len(commit.committables) for commit in stored.outstanding if commit.uid == uid)
        return UnclaimedStateError(path, uid, tuple(nodes), commits)
    kind = place and place.kind
    alike = (node for node in nodes.values() if node.factory.kind == kind and not node.explicit_uid)
    now = (nodes[uid],) if uid in nodes else tuple(node for node in alike if node.uid not in stored.operators)
    return MovedOperatorError(path, (stored.operators[uid].name, uid), tuple(map(str, now)), reason)


def _without(stored: JobSnapshot, uids: Collection[str]) -> JobSnapshot:
    operators = {uid: operator for uid, operator in stored.operators.items() if uid not in uids}
    return replace(stored, operators=operators)


def _has_state(operator: OperatorMetadata) -> bool:
    parts = operator.subtasks
    whole = operator.enumerator is not None or bool(operator.accumulators)
    return whole or any(part.lineage or part.state or part.operator_state for part in parts)


def _placed(vertex: VertexMetadata, extent: Extent) -> VertexMetadata:
    """Return the subtasks of a vertex, all at their beginning or all finished."""
    if extent is not Extent.FINISHED:
        return vertex
    return replace(vertex, subtasks=(VertexSubtaskState(MAX_WATERMARK, finished=True),) * len(vertex.subtasks))


def _fit(
    node: OperatorNode, found: OperatorMetadata | None, wanted: OperatorMetadata, extent: Extent
) -> OperatorMetadata:
    """Return one operator's state at the new parallelism."""
    if found is None:
        return wanted
    wanted = replace(wanted, accumulators=found.accumulators)
    enumerator = found.enumerator and _for_readers_anew(found, found.enumerator, wanted.parallelism)
    if extent is Extent.FINISHED:  # no reader is left to get an event
        enumerator = enumerator and replace(enumerator, undelivered={}, unseen=())
        return replace(
            wanted, subtasks=(OperatorSubtaskState(finished=True),) * wanted.parallelism, enumerator=enumerator
        )
    if extent is Extent.RUNNING and found.parallelism == wanted.parallelism:
        return replace(wanted, subtasks=found.subtasks, enumerator=found.enumerator)
    # A reader's splits go back to the enumerator, and watermarks start fresh; only states of items are left.
    states = _deal(found, wanted.parallelism) if node.factory.has_items else [None] * wanted.parallelism
    lineages = [part.lineage for part in found.subtasks]
    subtasks = tuple(
        OperatorSubtaskState(
            rescale(lineages, key_group_range(index, wanted.parallelism, wanted.max_parallelism)),
            state=states[index],
            operator_state=operator_state,
        )
        for index, operator_state in enumerate(redistribute(found.subtasks, wanted.parallelism))
    )
    return replace(wanted, subtasks=subtasks, enumerator=enumerator)


def _for_readers_anew(
    source: OperatorMetadata, enumerator: SourceCoordinatorState, parallelism: int
) -> SourceCoordinatorState:
    """Return the state of an enumerator whose readers all start fresh; they get the end of the input again.

    Splits of readers and on the way to them go back to the enumerator, and readers request splits anew. Source events
    on the way are kept in order; the heir of a subtask that no longer exists takes over its events.
    """
    end = encode_event(EndOfInputEvent())
    ends = any(end in events for events in enumerator.undelivered.values())
    undelivered: dict[int, tuple[bytes, ...]] = {}
    for subtask, events in sorted(enumerator.undelivered.items()):
        kept = tuple(event for event in events if isinstance(decode_event(event), SourceEventWrapper))
        if kept:
            heir = _heir(subtask, parallelism)
            undelivered[heir] = (*undelivered.get(heir, ()), *kept)
    if ends:
        undelivered = {subtask: (*undelivered.get(subtask, ()), end) for subtask in range(parallelism)}
    unseen = tuple(
        replace(messages, subtask=_heir(messages.subtask, parallelism), split_requests=0)
        for messages in enumerator.unseen
        if messages.events
    )
    returned = (*enumerator.returned, *splits_of(source))
    return replace(enumerator, undelivered=undelivered, unseen=unseen, returned=returned)


def _heir(subtask: int, parallelism: int) -> int:
    """Return the subtask that takes the place of an old one: the same if it still exists."""
    return subtask % parallelism


def _deal(found: OperatorMetadata, parallelism: int) -> list[bytes | None]:
    """Return the states of writers for each new subtask, dealt round-robin (FLIP-143); None without any.

    They are lists, so those of finished subtasks are not dealt out.
    """
    states = [part.state for part in found.subtasks if part.state is not None and not part.finished]
    items = [item for state in states for item in decode(state, list[bytes])]
    return [encode(items[index::parallelism]) if items[index:] else None for index in range(parallelism)]
