"""The state of a job between two epochs: the initial state, the state after an epoch, and the next dispatch from it.

A checkpoint holds exactly this state, so a restart only has to load the last checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import UNSET

from penstock._engine.coordinator.checkpoints.subtask_state import left_by_writer, left_unread
from penstock._engine.protocol.control import (
    ENDED,
    UNKNOWN,
    ChannelStatus,
    EdgeStatus,
    OperatorRestore,
    ReadingTime,
    SubtaskDispatch,
)
from penstock._engine.protocol.metadata import (
    JobSnapshot,
    OperatorMetadata,
    OperatorSubtaskState,
    OutstandingCommit,
    SourceCoordinatorState,
    StoredAccumulator,
    VertexMetadata,
    VertexSubtaskState,
)
from penstock._engine.protocol.paths import shared_path
from penstock._engine.protocol.state_handle import StateMode

if TYPE_CHECKING:
    from penstock._engine.coordinator.checkpoints.subtask_state import Subtask
    from penstock._engine.graph.job_graph import JobEdge, JobGraph
    from penstock._engine.protocol.control import SubtaskAck
    from penstock._engine.protocol.state_handle import Lineage, StateHandle, StatePart


#: A snapshot replaces a chain of deltas of this length, or one with half the bytes of its snapshot.
MAX_DELTAS: Final = 16
#: A chain may have one delta more for so many bytes of its snapshot, and so many more at most: writing a large snapshot
#: costs more than reading some small files at a restore.
_BYTES_PER_DELTA: Final = 4 << 20
_MORE_DELTAS: Final = 112
#: Chains with fewer bytes of deltas are replaced by their length alone.
_SMALL_CHAIN: Final = 1 << 20
#: The limit in bytes of state inside the metadata of one checkpoint.
MAX_INLINE: Final = 1 << 20
#: What acks may fill of it.
_ROOM: Final = MAX_INLINE

#: Returns the part of a finished subtask's state that a checkpoint keeps.
_Left: TypeAlias = Callable[[bytes | None], bytes | None]
#: Events for the reader of (source uid, subtask).
ReaderEvents: TypeAlias = Callable[[str, int], tuple[bytes, ...]]


def fresh_snapshot(graph: JobGraph) -> JobSnapshot:
    """Return the state of a job that starts without a checkpoint."""
    vertices = tuple(
        VertexMetadata(
            vertex.name,
            tuple(operator.uid for operator in vertex.operators),
            tuple(VertexSubtaskState() for _ in range(vertex.parallelism)),
            tuple(_edge_signature(graph, edge) for edge in graph.inputs(vertex.id)),
        )
        for vertex in graph.vertices
    )
    operators = {
        operator.uid: OperatorMetadata(
            operator.name,
            position,
            vertex.parallelism,
            vertex.max_parallelism,
            tuple(OperatorSubtaskState() for _ in range(vertex.parallelism)),
        )
        for position, vertex in enumerate(graph.vertices)
        for operator in vertex.operators
    }
    return JobSnapshot(vertices, operators, places=graph.places)


def _edge_signature(graph: JobGraph, edge: JobEdge) -> str:
    sender = graph.vertices[edge.source].operators[edge.source_operator].uid
    output = sender if edge.output_tag is None else f"{sender}:{edge.output_tag}"
    return f"{edge.id}: {output} {edge.partitioner} to input {edge.input_index}"


def with_renamed_sender(signature: str, uid: str, new_uid: str) -> str:
    """Return an edge signature in which one operator has got another uid."""
    number, _, rest = signature.partition(": ")
    output, *way = rest.rsplit(" ", 4)
    if output != uid and not output.startswith(f"{uid}:"):
        return signature
    return " ".join((f"{number}:", new_uid + output[len(uid) :], *way))


def unfinished(snapshot: JobSnapshot) -> list[Subtask]:
    """Return the subtasks that the next epoch runs."""
    return [
        (position, index)
        for position, vertex in enumerate(snapshot.vertices)
        for index, subtask in enumerate(vertex.subtasks)
        if not subtask.finished
    ]


def advance(
    snapshot: JobSnapshot,
    acks: Sequence[SubtaskAck],
    enumerators: Mapping[str, SourceCoordinatorState],
    outstanding: tuple[OutstandingCommit, ...],
    *,
    drain: bool = False,
    kept: frozenset[str] = frozenset(),
    writers: frozenset[str] = frozenset(),
    accumulators: Mapping[str, dict[str, StoredAccumulator]] | None = None,
) -> JobSnapshot:
    """Return the state after an accepted epoch.

    Args:
        snapshot: The state before it.
        acks: One ack of each subtask that the epoch ran.
        enumerators: By source uid: the coordinator's state after the epoch.
        outstanding: All commits that are not known to be done, this epoch's last.
        drain: The job is being drained, and subtasks that finished in the epoch did so for that reason.
        kept: The uids of operators that keep their state after they have finished.
        writers: The uids of sinks.
        accumulators: By operator uid: accumulators that have changed in the epoch.
    """
    vertices = [list(vertex.subtasks) for vertex in snapshot.vertices]
    operators = {uid: list(operator.subtasks) for uid, operator in snapshot.operators.items()}
    listening = {uid for ack in acks for uid in ack.listeners}
    changed = accumulators or {}
    for ack in acks:
        vertices[ack.vertex][ack.subtask] = VertexSubtaskState(
            ack.watermark,
            ack.finished,
            ack.next_timer_ms,
            drain and ack.finished,
            input_watermark=ack.input_watermark,
            has_run=True,
            outputs=ack.outputs,
        )
        for uid in snapshot.vertices[ack.vertex].operators:
            left = left_unread if uid in enumerators else left_by_writer if uid in writers else _nothing
            operators[uid][ack.subtask] = _advance_operator(
                operators[uid][ack.subtask], ack, uid, drain=drain, keep=uid in kept, left=left
            )
    return replace(
        snapshot,
        vertices=tuple(
            replace(vertex, subtasks=tuple(subtasks))
            for vertex, subtasks in zip(snapshot.vertices, vertices, strict=True)
        ),
        operators={
            uid: _without_finished_state(
                replace(
                    operator,
                    subtasks=tuple(operators[uid]),
                    enumerator=enumerators.get(uid),
                    accumulators=changed.get(uid, operator.accumulators),
                ),
                keep=uid in kept or uid in listening,
            )
            for uid, operator in snapshot.operators.items()
        },
        outstanding=outstanding,
    )


def _without_finished_state(operator: OperatorMetadata, *, keep: bool) -> OperatorMetadata:
    """Drop the state of an operator that will never run again, unless it was drained and may continue from a savepoint.

    Unread splits stay, because a later start may let the source continue.

    Args:
        operator: The operator.
        keep: Whether it may run again, or its checkpoint listeners still await this checkpoint and may be made anew
            from the state.
    """
    if keep or not operator.finished or operator.drained:
        return operator
    is_source = operator.enumerator is not None
    unread = [left_unread(part.state) if is_source else None for part in operator.subtasks]
    return replace(operator, subtasks=tuple(OperatorSubtaskState(state=state, finished=True) for state in unread))


def _nothing(state: bytes | None) -> None:
    """Keep nothing of a state."""
    del state


def _advance_operator(
    before: OperatorSubtaskState, ack: SubtaskAck, uid: str, *, drain: bool, keep: bool, left: _Left
) -> OperatorSubtaskState:
    part, drained = ack.operators.get(uid), drain and ack.finished
    if part is None:
        return replace(before, finished=ack.finished, drained=drained)
    operator_state = () if part.operator_state is None else (part.operator_state,)
    if ack.finished and not (drained or keep):  # a later start may still need a part of it
        return OperatorSubtaskState(state=left(part.state), finished=True, operator_state=operator_state)
    lineage = _extend(before.lineage, part.keyed_state)
    return OperatorSubtaskState(lineage, part.state, ack.finished, drained, operator_state)


def _extend(lineage: Lineage, written: tuple[StateHandle, ...]) -> Lineage:
    return written if written and written[0].kind == "snapshot" else (*lineage, *written)


def needs_snapshot(lineage: Lineage) -> bool:
    """Tell whether a chain of deltas is so long that a new snapshot is cheaper than reading it."""
    deltas = changes = base = 0
    for handle in lineage:  # of each subtask, before each epoch
        if handle.kind == "delta":
            deltas += 1
            changes += handle.size
        elif handle.kind == "snapshot":
            base += handle.size
    most = MAX_DELTAS + min(base // _BYTES_PER_DELTA, _MORE_DELTAS)
    return deltas >= most or changes > max(base // 2, _SMALL_CHAIN)


def dispatch(
    snapshot: JobSnapshot,
    subtask: Subtask,
    events: ReaderEvents,
    *,
    history: tuple[tuple[int, int], ...],
    completed_checkpoint: int,
    visible: Mapping[str, VisibleState],
) -> SubtaskDispatch:
    """Return one subtask's part of the next epoch, without a budget.

    Args:
        snapshot: The state at the start of the epoch.
        subtask: The subtask.
        events: Returns the events for a source reader.
        history: Accepted (checkpoint id, token) pairs of this run.
        completed_checkpoint: The job's last checkpoint, 0 at a fresh start.
        visible: What `visible_states` returns for the state.
    """
    position, index = subtask
    vertex = snapshot.vertices[position]
    state = vertex.subtasks[index]
    parts = {uid: snapshot.operators[uid].subtasks[index] for uid in vertex.operators}
    restores = {
        uid: OperatorRestore(part.lineage, part.state, events(uid, index), visible[uid].of(index))
        for uid, part in parts.items()
    }
    return SubtaskDispatch(
        vertex=position,
        subtask=index,
        history=history,
        operators=restores,
        input_watermark=state.input_watermark,
        is_new=not state.has_run,
        outputs=state.outputs,
        full_snapshot=any(needs_snapshot(part.lineage) for part in parts.values()),
        completed_checkpoint=completed_checkpoint,
    )


class VisibleState:
    """What each subtask of an operator starts from: its own state, and the union lists of all others.

    Args:
        subtasks: The subtasks. Only the files of subtasks with union lists are given to all others.
    """

    def __init__(self, subtasks: Sequence[OperatorSubtaskState]) -> None:
        self._subtasks = subtasks
        self._unions = [
            (owner, replace(handle, parts=parts))
            for owner, subtask in enumerate(subtasks)
            for handle in subtask.operator_state
            if (parts := _as_foreign(handle))
        ]

    def of(self, index: int) -> Lineage:
        """Return the files of one subtask, in the order of the subtasks, so that all see a union list in one order."""
        own = self._subtasks[index].operator_state
        if not self._unions:
            return own
        before = (handle for owner, handle in self._unions if owner < index)
        return (*before, *own, *(handle for owner, handle in self._unions if owner > index))


def _as_foreign(handle: StateHandle) -> tuple[StatePart, ...]:
    return tuple(replace(part, mode=StateMode.FOREIGN) for part in handle.parts if part.mode is StateMode.UNION)


def visible_states(snapshot: JobSnapshot) -> dict[str, VisibleState]:
    """Return by uid what the subtasks of each operator start from."""
    return {uid: VisibleState(operator.subtasks) for uid, operator in snapshot.operators.items()}


def edge_statuses(snapshot: JobSnapshot, graph: JobGraph, acks: Iterable[SubtaskAck] = ()) -> dict[int, EdgeStatus]:
    """Return the channel status of each edge that has one, for the dispatch of the next epoch.

    Args:
        snapshot: The state at the start of the epoch.
        graph: The job.
        acks: Those of the last epoch.
    """
    times: dict[int, list[SubtaskAck]] = {}
    for ack in acks:
        if ack.read_ms is not UNSET:
            times.setdefault(ack.vertex, []).append(ack)
    known: dict[int, EdgeStatus] = {}
    for edge in graph.edges:
        senders = snapshot.vertices[edge.source].subtasks
        if any(sender.finished or edge.id in sender.outputs for sender in senders):
            statuses = [_status(sender, edge.id) for sender in senders]
            known[edge.id] = EdgeStatus.of(statuses, _time_of(times.get(edge.source, ()), edge.id))
    return known


def _time_of(acks: Sequence[SubtaskAck], edge: int) -> ReadingTime | None:
    """Return for how long all senders of an edge could have read; idle ones are left out."""
    return ReadingTime.of_all(
        ReadingTime(ack.outputs[edge].idle, ack.read_ms)
        for ack in acks
        if edge in ack.outputs and not ack.finished and ack.read_ms is not UNSET
    )


def _status(sender: VertexSubtaskState, edge: int) -> ChannelStatus:
    return ENDED if sender.finished else sender.outputs.get(edge, UNKNOWN)


def notification(
    snapshot: JobSnapshot, ack: SubtaskAck, history: tuple[tuple[int, int], ...], completed_checkpoint: int
) -> SubtaskDispatch:
    """Return the dispatch that notifies the checkpoint listeners of a subtask which runs no further epoch.

    Args:
        snapshot: The state of that checkpoint.
        ack: The subtask's part in it.
        history: Accepted (checkpoint id, token) pairs of this run.
        completed_checkpoint: The checkpoint.
    """
    operators: dict[str, OperatorRestore] = {}
    for uid in ack.listeners:
        subtasks = snapshot.operators[uid].subtasks
        part = subtasks[ack.subtask]
        operators[uid] = OperatorRestore(part.lineage, part.state, (), VisibleState(subtasks).of(ack.subtask))
    return SubtaskDispatch(
        vertex=ack.vertex,
        subtask=ack.subtask,
        history=history,
        operators=operators,
        completed_checkpoint=completed_checkpoint,
        is_notification=True,
    )


def resumable(snapshot: JobSnapshot) -> JobSnapshot:
    """Return the state in which drained operators continue where they were, with new watermarks."""
    return replace(
        snapshot,
        vertices=tuple(
            replace(
                vertex,
                subtasks=tuple(VertexSubtaskState() if subtask.drained else subtask for subtask in vertex.subtasks),
            )
            for vertex in snapshot.vertices
        ),
        operators={
            uid: replace(
                operator,
                subtasks=tuple(
                    replace(subtask, finished=False, drained=False) if subtask.drained else subtask
                    for subtask in operator.subtasks
                ),
            )
            for uid, operator in snapshot.operators.items()
        },
    )


def state_files(snapshot: JobSnapshot) -> frozenset[str]:
    """Return the paths of all files that a checkpoint names."""
    return frozenset(
        handle.path
        for operator in snapshot.operators.values()
        for subtask in operator.subtasks
        for handle in (*subtask.lineage, *subtask.operator_state)
        if handle.path is not None
    )


def map_handles(snapshot: JobSnapshot, change: Callable[[StateHandle], StateHandle]) -> JobSnapshot:
    """Return the state with a function applied to every handle."""
    return replace(
        snapshot,
        operators={
            uid: replace(
                operator,
                subtasks=tuple(
                    replace(
                        subtask,
                        lineage=tuple(map(change, subtask.lineage)),
                        operator_state=tuple(map(change, subtask.operator_state)),
                    )
                    for subtask in operator.subtasks
                ),
            )
            for uid, operator in snapshot.operators.items()
        },
    )


def inline_limit(snapshot: JobSnapshot) -> int:
    """Return how many bytes each operator of a subtask may add to the metadata in the next epoch.

    Args:
        snapshot: The state at the start of the epoch.
    """
    subtasks = [subtask for operator in snapshot.operators.values() for subtask in operator.subtasks]
    files = [chain for subtask in subtasks for chain in (subtask.lineage, subtask.operator_state) if chain]
    inline = sum(handle.size for chain in files for handle in chain if handle.inline is not None)
    return max(0, _ROOM - inline) // (len(files) or len(subtasks) or 1)


def spill(snapshot: JobSnapshot, job_id: str, checkpoint_id: int) -> tuple[JobSnapshot, tuple[tuple[str, bytes], ...]]:
    """Move inline state to files, largest first, until the rest fits into the metadata.

    Args:
        snapshot: The state after an epoch.
        job_id: The job.
        checkpoint_id: The checkpoint.

    Returns:
        The state, and the files to write.
    """
    inline = [
        (handle, uid, index)
        for uid, operator in snapshot.operators.items()
        for index, subtask in enumerate(operator.subtasks)
        for handle in (*subtask.lineage, *subtask.operator_state)
        if handle.inline is not None
    ]
    excess = sum(handle.size for handle, _, _ in inline) - MAX_INLINE
    moved: dict[StateHandle, str] = {}
    files: list[tuple[str, bytes]] = []
    for handle, uid, index in sorted(inline, key=lambda item: item[0].size, reverse=True):
        if excess <= 0:
            break
        if handle in moved or handle.inline is None:
            continue
        suffix = ".operator" if handle.kind == "operator" else ".inline"
        moved[handle] = shared_path(job_id, uid, index, checkpoint_id, handle.token, suffix=suffix)
        files.append((moved[handle], handle.inline))
        excess -= handle.size
    if not moved:
        return snapshot, ()

    def change(handle: StateHandle) -> StateHandle:
        return replace(handle, path=moved[handle], inline=None) if handle in moved else handle

    return map_handles(snapshot, change), tuple(files)
