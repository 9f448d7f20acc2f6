"""The state of one subtask's operators: its local stores, and its files in the checkpoint storage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.protocol.control import encode
from penstock._engine.protocol.key_groups import key_group_range
from penstock._engine.protocol.paths import part_suffix, shared_path, staged_path
from penstock._engine.protocol.signing import file_digest
from penstock._engine.protocol.state_handle import StateMode
from penstock._engine.state.backend import MemoryBackend
from penstock._engine.state.keyed_state import KeyedState
from penstock._engine.state.local.local_backend import LocalBackend
from penstock._engine.state.operator_state import describe
from penstock.common.configuration import Configuration
from penstock.common.option_table import CHECKPOINT_INLINE_THRESHOLD, STATE_MEMORY

if TYPE_CHECKING:
    from penstock._engine.graph.job_graph import JobVertex
    from penstock._engine.operators.base import EpochContext
    from penstock._engine.protocol.control import JobDispatch, OperatorAck
    from penstock._engine.protocol.state_handle import StateHandle, StatePart
    from penstock._engine.storage.checkpoint_storage import FileStorage
    from penstock._engine.storage.local_state import LocalStateDirectory

#: Operator state with a union list above this size is a file: every subtask gets the handles of all subtasks.
_INLINE_UNION_BYTES: Final = 1 << 10
#: Outputs of print and collect above this size are files in the storage; the ack has the path.
_INLINE_OUTPUT_BYTES: Final = 64 << 10


class SubtaskState:
    """Creates the keyed state of one subtask, and reads and writes its state files."""

    def __init__(
        self,
        vertex: JobVertex,
        subtask: int,
        job: JobDispatch,
        storage: FileStorage,
        local: LocalStateDirectory,
    ) -> None:
        self._vertex = vertex
        self._subtask = subtask
        self._storage = storage
        self._job_id, self._run_id = job.job_id, job.run_id
        self._local = local
        configuration = Configuration.from_dict(job.configuration)
        self._inline_bytes = configuration.get(CHECKPOINT_INLINE_THRESHOLD)
        self._memory_bytes = configuration.get(STATE_MEMORY)
        self._read_bytes = 0

    def keyed_state(self, uid: str) -> KeyedState:
        """Return the new keyed state of an operator, over its local directory."""
        vertex = self._vertex
        name = Path(shared_path(self._job_id, uid, self._subtask, 0, 0)).name.rsplit("-", 2)[0]
        backend = LocalBackend(
            self._local.hold() / name,
            key_group_range(self._subtask, vertex.parallelism, vertex.max_parallelism),
            vertex.max_parallelism,
            self._memory_bytes,
            owner=(uid, self._subtask),
            run_id=self._run_id,
        )
        return KeyedState(backend, self.read)

    def read(self, handle: StateHandle) -> bytes:
        """Return the bytes of a state file."""
        if handle.inline is not None:
            data = handle.inline
        else:
            assert handle.path is not None
            data = self._storage.read_sized(handle.path, handle.size)
        self._read_bytes += len(data)
        return data

    def take_read_bytes(self) -> int:
        """Return how many bytes of state files were read since the last call."""
        count, self._read_bytes = self._read_bytes, 0
        return count

    def save_keyed(self, uid: str, store: KeyedState, epoch: EpochContext) -> tuple[StateHandle, ...]:
        """Write keyed state into the checkpoint; nothing when nothing changed."""
        if not epoch.full_snapshot:
            data = store.delta(epoch.checkpoint_id, epoch.token)
            return () if data is None else (self._saved(uid, store, data, epoch, number=0),)
        files = enumerate(store.snapshot(epoch.checkpoint_id, epoch.token))
        return tuple(self._saved(uid, store, data, epoch, number) for number, data in files)

    def _saved(self, uid: str, store: KeyedState, data: bytes, epoch: EpochContext, number: int) -> StateHandle:
        """Write one file of keyed state into the checkpoint, or its handle."""
        path = None
        if number or len(data) > self._limit(epoch):
            path = self._put(uid, data, epoch, suffix=part_suffix(number))
        kind = "snapshot" if epoch.full_snapshot else "delta"
        return store.describe(data, kind, epoch.checkpoint_id, epoch.token, path)

    def save_operator(self, uid: str, data: bytes, parts: tuple[StatePart, ...], epoch: EpochContext) -> StateHandle:
        """Write a file of operator state into the checkpoint."""
        limit = self._limit(epoch)
        if any(part.mode is StateMode.UNION for part in parts):
            limit = min(limit, _INLINE_UNION_BYTES)
        path = self._put(uid, data, epoch, suffix=".operator") if len(data) > limit else None
        return describe(data, parts, epoch.checkpoint_id, epoch.token, path)

    def _limit(self, epoch: EpochContext) -> int:
        """Return the most bytes of a file that is in the ack."""
        return min(self._inline_bytes, epoch.inline_bytes)

    def with_outputs_outside(self, uid: str, ack: OperatorAck, epoch: EpochContext) -> OperatorAck:
        """Move large outputs into a file in the storage."""
        if sum(map(len, ack.outputs)) <= _INLINE_OUTPUT_BYTES:
            return ack
        data = encode(ack.outputs)
        path = self._put(uid, data, epoch, suffix=".out")
        return replace(ack, outputs=(), outputs_path=path, outputs_digest=file_digest(data))

    def stage(self, uid: str, data: bytes, epoch: EpochContext, number: int) -> str:
        """Write a file of a sink's writer for its committer, and return its full path."""
        attempt = self._subtask, epoch.checkpoint_id, epoch.token
        path = staged_path(self._job_id, self._run_id, uid, attempt, number)
        self._storage.put(path, data)
        return self._storage.full_path(path)

    def _put(self, uid: str, data: bytes, epoch: EpochContext, *, suffix: str = "") -> str:
        path = shared_path(self._job_id, uid, self._subtask, epoch.checkpoint_id, epoch.token, suffix=suffix)
        self._storage.put(path, data)
        return path


class TransientState(SubtaskState):
    """The state of a batch job: it holds one key at a time, in memory, and is in no checkpoint."""

    def keyed_state(self, uid: str) -> KeyedState:
        """Return new keyed state in memory."""
        del uid
        most = self._vertex.max_parallelism
        return KeyedState(MemoryBackend(range(most), most), self.read)

    def save_keyed(self, uid: str, store: KeyedState, epoch: EpochContext) -> tuple[StateHandle, ...]:
        """Return nothing, because the state is in no checkpoint."""
        del uid, store, epoch
        return ()
