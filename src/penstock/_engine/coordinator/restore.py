"""Fitting the state of a checkpoint to the job that starts from it.

Operators are matched by uid. Keyed state follows its key groups to any parallelism, operator state and the states of
writers are shared out anew, splits go back to the enumerator, and watermarks begin anew.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock._engine.coordinator.operator_state import redistribute
from penstock._engine.coordinator.snapshots import fresh_snapshot, map_handles
from penstock._engine.coordinator.sources import Returned
from penstock._engine.graph.job_graph import OperatorKind
from penstock._engine.protocol.control import decode, encode
from penstock._engine.protocol.events import AddSplits, ReaderState, decode_event
from penstock._engine.protocol.keys import key_group_range
from penstock._engine.protocol.metadata import JobSnapshot, OperatorRecord, OperatorSubtask
from penstock._engine.protocol.paths import shared_directory
from penstock._engine.protocol.state_handle import rescale
from penstock.errors import RestoreError, UnclaimedStateError

if TYPE_CHECKING:
    from penstock._engine.graph.job_graph import JobGraph, OperatorNode
    from penstock._engine.protocol.state_handle import StateHandle

#: By source uid: splits that have to go back to the enumerator, because the parallelism has changed.
ReturnedSplits = dict[str, tuple[Returned, ...]]


def fit_snapshot(
    stored: JobSnapshot, graph: JobGraph, path: str, *, ignore_unclaimed: bool
) -> tuple[JobSnapshot, ReturnedSplits]:
    """Return a checkpoint's state as the state of a job.

    Args:
        stored: What the checkpoint holds.
        graph: The job.
        path: The checkpoint, for messages.
        ignore_unclaimed: Drop the state of operators that the job does not have.

    Raises:
        UnclaimedStateError: The job lacks an operator whose state is there.
        RestoreError: The job has changed in a way that the state does not fit.
    """
    nodes = {operator.uid: operator for vertex in graph.vertices for operator in vertex.operators}
    if not ignore_unclaimed:
        _check_claimed(stored, nodes, path)
    fresh = fresh_snapshot(graph)
    if _shape(stored) == _shape(fresh):
        renamed = {uid: replace(stored.operators[uid], name=new.name) for uid, new in fresh.operators.items()}
        return JobSnapshot(stored.vertices, renamed, stored.outstanding), {}
    _check_unfinished(stored, path)
    returned: ReturnedSplits = {}
    operators: dict[str, OperatorRecord] = {}
    for uid, wanted in fresh.operators.items():
        found = stored.operators.get(uid)
        operators[uid] = wanted if found is None else _fit(nodes[uid], found, wanted, path)
        if found is not None and found.parallelism != wanted.parallelism and found.enumerator is not None:
            returned[uid] = _splits_of(found)
    outstanding = tuple(commit for commit in stored.outstanding if commit.uid in nodes)
    return JobSnapshot(fresh.vertices, operators, outstanding), returned


def _shape(snapshot: JobSnapshot) -> object:
    """Return what must be equal for channels and subtasks to keep their meaning."""
    sizes = [(operator.vertex, operator.parallelism, operator.max_parallelism) for operator in _ordered(snapshot)]
    return [vertex.operators for vertex in snapshot.vertices], sizes


def _ordered(snapshot: JobSnapshot) -> list[OperatorRecord]:
    return [snapshot.operators[uid] for vertex in snapshot.vertices for uid in vertex.operators]


def _check_claimed(stored: JobSnapshot, nodes: dict[str, OperatorNode], path: str) -> None:
    outstanding = {commit.uid for commit in stored.outstanding}
    for uid, operator in stored.operators.items():
        stateful = operator.enumerator is not None or any(
            part.lineage or part.state or part.operator_state for part in operator.subtasks
        )
        if uid not in nodes and (stateful or uid in outstanding):
            raise UnclaimedStateError(path, uid, tuple(nodes))


def _check_unfinished(stored: JobSnapshot, path: str) -> None:
    finished = [operator.name for operator in _ordered(stored) if any(part.finished for part in operator.subtasks)]
    if finished:
        raise RestoreError(
            f"{path} cannot be restored by a changed job: {finished[0]!r} has finished subtasks in it. Start the job "
            "with the operators and parallelisms that it had; a later version of Penstock restores it in other forms."
        )


def _fit(node: OperatorNode, found: OperatorRecord, wanted: OperatorRecord, path: str) -> OperatorRecord:
    """Return one operator's state at the parallelism that the job has now."""
    keyed = any(part.lineage for part in found.subtasks)
    if keyed and found.max_parallelism != wanted.max_parallelism:
        raise RestoreError(
            f"{path} cannot be restored: {wanted.name!r} has max parallelism {wanted.max_parallelism}, and "
            f"its state there {found.max_parallelism}. Set the max parallelism to {found.max_parallelism}."
        )
    if found.parallelism == wanted.parallelism:
        return replace(wanted, subtasks=found.subtasks, enumerator=found.enumerator)
    # A reader's splits go back to the enumerator, and watermarks begin anew; what is left are writers.
    states = _deal(found, wanted.parallelism) if node.kind is OperatorKind.SINK_WRITER else [None] * wanted.parallelism
    lineages = [part.lineage for part in found.subtasks]
    subtasks = tuple(
        OperatorSubtask(
            rescale(lineages, key_group_range(index, wanted.parallelism, wanted.max_parallelism)),
            state=states[index],
            operator_state=operator_state,
        )
        for index, operator_state in enumerate(redistribute(found.subtasks, wanted.parallelism))
    )
    enumerator = found.enumerator and replace(found.enumerator, undelivered={}, unseen=())
    return replace(wanted, subtasks=subtasks, enumerator=enumerator)


def _deal(found: OperatorRecord, parallelism: int) -> list[bytes | None]:
    """Return the states of writers for each new subtask, dealt in turn (FLIP-143); None where nothing is left."""
    items = [item for part in found.subtasks if part.state is not None for item in decode(part.state, list[bytes])]
    return [encode(items[index::parallelism]) if items[index:] else None for index in range(parallelism)]


def _splits_of(found: OperatorRecord) -> tuple[Returned, ...]:
    """Return the splits of all readers, and those that were on the way to them."""
    undelivered = found.enumerator.undelivered if found.enumerator else {}
    returned: list[Returned] = []
    for index, part in enumerate(found.subtasks):
        if part.state is not None:
            state = decode(part.state, ReaderState)
            returned.append(Returned(index, state.splits, state.version))
        events = (decode_event(data) for data in undelivered.get(index, ()))
        returned += [Returned(index, event.splits, event.version) for event in events if isinstance(event, AddSplits)]
    return tuple(part for part in returned if part.splits)


def own_files(snapshot: JobSnapshot, job_id: str, *, inside: bool) -> tuple[JobSnapshot, tuple[tuple[str, str], ...]]:
    """Give files of another job or directory names below this job's directory.

    Args:
        snapshot: The state, which names the files.
        job_id: This job.
        inside: Whether the checkpoint is in this job's checkpoint directory; else all its files are elsewhere.

    Returns:
        The state with the new names, and the (old, new) paths.
    """
    copies: dict[str, str] = {}

    def change(handle: StateHandle) -> StateHandle:
        if handle.path is None or (inside and handle.path.startswith(f"{job_id}/")):
            return handle
        copies[handle.path] = f"{shared_directory(job_id)}/{handle.path.rpartition('/')[2]}"
        return replace(handle, path=copies[handle.path])

    return map_handles(snapshot, change), tuple(copies.items())
