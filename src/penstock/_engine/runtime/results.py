"""The results that stages of a batch job store for later stages: files with the rows of an attempt, by receiver.

A subtask collects its rows and writes a file whenever it has enough of them. A file has a section for each receiver,
compressed, and an index at its end, which says where each section is and what its digest is. Sections are unpickled, so
the ack has the digest of the index: files from elsewhere are refused. A file is named by its attempt, and the acks that
count name the attempts, so what other attempts have written is never read.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec
import pyarrow as pa

from penstock._engine.graph.job_graph import PartitionerKind
from penstock._engine.protocol.control import ResultFile, decode, encode
from penstock._engine.protocol.paths import result_path
from penstock._engine.protocol.row_sums import row_weight
from penstock._engine.protocol.rows import split_channel, subtask_target, target_subtask
from penstock.errors import CorruptCheckpointError, LostResultError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock._engine.graph.job_graph import JobEdge
    from penstock._engine.plan.levels import ExecutionPlan
    from penstock._engine.protocol.control import JobDispatch, ResultPartition
    from penstock._engine.runtime.row_buffer import ExchangeRow
    from penstock._engine.storage.checkpoint_storage import FileStorage

#: The bytes of rows in a file before compression, which a subtask holds in memory.
FILE_BYTES: Final = 16 << 20
_CODEC: Final = "lz4"


class ResultRow(NamedTuple):
    """A row of a result, see `protocol.rows`."""

    target: int
    channel: int
    kind: int
    payload: bytes
    #: What it adds to the sum of the rows that were read, see `protocol.row_sums`.
    weight: int


class _ResultSection(msgspec.Struct, frozen=True, array_like=True):
    """The rows for one receiver in a file: where they begin, their bytes, those after decompression, the digest."""

    start: int
    size: int
    raw_size: int
    digest: bytes


class _StoredRow(msgspec.Struct, frozen=True, array_like=True):
    channel: int
    kind: int
    payload: bytes


class ResultWriter:
    """Takes the rows of one attempt at a subtask, as `RowBuffer` does, and writes them to files.

    Args:
        storage: The checkpoint storage.
        job: Names the files.
        subtask: The vertex and the subtask.
        token: The attempt.
    """

    def __init__(self, storage: FileStorage, job: JobDispatch, subtask: tuple[int, int], token: int) -> None:
        self._storage = storage
        self._job = job
        self._subtask = subtask
        self._token = token
        self._rows: dict[int, list[_StoredRow]] = {}
        self._size = 0
        self._files: list[ResultFile] = []
        #: The bytes of the rows so far, before compression, by edge and receiver.
        self.bytes: dict[int, dict[int, int]] = {}

    def add(self, row: ExchangeRow) -> None:
        """Add one row."""
        size, (edge, _), (_, receiver) = len(row.payload), split_channel(row.channel), target_subtask(row.target)
        self._rows.setdefault(row.target, []).append(_StoredRow(row.channel, row.kind, row.payload))
        sizes = self.bytes.setdefault(edge, {})
        sizes[receiver] = sizes.get(receiver, 0) + size
        self._size += size
        if self._size >= FILE_BYTES:
            self._write()

    def finish(self) -> tuple[ResultFile, ...]:
        """Write the remaining rows, and return the files for the ack."""
        if self._rows:
            self._write()
        return tuple(self._files)

    def _write(self) -> None:
        body, index = bytearray(), dict[int, _ResultSection]()
        for target, rows in sorted(self._rows.items()):
            raw = encode(rows)
            section: bytes = cast("Any", pa).compress(raw, codec=_CODEC, asbytes=True)
            index[target] = _ResultSection(len(body), len(section), len(raw), sha256(section).digest())
            body += section
        path = result_path(self._job.job_id, self._job.run_id, self._subtask, self._token, len(self._files))
        tail = encode(index)
        self._storage.put(path, bytes(body) + tail)
        self._files.append(ResultFile(len(body) + len(tail), len(tail), sha256(tail).digest()))
        self._rows, self._size = {}, 0


class ResultReader:
    """Reads the results of earlier stages.

    Args:
        storage: The checkpoint storage.
        job: As for `ResultWriter`.
        plan: The job's plan.
        results: The results that count, in the order of their senders.
    """

    def __init__(
        self, storage: FileStorage, job: JobDispatch, plan: ExecutionPlan, results: tuple[ResultPartition, ...]
    ) -> None:
        self._storage = storage
        self._job = job
        self._plan = plan
        self._results = results

    def rows(self, vertex: int, receivers: range) -> Iterator[ResultRow]:
        """Iterate the rows for some receivers: input after input, a broadcast one first, in the order of the senders.

        Args:
            vertex: The vertex of the receivers.
            receivers: One receiver, or several whose input one subtask reads. A broadcast input is read once.

        Raises:
            LostResultError: A file is missing, or differs from what its attempt wrote.
        """
        weights = {
            subtask_target(vertex, receiver): row_weight(subtask_target(vertex, receiver)) for receiver in receivers
        }
        for edge in sorted(self._plan.inputs[vertex], key=_turn):
            senders = {sender for receiver in receivers for sender in self._plan.senders(edge, receiver)}
            read = weights
            if edge.partitioner is PartitionerKind.BROADCAST:
                read = {min(weights): sum(weights.values())}
            for result in self._results:
                if result.vertex == edge.source and result.subtask in senders:
                    yield from self._rows_of(result, edge.id, read)

    def _rows_of(self, result: ResultPartition, edge: int, weights: Mapping[int, int]) -> Iterator[ResultRow]:
        place = result.vertex, result.subtask
        for number, file in enumerate(result.files):
            path = result_path(self._job.job_id, result.run_id, place, result.token, number)
            try:
                index = self._index(path, file)
                sections = [(target, self._section(path, index[target])) for target in weights if target in index]
            except CorruptCheckpointError as error:
                raise LostResultError(error.path, error.reason, *place) from error
            for target, rows in sections:
                for row in rows:
                    if split_channel(row.channel)[0] == edge:
                        yield ResultRow(target, row.channel, row.kind, row.payload, result.token * weights[target])

    def _index(self, path: str, file: ResultFile) -> dict[int, _ResultSection]:
        tail = self._storage.read_range(path, file.size - file.index_size, file.index_size)
        return decode(self._checked(path, tail, file.digest), dict[int, _ResultSection])

    def _checked(self, path: str, data: bytes, digest: bytes) -> bytes:
        if sha256(data).digest() != digest:
            reason = "it was damaged or replaced (its bytes do not match their digest)"
            raise CorruptCheckpointError(self._storage.full_path(path), reason)
        return data

    def _section(self, path: str, section: _ResultSection) -> list[_StoredRow]:
        data = self._checked(path, self._storage.read_range(path, section.start, section.size), section.digest)
        raw: bytes = cast("Any", pa).decompress(data, section.raw_size, codec=_CODEC, asbytes=True)
        return decode(raw, list[_StoredRow])


def _turn(edge: JobEdge) -> tuple[bool, int, int]:
    """Return the place of an edge in the order in which inputs are read."""
    return edge.partitioner is not PartitionerKind.BROADCAST, edge.input_index, edge.id
