"""The file format of deltas and snapshots: chunks of columns, an index, checksums.

    file    := head chunk* index trailer(size of index, CRC-32 of index)
    chunk   := zstd(sizes of columns, columns)                one operation on one pane or timer domain
    index   := MessagePack list of `ChunkInfo`, in the order in which the operations apply

The reader compares the checksum before it decompresses or unpickles anything.
"""

from __future__ import annotations

import struct
from functools import cache
from io import BytesIO
from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

import msgspec
import pyarrow as pa

from penstock._engine.protocol.decoders import msgpack_decoder
from penstock._engine.protocol.formats import StoredFormat
from penstock._engine.state.files.chunk_columns import (
    Chunk,
    ChunkOperation,
    pack,
    unpack,
    unpack_owners,
)
from penstock._engine.state.files.trust import ALL_CLASSES
from penstock.errors import CorruptCheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.files.trust import AllowedClasses
    from penstock._engine.state.rows import Namespace

KEYED_STATE: Final = StoredFormat("file of keyed state", mark=b"PNSTATE")
_TRAILER: Final = Struct(">II")

#: Errors that the columns of a damaged chunk raise; values have errors of their own.
_NOT_DECODED: Final = (msgspec.MsgspecError, ValueError, TypeError, KeyError, IndexError, struct.error, RecursionError)

#: The size that a chunk should have before compression.
_CHUNK_BYTES: Final = 1 << 20
_MOST_KEY_GROUPS: Final = 1 << 15
_FIRST_ENTRIES: Final = 1 << 10
_MAX_ENTRIES: Final = 1 << 16


class ChunkInfo(msgspec.Struct, array_like=True, frozen=True):
    """A chunk's line in the index."""

    op: int
    name: str
    kind: str
    keep_keys: bool
    namespace: tuple[int, ...]
    key_groups: tuple[int, int]
    offset: int
    size: int
    raw_size: int
    entries: int
    checksum: int
    since: int | None = None


