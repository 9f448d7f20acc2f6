"""Counts the splits that a bounded job has still to read, for its progress bar.

A split is with the enumerator, on its way or with a reader. Enumerators report waiting splits by a gauge, as Flink's
do; the others are in the last checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.protocol.control import decode
from penstock._engine.protocol.events import AddSplitsEvent, ReaderState, decode_event

if TYPE_CHECKING:
    from penstock._engine.driver.epochs.enumerators import Enumerators
    from penstock._engine.protocol.metadata import JobSnapshot, OperatorMetadata, SourceCoordinatorState


def unread_splits(enumerators: Enumerators, snapshot: JobSnapshot) -> int | None:
    """Return the number of splits that are not read to their end; None if an enumerator does not report its splits.

    Args:
        enumerators: The job's enumerators.
        snapshot: The job's last checkpoint.
    """
    waiting = enumerators.unassigned_splits()
    if waiting is None:
        return None
    sources = ((operator, operator.enumerator) for operator in snapshot.operators.values())
    return waiting + sum(_held(operator, state) for operator, state in sources if state is not None)


def _held(operator: OperatorMetadata, state: SourceCoordinatorState) -> int:
    """Return the number of splits of a source that its readers have, or that are on their way to them."""
    readers = (decode(part.state, ReaderState) for part in operator.subtasks if part.state and not part.finished)
    events = (decode_event(data) for events in state.undelivered.values() for data in events)
    on_the_way = sum(len(event.splits) for event in events if isinstance(event, AddSplitsEvent))
    return on_the_way + sum(len(reader.splits) for reader in readers)
