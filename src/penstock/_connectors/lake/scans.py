"""What the sources of tables share: splits of packed files, their enumerator and their reader.

A scan is pinned when the job begins: the table's version, the columns and the predicate. It is a part of each split, so
a restored split continues as it began, whatever has become of the table and of the program since.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock._api.connectors.enumerator_base import SplitQueueEnumerator
from penstock._api.connectors.reader import InputStatus
from penstock._api.connectors.reader_base.sequential import SequentialSourceReader, SplitCursor
from penstock._api.connectors.serializer import SimpleVersionedSerializer
from penstock._api.connectors.split import SourceSplit

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    import pyarrow as pa

    from penstock._api.connectors.reader import SourceOutput, SourceReaderContext

#: Rows of a batch: columns need no Python object for each of them.
BATCH_ROWS = 16_384
_SPLIT_BYTES = 32 * 1024 * 1024
_LEAST_SPLIT_BYTES = 1024 * 1024
_SPLITS_PER_READER = 4
#: Files of one split: an open split is written into each checkpoint.
_MOST_PIECES = 500


@dataclass(frozen=True, slots=True)
class Piece:
    """A data file of a table, or the part of it that begins in a range of its bytes.

    Args:
        file: What the scan needs to read it: plain data.
        start: The first byte of the range.
        end: The byte behind it.
    """

    file: Any
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ScanSplit(SourceSplit):
    """Some files of a scan, and the read position.

    Args:
        name: Its name within the source.
        scan: The pinned scan, as bytes of the source.
        pieces: The files.
        piece: The file that is read.
        unit: The part of it that is read, such as a row group, in the units of the scan.
        rows: The emitted rows of that part.
    """

    name: str
    scan: bytes
    pieces: tuple[Piece, ...]
    piece: int = 0
    unit: int = 0
    rows: int = 0

    def split_id(self) -> str:
        """Return its name."""
        return self.name


def pack(prefix: str, scan: bytes, pieces: Iterable[Piece], readers: int, *, divisible: bool) -> list[ScanSplit]:
    """Return splits of about the same size: large files are cut if they can be, and small ones put together.

    Args:
        prefix: The first part of the splits' names, unique among the scans of a source.
        scan: The scan that all of them belong to.
        pieces: The files, in the order in which they are to be read.
        readers: The number of readers, each of which is to get several splits.
        divisible: Whether ranges of a file can be read by themselves.
    """
    files = list(pieces)
    total = sum(file.end - file.start for file in files)
    wanted = min(_SPLIT_BYTES, max(_LEAST_SPLIT_BYTES, total // (readers * _SPLITS_PER_READER)))
    splits: list[ScanSplit] = []
    group: list[Piece] = []
    size = 0
    for piece in (part for file in files for part in (_cut(file, wanted) if divisible else [file])):
        if group and (size + piece.end - piece.start > wanted or len(group) == _MOST_PIECES):
            splits.append(ScanSplit(f"{prefix}-{len(splits)}", scan, tuple(group)))
            group, size = [], 0
        group.append(piece)
        size += piece.end - piece.start
    if group:
        splits.append(ScanSplit(f"{prefix}-{len(splits)}", scan, tuple(group)))
    return splits


def _cut(file: Piece, wanted: int) -> list[Piece]:
    size = file.end - file.start
    parts = max(1, round(size / wanted))
    bounds = [file.start + size * part // parts for part in range(parts + 1)]
    return [replace(file, start=bounds[part], end=bounds[part + 1]) for part in range(parts)]


class ScanSplitSerializer(SimpleVersionedSerializer[ScanSplit]):
    """Writes plain data, so that classes may move."""

    def get_version(self) -> int:
        """Return 1, the only version."""
        return 1

    def serialize(self, obj: ScanSplit) -> bytes:
        """Return the bytes of a split."""
        return pickle.dumps(_plain(obj))

    def deserialize(self, version: int, serialized: bytes) -> ScanSplit:
        """Return the split from its bytes."""
        del version
        return _split(pickle.loads(serialized))


class ScanSplitsSerializer(SimpleVersionedSerializer[tuple[ScanSplit, ...]]):
    """Writes all unassigned splits; a scan that they share is written once."""

    def get_version(self) -> int:
        """Return 1, the only version."""
        return 1

    def serialize(self, obj: tuple[ScanSplit, ...]) -> bytes:
        """Return the bytes of the splits."""
        return pickle.dumps(tuple(map(_plain, obj)))

    def deserialize(self, version: int, serialized: bytes) -> tuple[ScanSplit, ...]:
        """Return the splits from their bytes."""
        del version
        return tuple(map(_split, pickle.loads(serialized)))


def _plain(split: ScanSplit) -> tuple[Any, ...]:
    pieces = tuple((piece.file, piece.start, piece.end) for piece in split.pieces)
    return split.name, split.scan, pieces, split.piece, split.unit, split.rows


def _split(plain: tuple[Any, ...]) -> ScanSplit:
    name, scan, pieces, *position = plain
    return ScanSplit(name, scan, tuple(Piece(*piece) for piece in pieces), *position)


class ScanEnumerator(SplitQueueEnumerator[ScanSplit, tuple[ScanSplit, ...]]):
    """Assigns the splits of one scan, which all are known when it is made."""

    def snapshot_state(self, checkpoint_id: int) -> tuple[ScanSplit, ...]:
        """Return the unassigned splits, each with its scan."""
        del checkpoint_id
        return tuple(self.waiting_splits)


class PinnedScan(ABC):
    """Reads the files of a pinned scan."""

    @abstractmethod
    def read(self, piece: Piece, unit: int) -> Generator[tuple[int, pa.RecordBatch]]:
        """Read a file from a part of it on; yield batches, each with the number of its part.

        Raises:
            SourceFileGoneError: The file no longer exists.
            SourceFileError: It cannot be read.
        """


class ScanReader(SequentialSourceReader[Any, ScanSplit]):
    """Reads splits of pinned scans as columns; a subclass opens the scans."""

    emits_new_records = True

    def __init__(self, context: SourceReaderContext) -> None:
        super().__init__(context)
        self._opened: tuple[bytes, PinnedScan] | None = None

    @abstractmethod
    def open_scan(self, scan: bytes) -> PinnedScan:
        """Open a scan; runs once for the splits of one scan that follow each other."""

    def open_split(self, split: ScanSplit) -> SplitCursor[Any, ScanSplit]:
        """Open a split at its position."""
        if self._opened is None or self._opened[0] != split.scan:
            self._opened = split.scan, self.open_scan(split.scan)
        return _ScanCursor(self._opened[1], split)


class _ScanCursor(SplitCursor[Any, ScanSplit]):
    def __init__(self, scan: PinnedScan, split: ScanSplit) -> None:
        self._scan, self._split = scan, split
        self._batches: Generator[tuple[int, pa.RecordBatch]] | None = None
        #: The rows of the current part that were emitted before a restore and are still to be read past.
        self._skip = split.rows
        #: The current batch, its length, and the rows of it that were emitted.
        self._batch: Any = ()
        self._size = self._at = 0

    def poll_next(self, output: SourceOutput[Any]) -> InputStatus:
        if self._at == self._size and not self._next_batch():
            return InputStatus.END_OF_INPUT
        rows: pa.RecordBatch = self._batch.slice(self._at, min(output.wanted, BATCH_ROWS))
        self._at += rows.num_rows
        self._split = replace(self._split, rows=self._split.rows + rows.num_rows)
        output.collect_batch(rows)
        return InputStatus.MORE_AVAILABLE

    def _next_batch(self) -> bool:
        """Read the next batch that has rows; tell whether there was one."""
        while self._split.piece < len(self._split.pieces):
            if self._batches is None:
                self._batches = self._scan.read(self._split.pieces[self._split.piece], self._split.unit)
            found = next(self._batches, None)
            if found is None:
                self._batches, self._skip = None, 0
                self._split = replace(self._split, piece=self._split.piece + 1, unit=0, rows=0)
                continue
            unit, self._batch = found
            if unit != self._split.unit:
                self._split, self._skip = replace(self._split, unit=unit, rows=0), 0
            self._size = self._batch.num_rows
            self._at = min(self._skip, self._size)
            self._skip -= self._at
            if self._at < self._size:
                return True
        return False

    def snapshot(self) -> ScanSplit:
        return self._split

    def close(self) -> None:
        batches, self._batches = self._batches, None
        if batches is not None:
            batches.close()
