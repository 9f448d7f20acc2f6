"""Sorts the records of keys in bounded memory: by key, within a key by timestamp, then in the order of arrival.

Records are collected by key. When they exceed the memory, all records in memory are sorted and written to a file as one
*run*; at the end the runs and the rest in memory are merged. Keys are ordered by their canonical encoding, so the order
is the same whatever was spilled.
"""

from __future__ import annotations

import contextlib
import pickle
import shutil
import tempfile
from array import array
from heapq import merge
from operator import attrgetter
from struct import Struct
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from penstock._engine.protocol.keys import NormalKey, encode_normal
from penstock._engine.protocol.rows import NO_TIMESTAMP
from penstock._engine.state import pickles
from penstock.errors import SortSpillError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from pathlib import Path

#: The records of one part of a key.
PART_RECORDS: Final = 2048
#: The estimated memory of a record beside its fields, and of a key.
_RECORD_BYTES: Final = 120
_KEY_BYTES: Final = 400
#: The number of records of a batch whose size is taken for that of the others.
_SAMPLE: Final = 8
#: The estimated bytes of a frame of a run: at most, and as a share of the memory. The merge holds a frame of each run.
_FRAME_BYTES: Final = 256 << 10
_FRAMES: Final = 64
#: The number of runs beyond which they are merged into one, because each is an open file.
_MOST_RUNS: Final = 64

_length: Final = Struct("<q")


class Part(NamedTuple):
    """Some records of a key, in order; each part is of one input."""

    key: bytes
    input_index: int
    records: list[Any]
    #: One for each record; None where no record of the sort has one.
    stamps: list[int] | None


class _Records:
    """The records of a key in memory, in the order of arrival."""

    __slots__ = ("inputs", "records", "stamps")

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.stamps = array("q")
        self.inputs = bytearray()


