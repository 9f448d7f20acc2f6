"""Finds the splits that finished readers left unread; they return to the enumerator, which assigns them again.

A reader's state holds its splits, also after it finished without reading them to their end. Splits on the way to it are
among the undelivered events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.protocol.control import decode
from penstock._engine.protocol.events import AddSplitsEvent, ReaderState, decode_event
from penstock._engine.protocol.metadata import ReturnedSplits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.protocol.metadata import JobSnapshot, OperatorMetadata, OperatorSubtaskState


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
