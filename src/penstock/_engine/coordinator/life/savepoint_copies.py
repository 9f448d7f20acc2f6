"""Makes savepoints of a running job, which are copies of a checkpoint.

The copy is of the next checkpoint that begins, and is made once all its commits are done. `stop` writes the savepoint
that a job stops with, with the same names for its files.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.snapshots import map_handles, state_files

if TYPE_CHECKING:
    from penstock._engine.coordinator.checkpoints.chain import ChainWriter
    from penstock._engine.coordinator.checkpoints.retention import CheckpointRetention, RetainedCheckpoint
    from penstock._engine.coordinator.epochs.job_state import JobState
    from penstock._engine.coordinator.instructions import Instruction, SavepointRequest
    from penstock._engine.coordinator.life.requests import PendingRequests
    from penstock._engine.protocol.metadata import JobSnapshot
    from penstock._engine.protocol.state_handle import StateHandle


class SavepointCopies:
    """The savepoints of a running job that are being written.

    Args:
        state: The state of the last checkpoint.
        requests: The open requests.
    """

    def __init__(self, state: JobState, requests: PendingRequests) -> None:
        self._state = state
        self._requests = requests
        #: By path: the request, and the checkpoint that is kept for it meanwhile.
        self._copying: dict[str, tuple[SavepointRequest, RetainedCheckpoint]] = {}

    @property
    def copying(self) -> bool:
        """Whether such a savepoint is being written, or will be once all is committed."""
        return bool(self._copying) or self._requests.wait_for_commits

    def copy(self, chain: ChainWriter, retention: CheckpointRetention, now_ms: int) -> list[Instruction]:
        """Copy the last checkpoint for its requests, if there are any and all its commits are done."""
        if not self._requests.wait_for_commits or self._state.ledger or chain.parent is None:
            return []
        # Committables that were given up since the checkpoint are not outstanding, and are lost in the copy as well.
        snapshot = self._state.snapshot.with_commits(self._state.commits)
        of = chain.parent.checkpoint_id
        entry = chain.savepoint(with_own_names(snapshot), now_ms, of=of)
        written: list[Instruction] = []
        for request in self._requests.take_completed():
            self._copying[request.path] = request, retention.pin(of, state_files(snapshot))
            written.append(do.WriteSavepoint(request.path, copies(snapshot), entry))
        return written

    def copied(
        self, path: str, error: Exception | None, chain: ChainWriter, retention: CheckpointRetention
    ) -> list[Instruction]:
        """Note that a copy is complete or has failed; the job continues."""
        if path not in self._copying:
            return []  # of a stop that was given up: the driver discards it
        request, pinned = self._copying.pop(path)
        return [*chain.deletion(retention.unpin(pinned)), *self._requests.answer(request, error)]


def copies(snapshot: JobSnapshot) -> tuple[tuple[str, str], ...]:
    """Return the files of a state, each with its name in a savepoint's directory."""
    return tuple((path, _own_name(path)) for path in sorted(state_files(snapshot)))


def with_own_names(snapshot: JobSnapshot) -> JobSnapshot:
    """Return the state with the names of its files in a savepoint's directory."""

    def change(handle: StateHandle) -> StateHandle:
        return handle if handle.path is None else replace(handle, path=_own_name(handle.path))

    return map_handles(snapshot, change)


def _own_name(path: str) -> str:
    return path.rpartition("/")[2]
