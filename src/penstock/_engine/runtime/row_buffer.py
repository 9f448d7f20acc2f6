"""Rows on their way out of a task, gathered into Arrow batches of a useful size."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_COLUMNS: Final = ("slot", "target", "channel", "seq", "token", "kind", "payload")
_TYPES: Final = (pa.int32(), pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.int32(), pa.binary())
#: An Arrow batch is handed to Spark once it holds that much.
_READY_BYTES: Final = 1 << 20
_READY_ROWS: Final = 256


class RowBuffer:
    """Takes rows, gives Arrow batches."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, int, int, int, bytes]] = []
        self._bytes = 0

    def add(self, slot: int, target: int, channel: int, seq: int, token: int, kind: int, payload: bytes) -> None:
        """Take one row."""
        self._rows.append((slot, target, channel, seq, token, kind, payload))
        self._bytes += len(payload)

    @property
    def is_ready(self) -> bool:
        """Whether there is enough for an Arrow batch."""
        return self._bytes >= _READY_BYTES or len(self._rows) >= _READY_ROWS

    def __len__(self) -> int:
        return len(self._rows)

    def drain(self) -> pa.RecordBatch:
        """Return all rows as one Arrow batch."""
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(_COLUMNS)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, _TYPES, strict=True)]
        self.clear()
        return pa.RecordBatch.from_arrays(arrays, names=list(_COLUMNS))

    def clear(self) -> None:
        """Drop all rows."""
        self._rows = []
        self._bytes = 0