class ExternalSorter:
    """Sorts the records of one subtask of an operator.

    Args:
        memory_bytes: The estimated memory that records may take.
        directory: The directory of runs; it is made, and deleted by `close`.
        most_runs: The number of runs at which they are merged into one.

    Raises:
        SortSpillError: The directory cannot be made or written to.
    """

    def __init__(self, memory_bytes: int, directory: Path, most_runs: int = _MOST_RUNS) -> None:
        self._memory_bytes = memory_bytes
        self._frame_bytes = min(_FRAME_BYTES, memory_bytes // _FRAMES)
        self._most_runs = most_runs
        self._directory = directory
        self._keys: dict[NormalKey, _Records] = {}
        self._bytes = 0
        self._is_stamped = False
        #: Files without a name: the system frees their room however the process ends.
        self._runs: list[IO[bytes]] = []
        with self._naming():  # a missing disk is reported before the input is read
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory) as probe:
                probe.write(b"1")

    def add(
        self, normals: Sequence[NormalKey], records: list[Any], stamps: list[int] | None, input_index: int = 0
    ) -> None:
        """Add records.

        Args:
            normals: Their normal keys.
            records: The records.
            stamps: Their timestamps; None where none has one.
            input_index: The input that they come from.

        Raises:
            SortSpillError: The records do not fit into memory, and there is no room on the disk.
        """
        keys, before = self._keys, len(self._keys)
        self._is_stamped = self._is_stamped or stamps is not None
        for place, (normal, record) in enumerate(zip(normals, records, strict=True)):
            found = keys.get(normal)
            if found is None:
                found = keys[normal] = _Records()
            found.records.append(record)
            found.stamps.append(NO_TIMESTAMP if stamps is None else stamps[place])
            found.inputs.append(input_index)
        self._bytes += len(records) * _estimated(records) + (len(keys) - before) * _KEY_BYTES
        if self._bytes >= self._memory_bytes:
            self._spill()

    def parts(self) -> Iterator[Part]:
        """Iterate all records in order, once; the parts of a key follow one another.

        Raises:
            SortSpillError: A run cannot be read.
        """
        runs = [self._read(file) for file in self._runs]
        in_order = self._merged([*runs, self._in_memory()])
        for part in in_order:
            yield part if self._is_stamped else part._replace(stamps=None)

    def close(self) -> None:
        """Delete the runs."""
        self._keys.clear()
        runs, self._runs = self._runs, []
        _close(runs)
        with contextlib.suppress(OSError):  # others may sort there
            self._directory.rmdir()

    # ------------------------------------------------------------------------------------------------------- the runs

    def _in_memory(self) -> Iterator[Part]:
        encoded = sorted((encode_normal(normal), normal) for normal in self._keys)
        for key, normal in encoded:
            found = self._keys[normal]
            order: Sequence[int] = range(len(found.records))
            if self._is_stamped:
                order = sorted(order, key=found.stamps.__getitem__)
            yield from _cut(key, found, order)

    def _spill(self) -> None:
        self._write(self._in_memory())
        self._keys, self._bytes = {}, 0
        if len(self._runs) >= self._most_runs:
            merged, self._runs = self._runs, []
            try:
                self._write(self._merged([self._read(file) for file in merged]))
            finally:
                _close(merged)

    def _write(self, parts: Iterable[Part]) -> None:
        """Write parts, which are in order, as one more run."""
        frame, size = list[Part](), 0
        with self._naming():
            file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - it is read later
            self._runs.append(file)
            for part in parts:
                frame.append(part)
                size += len(part.records) * _estimated(part.records)
                if size >= self._frame_bytes:
                    _write_frame(file.write, frame)
                    frame, size = [], 0
            if frame:
                _write_frame(file.write, frame)
            file.flush()

    def _read(self, file: IO[bytes]) -> Iterator[Part]:
        with self._naming():
            file.seek(0)
            while head := file.read(_length.size):
                for part in pickle.loads(file.read(*_length.unpack(head))):
                    yield Part(*part)

    def _merged(self, runs: list[Iterator[Part]]) -> Iterator[Part]:
        """Merge runs, oldest first: among equal ones, `heapq.merge` keeps their order."""
        if len(runs) == 1:
            return runs[0]
        if not self._is_stamped:
            return merge(*runs, key=attrgetter("key"))
        return _regrouped(merge(*map(_single, runs), key=_key_and_stamp))

    @contextlib.contextmanager
    def _naming(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            with contextlib.suppress(OSError):
                reason += f", and its disk has {shutil.disk_usage(self._directory).free} bytes left"
            raise SortSpillError(str(self._directory), reason) from error


def _close(runs: list[IO[bytes]]) -> None:
    for file in runs:
        with contextlib.suppress(OSError):  # what is not written yet may have no room
            file.close()


def _estimated(records: list[Any]) -> int:
    """Return the estimated memory of one of some records: pickled objects take about half of it."""
    sample = records[:: max(1, len(records) // _SAMPLE)]
    return 2 * len(pickles.dump(sample)) // max(1, len(sample)) + _RECORD_BYTES


def _cut(key: bytes, found: _Records, order: Sequence[int]) -> Iterator[Part]:
    """Yield the records of a key in an order, in parts of one input each."""
    start = 0
    for place in range(1, len(order) + 1):
        is_full = place - start == PART_RECORDS or place == len(order)
        if is_full or found.inputs[order[place]] != found.inputs[order[start]]:
            run = order[start:place]
            records, stamps = [found.records[at] for at in run], [found.stamps[at] for at in run]
            yield Part(key, found.inputs[run[0]], records, stamps)
            start = place


def _write_frame(write: Callable[[bytes], object], parts: list[Part]) -> None:
    data = pickles.dump([tuple(part) for part in parts])
    write(_length.pack(len(data)))
    write(data)


def _single(parts: Iterator[Part]) -> Iterator[Part]:
    """Yield parts of one record each."""
    for part in parts:
        for record, stamp in zip(part.records, part.stamps or (), strict=True):
            yield Part(part.key, part.input_index, [record], [stamp])


def _key_and_stamp(part: Part) -> tuple[bytes, int]:
    return part.key, part.stamps[0] if part.stamps else NO_TIMESTAMP


def _regrouped(singles: Iterator[Part]) -> Iterator[Part]:
    """Join consecutive single records of one key and input."""
    last: Part | None = None
    for part in singles:
        if last is None:
            last = part
        elif (last.key, last.input_index) == (part.key, part.input_index) and len(last.records) < PART_RECORDS:
            last.records.extend(part.records)
            if last.stamps is not None:
                last.stamps.extend(part.stamps or ())
        else:
            yield last
            last = part
    if last is not None:
        yield last