class StateFileWriter:
    """Writes files, one after the other."""

    def __init__(self) -> None:
        self._file = BytesIO()
        self._index: list[ChunkInfo] = []
        #: What all files have together.
        self.entries = 0
        self.raw_size = 0
        #: How many entries the next chunk should have.
        self.batch = _FIRST_ENTRIES

    @property
    def has_chunks(self) -> bool:
        """Whether a chunk was added to the file."""
        return bool(self._index)

    @property
    def size(self) -> int:
        """The bytes of the chunks in the file."""
        return self._file.tell()

    def add(self, chunk: Chunk) -> None:
        """Add a chunk to the file.

        Raises:
            UnpicklableStateError: A value can be pickled neither by pickle nor by cloudpickle.
        """
        raw = pack(chunk)
        packed: bytes = _codec().compress(raw, asbytes=True) if raw else b""
        if not self._index:
            self._file.write(KEYED_STATE.head)
        self._index.append(
            ChunkInfo(
                op=chunk.op,
                name=chunk.name,
                kind=chunk.kind,
                keep_keys=chunk.keep_keys,
                namespace=chunk.namespace,
                key_groups=chunk.key_groups,
                offset=self._file.tell(),
                size=len(packed),
                raw_size=len(raw),
                entries=len(chunk.keys),
                checksum=crc32(packed),
                since=chunk.since,
            )
        )
        self._file.write(packed)
        self.entries += len(chunk.keys)
        self.raw_size += len(raw)
        if chunk.op is ChunkOperation.PUT and chunk.keys:
            self.batch = max(1, min(_MAX_ENTRIES, len(chunk.keys) * _CHUNK_BYTES // len(raw)))

    def finish(self) -> bytes:
        """Return the file, and begin the next one."""
        index = msgspec.msgpack.encode(self._index)
        if not self._index:
            self._file.write(KEYED_STATE.head)
        self._file.write(index)
        self._file.write(_TRAILER.pack(len(index), crc32(index)))
        file, self._file, self._index = self._file, BytesIO(), []
        return file.getvalue()


def read_state_file(
    data: bytes, path: str, key_groups: range, max_parallelism: int, classes: AllowedClasses = ALL_CLASSES
) -> Iterator[Chunk]:
    """Iterate the operations of a file on some key groups.

    Args:
        data: The whole file.
        path: Its name, for errors.
        key_groups: The key groups to read.
        max_parallelism: The number of all key groups.
        classes: The classes that values may have.

    Raises:
        CorruptCheckpointError: The file is damaged, cut off, or of a format that this version does not read.
        StateClassError: A value cannot be unpickled.
        UntrustedClassError: A value has a class that is not allowed.
    """
    data = KEYED_STATE.current(data, path)
    for info in read_index(data, path):
        first, last = info.key_groups
        if first in key_groups and last in key_groups:
            yield _read_chunk(data, path, info, classes)
        elif first < key_groups.stop and last >= key_groups.start:
            yield _read_chunk(data, path, info, classes).only(key_groups, max_parallelism)


def read_index(data: bytes, path: str) -> list[ChunkInfo]:
    """Return the index of a file, without unpickling anything.

    Raises:
        CorruptCheckpointError: The file is damaged, cut off, or of a format that this version does not read.
    """
    return read_index_by(lambda start, length: data[start : start + length], len(data), path)


def read_index_by(read: Callable[[int, int], bytes], size: int, path: str) -> list[ChunkInfo]:
    """Return the index of a file, without reading the rest of the file.

    Args:
        read: Returns bytes of the file, given where they start and how many they are.
        size: The size of the file.
        path: Its name, for errors.

    Raises:
        CorruptCheckpointError: The file is damaged, cut off, or of a format that this version does not read.
    """
    head = KEYED_STATE.head
    if read(0, len(head)) != head:
        return read_index(KEYED_STATE.current(read(0, size), path), path)
    if size < len(head) + _TRAILER.size:
        raise CorruptCheckpointError(path, "it was cut off")
    index_size, checksum = _TRAILER.unpack(read(size - _TRAILER.size, _TRAILER.size))
    start = size - _TRAILER.size - index_size
    index = read(start, index_size) if start >= len(head) else b""
    if len(index) != index_size or crc32(index) != checksum:
        raise CorruptCheckpointError(path, "it is damaged or was cut off (the index does not match its checksum)")
    try:
        infos = msgpack_decoder(list[ChunkInfo]).decode(index)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CorruptCheckpointError(path, f"its index cannot be decoded ({error})") from error
    for info in infos:
        _check_sound(info, start, path)
    return infos


def _check_sound(info: ChunkInfo, end: int, path: str) -> None:
    """Raise CorruptCheckpointError for a line of the index that no writer makes."""
    lies_inside = info.offset >= 0 and info.size >= 0 and info.offset + info.size <= end
    # A chunk of zeros alone is 32,768 times as large as its compressed form.
    first, last = info.key_groups
    has_groups = first >= 0 and -1 <= last < _MOST_KEY_GROUPS
    can_be_unpacked = 0 <= info.raw_size <= _CHUNK_BYTES + (info.size << 16) and 0 <= info.entries <= info.raw_size
    if not (info.op in {*ChunkOperation} and lies_inside and has_groups and can_be_unpacked):
        raise CorruptCheckpointError(path, f"its index has an impossible line for state {info.name[:80]!r}")


def read_owners(
    data: bytes, path: str, info: ChunkInfo
) -> tuple[list[NormalKey], list[Namespace] | None, list[NormalKey] | None]:
    """Return the keys, namespaces and sub-keys of a chunk, without unpickling anything.

    Args:
        data: The whole file.
        path: Its name, for errors.
        info: The chunk.

    Raises:
        CorruptCheckpointError: The chunk is damaged.
    """
    raw = _decompress(KEYED_STATE.current(data, path), path, info)
    try:
        return unpack_owners(raw) if raw else ([], None, None)
    except _NOT_DECODED as error:
        raise _undecodable(path, info, error) from error


def _read_chunk(data: bytes, path: str, info: ChunkInfo, classes: AllowedClasses) -> Chunk:
    chunk = Chunk(ChunkOperation(info.op), info.name, info.kind, info.keep_keys, info.namespace, info.key_groups, [])
    chunk.since = info.since
    try:
        return unpack(chunk, _decompress(data, path, info), classes)
    except _NOT_DECODED as error:
        raise _undecodable(path, info, error) from error


def _undecodable(path: str, info: ChunkInfo, error: Exception) -> CorruptCheckpointError:
    return CorruptCheckpointError(path, f"state {info.name[:80]!r} in it cannot be decoded ({error})")


def _decompress(data: bytes, path: str, info: ChunkInfo) -> bytes:
    """Return the columns of a chunk."""
    packed = data[info.offset : info.offset + info.size]
    if crc32(packed) != info.checksum:
        raise CorruptCheckpointError(path, f"it is damaged (state {info.name!r} does not match its checksum)")
    try:
        raw: bytes = _codec().decompress(packed, info.raw_size, asbytes=True) if info.raw_size else b""
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise CorruptCheckpointError(path, f"state {info.name[:80]!r} in it cannot be unpacked ({error})") from error
    if len(raw) != info.raw_size:
        raise CorruptCheckpointError(path, f"state {info.name[:80]!r} in it has another size than was written")
    return raw


@cache
def _codec() -> pa.Codec:
    # Measured on 500,000 int keys with counters: 11 ns an entry for 69 % of the size; zlib 157 ns for 50 %.
    return pa.Codec("zstd", compression_level=1)
