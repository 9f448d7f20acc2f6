"""Describes the contents of a savepoint or checkpoint as plain data, for ``penstock savepoint inspect`` and users.

It reads metadata and the indexes of files, and unpickles nothing: so it needs none of the user's classes, and untrusted
files are safe to inspect.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock._engine.coordinator.checkpoints.subtask_state import items_left
from penstock._engine.protocol.control import decode
from penstock._engine.protocol.events import AddSplitsEvent, ReaderState, decode_event
from penstock._engine.protocol.metadata import handles_of
from penstock._engine.protocol.rows import MIN_WATERMARK
from penstock._engine.protocol.state_handle import StateMode
from penstock._engine.savepoints.counting import KeyedStateCounter, KeyedStateInfo
from penstock._engine.savepoints.located import decoding, locate
from penstock._engine.savepoints.pending import CommittableInfo, pending_committables
from penstock._engine.savepoints.verification import verify_located

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._engine.protocol.metadata import (
        JobSnapshot,
        OperatorMetadata,
        OutstandingCommit,
        SourceCoordinatorState,
        VertexMetadata,
    )
    from penstock._engine.savepoints.located import LocatedCheckpoint


@dataclass(frozen=True, slots=True)
class OperatorStateInfo:
    """One operator state."""

    name: str
    #: "list", "union" or "broadcast".
    mode: str
    #: The number of items of a list over all subtasks; for a broadcast state, the number of maps, one in each subtask.
    items: int
    #: The items among them that no start assigns: list items of finished subtasks, and all items of a finished
    #: operator, unless it runs again.
    finished_items: int = 0


@dataclass(frozen=True, slots=True)
class AccumulatorInfo:
    """An accumulator of an operator."""

    name: str
    #: The name of its class.
    type: str
    #: Its value as text, shortened if it is long.
    value: str
    bytes: int


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """The position of a source; unassigned splits are in the enumerator's own state."""

    #: By subtask: the number of splits that its reader has.
    reader_splits: tuple[int, ...]
    #: The number of splits on their way: to a reader, or back to the enumerator.
    undelivered_splits: int
    #: The number of readers that have the signal of no more splits.
    complete_readers: int
    #: Bytes of the enumerator's state.
    enumerator_bytes: int


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """One operator and its state."""

    uid: str
    name: str
    #: Position in `SavepointInfo.vertices`.
    vertex: int
    parallelism: int
    max_parallelism: int
    keyed_states: tuple[KeyedStateInfo, ...]
    operator_states: tuple[OperatorStateInfo, ...]
    accumulators: tuple[AccumulatorInfo, ...]
    #: None for an operator that is not a source.
    source: SourceInfo | None
    #: Bytes of all its state, in files and in the metadata.
    bytes: int
    finished_subtasks: int
    #: Subtasks that finished because the job was drained: they continue from there.
    drained_subtasks: int
    #: Committables that are not known to be committed; a start from here commits them first.
    pending_committables: int
    #: Committables that it has yet to pass on to the operators behind their committer.
    committed_committables: int

    @property
    def has_state(self) -> bool:
        """Whether a job that starts from here needs an operator of this uid."""
        return bool(self.bytes or self.source or self.pending_committables or self.committed_committables)


@dataclass(frozen=True, slots=True)
class VertexInfo:
    """One vertex."""

    name: str
    #: Uids in chain order.
    operators: tuple[str, ...]
    #: By subtask, in epoch milliseconds; None before the first watermark.
    watermarks: tuple[int | None, ...]
    finished_subtasks: int


@dataclass(frozen=True, slots=True)
class SavepointInfo:
    """The description of a savepoint, a checkpoint, or another entry of a job's chain."""

    path: str
    #: "savepoint" or "checkpoint"; without state: "takeover", "finished", "drained", "suspended", "canceled", "failed".
    kind: str
    job_id: str
    job_name: str
    checkpoint_id: int
    created_ms: int
    penstock_version: str
    format_version: int
    #: The checkpoint before it, or the one that the job started from.
    parent: str | None
    #: The savepoint that the job stopped into.
    savepoint: str | None
    #: Why the job failed.
    reason: str
    vertices: tuple[VertexInfo, ...]
    #: In the order of the vertices and their chains.
    operators: tuple[OperatorInfo, ...]
    #: Oldest checkpoint first; of an entry without state: those of its parent that were left then.
    committables: tuple[CommittableInfo, ...]
    #: Files of state beside the metadata, and bytes of all state.
    files: int
    bytes: int
    #: The result of comparing all files with their checksums; None without.
    verified: bool


def inspect(
    path: str, *, verify: bool = False, count_keys: bool = False, options: Mapping[str, str] | None = None
) -> SavepointInfo:
    """Describe a savepoint or checkpoint.

    Args:
        path: Its directory or its metadata file: a local path or a URL.
        verify: Read all files and compare them with their checksums.
        count_keys: Count the keys also where there are deltas, which means reading all of them.
        options: Options of the object store.

    Raises:
        UnknownStateError: There is no savepoint or checkpoint at that path.
        CorruptCheckpointError: A file is damaged or missing; the error names it.
        UnsupportedFormatError: It is in a format that this version does not read.
        CheckpointStorageError: The path cannot be read.
    """
    located = locate(path, options)
    if verify:
        verify_located(located).check()
    with decoding(located.path):
        return _info(located, verified=verify, count_keys=count_keys)


