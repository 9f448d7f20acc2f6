"""The rows of an epoch, read from Arrow batches and collected into Arrow batches of a suitable size."""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

import pyarrow as pa

from penstock._engine.protocol.rows import DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: The types of all columns but the payload, for `array` and Arrow; pa.array() would import all of pandas.
_TYPES: Final = (
    ("i", pa.int32()),
    ("i", pa.int32()),
    ("i", pa.int32()),
    ("i", pa.int32()),
    ("q", pa.int64()),
    ("i", pa.int32()),
)
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


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[ExchangeRow]:
    """Iterate the rows of Arrow batches."""
    for batch in batches:
        *heads, payloads = cast("list[Any]", batch.columns)  # pyright: ignore[reportUnknownMemberType]
        for place, head in enumerate(zip(*(column.to_pylist() for column in heads), strict=True)):
            yield ExchangeRow(*head, payload=payloads[place].as_py())  # one at a time: a payload has megabytes


def record_batch(rows: Sequence[ExchangeRow]) -> pa.RecordBatch:
    """Return rows as one Arrow batch."""
    *numbers, payloads = zip(*rows, strict=True) if rows else [()] * (len(_TYPES) + 1)
    arrays: list[Any] = [
        pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(array(code, column))])
        for (code, kind), column in zip(_TYPES, numbers, strict=True)
    ]
    arrays.append(_array(pa.binary(), payloads))
    return cast("Any", pa.RecordBatch).from_arrays(arrays, names=list(ExchangeRow._fields))


def text_batch(texts: Sequence[str]) -> pa.RecordBatch:
    """Return texts as one Arrow batch with one column."""
    return cast("Any", pa.RecordBatch).from_arrays([_array(pa.string(), [text.encode() for text in texts])], ["text"])


def _array(kind: pa.DataType, values: Sequence[bytes]) -> pa.Array[Any]:
    ends = pa.py_buffer(array("i", accumulate(map(len, values), initial=0)))
    return pa.Array.from_buffers(kind, len(values), [None, ends, pa.py_buffer(b"".join(values))])


class RowTaker(Protocol):
    """Takes the rows that a subtask sends: a buffer of an epoch, or the result of a stage."""

    def add(self, row: ExchangeRow) -> None:
        """Add one row."""
        ...


class RowBuffer:
    """Collects rows into Arrow batches."""

    def __init__(self) -> None:
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

    def drain(self) -> pa.RecordBatch:
        """Return all rows as one Arrow batch."""
        rows, self._rows, self._bytes = self._rows, [], 0
        return record_batch(rows)

    def keep_driver_rows(self) -> None:
        """Drop all rows except the rows for the driver."""
        self._rows = [row for row in self._rows if row.target == DRIVER]
        self._bytes = sum(len(row.payload) for row in self._rows)
