"""The rows of an epoch, read from Arrow batches and collected into Arrow batches of a suitable size."""

from __future__ import annotations

import struct
from array import array
from hashlib import blake2b
from hmac import compare_digest
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

import pyarrow as pa

from penstock._engine.protocol.rows import DRIVER
from penstock.errors import DamagedBlockError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: The fields of a row before its payload.
_HEAD: Final = struct.Struct("<iiiiqi")
_SEAL_BYTES: Final = 16
#: Where a damaged row comes from, behind "A block".
OF_PIPELINED: Final = "of a pipelined exchange"
#: An Arrow batch of this size is passed to Spark.
_READY_BYTES: Final = 1 << 20
_READY_ROWS: Final = 256


class ExchangeRow(NamedTuple):
    """One row, see `protocol.rows`."""

    #: The slot of the next level to or through which it is sent.
    slot: int
    target: int
    channel: int
    seq: int
    token: int
    kind: int
    payload: bytes


class RowSeals:
    """The seals of the rows to one level in an attempt at a pipelined epoch, whose exchange protects no row.

    Args:
        key: A secret of the run.
        epoch: Names the attempt: rows of another one do not pass.
        level: The level that reads the rows: those to another one do not pass.
    """

    def __init__(self, key: bytes, epoch: str, level: int) -> None:
        self._key = blake2b(f"{epoch} {level}".encode(), key=key, digest_size=32).digest()

    def seal(self, head: bytes | memoryview, payload: bytes | memoryview) -> bytes:
        """Return the seal of a row, which stands between its head and its payload."""
        seal = blake2b(head, key=self._key, digest_size=_SEAL_BYTES)
        seal.update(payload)
        return seal.digest()


def rows_of(batches: Iterable[pa.RecordBatch], seals: RowSeals | None = None, slot: int = 0) -> Iterator[ExchangeRow]:
    """Iterate the rows of Arrow batches.

    Args:
        batches: The batches.
        seals: Checks the rows; None where they have no seals.
        slot: The slot that reads rows with seals.

    Raises:
        DamagedBlockError: No task of this attempt has sent a row so to this slot.
    """
    for batch in batches:
        column = cast("pa.Array[Any]", cast("Any", batch).column(1))
        for place in range(len(column)):  # one at a time: a payload has megabytes
            yield _row_of(column[place].as_buffer(), seals, slot)


def _row_of(data: pa.Buffer | None, seals: RowSeals | None, slot: int) -> ExchangeRow:
    if data is None or data.size < _HEAD.size:  # made up: Spark's rows can have nulls
        raise DamagedBlockError(0 if data is None else data.size, OF_PIPELINED, "a part of it is missing")
    view = memoryview(cast("Any", data))
    head, rest = view[: _HEAD.size], view[_HEAD.size :]
    payload = rest if seals is None else rest[_SEAL_BYTES:]
    row = ExchangeRow(*_HEAD.unpack(head), payload=bytes(payload))
    if seals is None:
        return row
    if row.slot != slot or not compare_digest(seals.seal(head, payload), rest[:_SEAL_BYTES]):
        raise DamagedBlockError(len(rest), OF_PIPELINED, "no task of this job has sent it so")
    return row


def record_batch(rows: Sequence[ExchangeRow], seals: RowSeals | None = None) -> pa.RecordBatch:
    """Return rows as one Arrow batch: the slot of each, by which Spark partitions, and the whole row.

    Args:
        rows: The rows.
        seals: Seals them; None where they need no seals.
    """
    slots = pa.py_buffer(array("i", [row.slot for row in rows]))
    column: Any = pa.Array.from_buffers(pa.int32(), len(rows), [None, slots])
    ends, parts = array("i", [0]), list[bytes]()
    for row in rows:
        head = _HEAD.pack(*row[:-1])
        seal = b"" if seals is None else seals.seal(head, row.payload)
        parts += head, seal, row.payload
        ends.append(ends[-1] + len(head) + len(seal) + len(row.payload))
    data = _array(pa.binary(), ends, parts)
    return cast("Any", pa.RecordBatch).from_arrays([column, data], ["slot", "row"])


def text_batch(texts: Sequence[str]) -> pa.RecordBatch:
    """Return texts as one Arrow batch with one column."""
    parts = [text.encode() for text in texts]
    ends = array("i", accumulate(map(len, parts), initial=0))
    return cast("Any", pa.RecordBatch).from_arrays([_array(pa.string(), ends, parts)], ["text"])


def _array(kind: pa.DataType, ends: array[int], parts: Sequence[bytes]) -> pa.Array[Any]:
    """Return values that follow each other in the bytes of the parts, by the ends of the values."""
    return pa.Array.from_buffers(kind, len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(b"".join(parts))])


class RowTaker(Protocol):
    """Takes the rows that a subtask sends: a buffer of an epoch, or the result of a stage."""

    def add(self, row: ExchangeRow) -> None:
        """Add one row."""
        ...


class RowBuffer:
    """Collects rows into Arrow batches.

    Args:
        seals: Seals the rows; None where they need no seals.
    """

    def __init__(self, seals: RowSeals | None = None) -> None:
        self._seals = seals
        self._rows: list[ExchangeRow] = []
        self._bytes = 0

    def add(self, row: ExchangeRow) -> None:
        """Add one row."""
        self._rows.append(row)
        self._bytes += len(row.payload)

    @property
    def is_ready(self) -> bool:
        """Whether the rows are enough for an Arrow batch."""
        return self._bytes >= _READY_BYTES or len(self._rows) >= _READY_ROWS

    @property
    def slots(self) -> set[int]:
        """The slots that rows are for."""
        return {row.slot for row in self._rows}

    def drain(self) -> pa.RecordBatch:
        """Return all rows as one Arrow batch."""
        rows, self._rows, self._bytes = self._rows, [], 0
        return record_batch(rows, self._seals)

    def keep_driver_rows(self) -> None:
        """Drop all rows except the rows for the driver."""
        self._rows = [row for row in self._rows if row.target == DRIVER]
        self._bytes = sum(len(row.payload) for row in self._rows)