def _info(located: LocatedCheckpoint, *, verified: bool, count_keys: bool) -> SavepointInfo:
    entry = located.entry
    snapshot = entry.snapshot
    sizes = {} if snapshot is None else {(handle.path, handle.inline): handle.size for handle in handles_of(snapshot)}
    return SavepointInfo(
        path=located.path,
        kind=entry.kind.value,
        job_id=entry.job_id,
        job_name=entry.job_name,
        checkpoint_id=entry.checkpoint_id,
        created_ms=entry.created_ms,
        penstock_version=entry.penstock_version,
        format_version=located.format,
        parent=None if entry.parent is None else entry.parent.path,
        savepoint=entry.savepoint,
        reason=entry.reason,
        vertices=() if snapshot is None else tuple(map(_vertex, snapshot.vertices)),
        operators=() if snapshot is None else _operators(located, snapshot, count_keys=count_keys),
        committables=pending_committables(entry),
        files=len({file for file, _ in sizes if file is not None}),
        bytes=sum(sizes.values()),
        verified=verified,
    )


def _vertex(vertex: VertexMetadata) -> VertexInfo:
    return VertexInfo(
        vertex.name,
        vertex.operators,
        tuple(None if part.watermark == MIN_WATERMARK else part.watermark for part in vertex.subtasks),
        sum(part.finished for part in vertex.subtasks),
    )


def _operators(located: LocatedCheckpoint, snapshot: JobSnapshot, *, count_keys: bool) -> tuple[OperatorInfo, ...]:
    pending, committed = _counted(snapshot.outstanding), _counted(snapshot.committed)
    return tuple(
        _operator(located, uid, snapshot.operators[uid], (pending[uid], committed[uid]), count_keys=count_keys)
        for vertex in snapshot.vertices
        for uid in vertex.operators
    )


def _counted(commits: Iterable[OutstandingCommit]) -> Counter[str]:
    """Return the number of committables by uid."""
    counted: Counter[str] = Counter()
    for commit in commits:
        counted[commit.uid] += len(commit.committables)
    return counted


def _operator(
    located: LocatedCheckpoint, uid: str, operator: OperatorMetadata, committables: tuple[int, int], *, count_keys: bool
) -> OperatorInfo:
    handles = [handle for part in operator.subtasks for handle in (*part.lineage, *part.operator_state)]
    sizes = {(handle.path, handle.inline): handle.size for handle in handles}
    states = sum(len(part.state) for part in operator.subtasks if part.state is not None)
    accumulators = tuple(
        AccumulatorInfo(name, stored.type.rpartition(".")[2], stored.text, len(stored.data))
        for name, stored in sorted(operator.accumulators.items())
    )
    return OperatorInfo(
        uid=uid,
        name=operator.name,
        vertex=operator.vertex,
        parallelism=operator.parallelism,
        max_parallelism=operator.max_parallelism,
        keyed_states=KeyedStateCounter(located, operator).count(exactly=count_keys),
        operator_states=_operator_states(operator),
        accumulators=accumulators,
        source=None if operator.enumerator is None else _source(operator, operator.enumerator),
        bytes=sum(sizes.values())
        + states
        + (len(operator.enumerator.state) if operator.enumerator else 0)
        + sum(accumulator.bytes for accumulator in accumulators),
        finished_subtasks=sum(part.finished for part in operator.subtasks),
        drained_subtasks=sum(part.drained for part in operator.subtasks),
        pending_committables=committables[0],
        committed_committables=committables[1],
    )


def _operator_states(operator: OperatorMetadata) -> tuple[OperatorStateInfo, ...]:
    items: Counter[tuple[str, str]] = Counter()
    for subtask in operator.subtasks:
        for handle in subtask.operator_state:
            for part in handle.parts:
                items[part.name, part.mode.value] += len(part.places())
    if operator.finished and not operator.drained:
        return tuple(OperatorStateInfo(*name, count, count) for name, count in sorted(items.items()))
    left = items_left(operator.subtasks)
    return tuple(
        OperatorStateInfo(name, mode, count, left[name] if mode == StateMode.LIST.value else 0)
        for (name, mode), count in sorted(items.items())
    )


def _source(operator: OperatorMetadata, enumerator: SourceCoordinatorState) -> SourceInfo:
    readers = [decode(part.state, ReaderState) if part.state else ReaderState() for part in operator.subtasks]
    events = [decode_event(data) for events in enumerator.undelivered.values() for data in events]
    return SourceInfo(
        reader_splits=tuple(len(reader.splits) for reader in readers),
        undelivered_splits=sum(len(event.splits) for event in events if isinstance(event, AddSplitsEvent))
        + sum(len(returned.splits) for returned in enumerator.returned),
        complete_readers=sum(reader.no_more_splits for reader in readers),
        enumerator_bytes=len(enumerator.state),
    )
