"""Keeps small state inside the metadata of a checkpoint, as long as it has room for it.

Tasks put state that is too large for their acks into files, all at the same time. What they may put into acks follows
from the room that is left, so the driver, which would write one file after the other, seldom has to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.checkpoints.snapshots import map_handles
from penstock._engine.protocol.paths import shared_path

if TYPE_CHECKING:
    from penstock._engine.protocol.metadata import JobSnapshot
    from penstock._engine.protocol.state_handle import StateHandle

#: The limit in bytes of state inside the metadata of one checkpoint.
MAX_INLINE: Final = 1 << 20
#: What acks may fill of it.
_ROOM: Final = MAX_INLINE


def room(snapshot: JobSnapshot) -> int:
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
