"""What the state of subtasks in a checkpoint holds for others: lists, maps and splits, and who continues with them.

It works on state handles and on readers' states alone, and reads no file. A reader's state holds its splits, also after
it finished without reading them to their end: those return to the enumerator, which assigns them again. Splits on the
way to a reader are among the undelivered events.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from penstock._engine.protocol.control import decode
from penstock._engine.protocol.events import AddSplitsEvent, ReaderState, decode_event
from penstock._engine.protocol.metadata import ReturnedSplits
from penstock._engine.protocol.state_handle import StateMode, StatePart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock._engine.protocol.metadata import JobSnapshot, OperatorMetadata, OperatorSubtaskState
    from penstock._engine.protocol.state_handle import Lineage, StateHandle


#: A subtask: position of its vertex, and its index.
Subtask: TypeAlias = tuple[int, int]


def redistribute(subtasks: Sequence[OperatorSubtaskState], parallelism: int) -> list[Lineage]:
    """Return the operator state of each of `parallelism` new subtasks.

    List items are dealt round-robin, but those of finished subtasks: the state of an operator is composed of the states
    of the subtasks still executing (FLIP-147). Each item of a union list gets one owner, and all subtasks see it, also
    those of finished subtasks. A broadcast map is copied from a running subtask, or from a finished one if none runs.

    Args:
        subtasks: All old subtasks of the operator.
        parallelism: The number of new ones.
    """
    dealt: list[list[StateHandle]] = [[] for _ in range(parallelism)]
    counts: Counter[str] = Counter()
    models = _models(subtasks)
    for old, subtask in enumerate(subtasks):
        for handle in subtask.operator_state:
            owned = [part for part in handle.parts if not (subtask.finished and part.mode is StateMode.LIST)]
            for new in range(parallelism):
                whole = {
                    StateMode.UNION: new == old % parallelism,
                    StateMode.BROADCAST: bool(models) and models[new % len(models)] == old,
                }
                parts = tuple(
                    share
                    for part in owned
                    if (share := part if whole.get(part.mode) else _items(part, new - counts[part.name], parallelism))
                )
                if parts:
                    dealt[new].append(replace(handle, parts=parts))
            counts.update({part.name: len(part.places()) for part in owned})
    return [tuple(handles) for handles in dealt]


def _items(part: StatePart, offset: int, parallelism: int) -> StatePart | None:
    """Return every `parallelism`-th item of a list; None for other states, and where there is none."""
    share = part.places()[offset % parallelism :: parallelism]
    return (
        replace(part, start=share.start, stop=share.stop, step=share.step)
        if part.mode is StateMode.LIST and share
        else None
    )


def items_left(subtasks: Sequence[OperatorSubtaskState]) -> Counter[str]:
    """Return how many list items finished subtasks have left, by the names of their states; no other subtask gets them.

    Args:
        subtasks: All subtasks of an operator.
    """
    left: Counter[str] = Counter()
    for subtask in subtasks:
        if subtask.finished and not subtask.drained:
            lists = [part for handle in subtask.operator_state for part in handle.parts if part.mode is StateMode.LIST]
            for part in lists:
                left[part.name] += len(part.places())
    return left


def _models(subtasks: Sequence[OperatorSubtaskState]) -> list[int]:
    """Return the subtasks whose broadcast maps are copied: running ones, or else all that have any."""
    having = [
        index
        for index, subtask in enumerate(subtasks)
        if any(part.mode is StateMode.BROADCAST for handle in subtask.operator_state for part in handle.parts)
    ]
    return [index for index in having if not subtasks[index].finished] or having


def left_unread(state: bytes | None) -> bytes | None:
    """Return the part of a finished reader's state that a checkpoint keeps: None if it read all its splits."""
    return state if state is not None and decode(state, ReaderState).splits else None


def left_by_writer(state: bytes | None) -> bytes | None:
    """Return the part of a finished writer's state that a checkpoint keeps, for other writers to continue with."""
    return state if state is not None and decode(state, list[bytes]) else None


def unread_splits(snapshot: JobSnapshot) -> dict[str, int]:
    """Return the number of splits that finished readers left unread, by the uid of the source.

    They are read only if a later start lets the source continue. A drained source continues, so it counts none.
    """
    counts = {
        uid: sum(map(_count_left, operator.subtasks))
        for uid, operator in snapshot.operators.items()
        if operator.enumerator is not None
    }
    return {uid: count for uid, count in counts.items() if count}


def _count_left(reader: OperatorSubtaskState) -> int:
    if not reader.finished or reader.drained or reader.state is None:
        return 0
    return len(decode(reader.state, ReaderState).splits)


def on_the_way(subtask: int, events: Iterable[bytes]) -> tuple[ReturnedSplits, ...]:
    """Return the splits in events that will not be delivered to their reader."""
    decoded = map(decode_event, events)
    return tuple(ReturnedSplits(subtask, one.splits, one.version) for one in decoded if isinstance(one, AddSplitsEvent))


def splits_of(source: OperatorMetadata) -> tuple[ReturnedSplits, ...]:
    """Return the splits that the readers of a source hold, and the ones on the way to them."""
    undelivered = source.enumerator.undelivered if source.enumerator else {}
    returned: list[ReturnedSplits] = []
    for index, part in enumerate(source.subtasks):
        if part.state is not None:
            state = decode(part.state, ReaderState)
            returned.append(ReturnedSplits(index, state.splits, state.version))
        returned += on_the_way(index, undelivered.get(index, ()))
    return tuple(part for part in returned if part.splits)
