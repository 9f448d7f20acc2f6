"""The file format of deltas and snapshots: chunks of columns, an index, checksums.

    file    := MAGIC chunk* index trailer(size of index, CRC-32 of index, MAGIC)
    chunk   := zstd(lengths, keys, values, originals)         one operation on one pane or timer domain
    index   := MessagePack list of `ChunkInfo`, in the order in which the operations apply

Values are pickled as one list per chunk: pickling them one by one costs several times as much. Nothing is decompressed
or unpickled before its checksum was compared.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, cast
from zlib import crc32

import msgspec
import pyarrow as pa

from penstock._engine.protocol.key_groups import key_group
from penstock._engine.protocol.keys import NormalKey, decode_normal, encode_normal
from penstock._engine.state import pickles
from penstock.errors import CorruptCheckpointError, StateClassError, UnpicklableStateError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._engine.state.table import Namespace

FORMAT_VERSION: Final = 2
#: Format 1 differs in its keys: those of rows with names lack the names.
_READ_FORMATS: Final = (1, FORMAT_VERSION)
_NAME: Final = b"PNSTATE"
_MAGIC: Final = _NAME + bytes((FORMAT_VERSION,))
_TRAILER: Final = Struct(">II8s")
_LENGTHS: Final = Struct(">QQ")

#: What a chunk should weigh before compression, and how many entries it may have at most.
_CHUNK_BYTES: Final = 1 << 20
_MAX_ENTRIES: Final = 1 << 16


class ChunkOperation(IntEnum):
    """What a chunk does."""

    #: Set keys to values.
    PUT = 0
    #: Delete keys.
    DELETE = 1
    #: Delete a whole pane; has no columns.
    DROP = 2
    #: Set timers: the values are times, or (time, namespace).
    TIMER_SET = 3
    #: Take timers back, values as before.
    TIMER_DELETE = 4


@dataclass(slots=True)
class Chunk:
    """One operation in columns."""

    op: ChunkOperation
    #: The table, or the timer domain.
    name: str
    kind: str
    keep_keys: bool
    namespace: Namespace
    #: First and last key group that the operation may concern.
    key_groups: tuple[int, int]
    keys: list[NormalKey]
    values: list[Any] | None = None
    #: The keys behind normal keys that are bytes; None elsewhere.
    originals: list[Any] | None = None
    #: Some of the keys that are bytes may be as format 1 had them.
    old_keys: bool = False


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
    old_keys: bool = False


class StateFileWriter:
    """Makes one file, piece by piece."""

    def __init__(self) -> None:
        self._index: list[ChunkInfo] = []
        self._offset = 0
        self.entries = 0
        self.raw_size = 0
        #: How many entries the next chunk should have.
        self.batch = 1 << 10

    def add(self, chunk: Chunk) -> bytes:
        """Return the next piece of the file.

        Raises:
            UnpicklableStateError: A value can be pickled neither by pickle nor by cloudpickle.
        """
        raw = _columns(chunk)
        packed: bytes = _codec().compress(raw, asbytes=True) if raw else b""
        head = b"" if self._index else _MAGIC
        start = self._offset + len(head)
        self._index.append(
            ChunkInfo(
                op=chunk.op,
                name=chunk.name,
                kind=chunk.kind,
                keep_keys=chunk.keep_keys,
                namespace=chunk.namespace,
                key_groups=chunk.key_groups,
                offset=start,
                size=len(packed),
                raw_size=len(raw),
                entries=len(chunk.keys),
                checksum=crc32(packed),
                old_keys=chunk.old_keys,
            )
        )
        self._offset = start + len(packed)
        self.entries += len(chunk.keys)
        self.raw_size += len(raw)
        if chunk.values:
            self.batch = max(1, min(_MAX_ENTRIES, len(chunk.keys) * _CHUNK_BYTES // len(raw)))
        return head + packed

    def finish(self) -> bytes:
        """Return the last piece."""
        index = msgspec.msgpack.encode(self._index)
        head = b"" if self._index else _MAGIC
        return head + index + _TRAILER.pack(len(index), crc32(index), _MAGIC)


def read_state_file(data: bytes, path: str, key_groups: range, max_parallelism: int) -> Iterator[Chunk]:
    """Iterate the operations of a file, those on other key groups left out.

    Args:
        data: The whole file.
        path: Its name, for errors.
        key_groups: What to read.
        max_parallelism: The number of all key groups.

    Raises:
        CorruptCheckpointError: The file is damaged, cut off, or of another format version.
        StateClassError: A value cannot be unpickled.
    """
    for info in read_index(data, path):
        first, last = info.key_groups
        if first in key_groups and last in key_groups:
            yield _read_chunk(data, path, info)
        elif first < key_groups.stop and last >= key_groups.start:
            yield _only(_read_chunk(data, path, info), key_groups, max_parallelism)


def read_index(data: bytes, path: str) -> list[ChunkInfo]:
    """Return what is in a file, without unpickling anything.

    Raises:
        CorruptCheckpointError: The file is damaged, cut off, or of another format version.
    """
    return read_index_by(lambda start, length: data[start : start + length], len(data), path)


def read_index_by(read: Callable[[int, int], bytes], size: int, path: str) -> list[ChunkInfo]:
    """Return what is in a file of which only the index is read.

    Args:
        read: Returns bytes of the file, given where they start and how many they are.
        size: Of the file.
        path: Its name, for errors.

    Raises:
        CorruptCheckpointError: The file is damaged, cut off, or of another format version.
    """
    if size < len(_MAGIC) + _TRAILER.size or not (head := read(0, len(_MAGIC))).startswith(_NAME):
        raise CorruptCheckpointError(path, "it is not a state file or was cut off")
    if head[-1] not in _READ_FORMATS:
        raise UnsupportedFormatError(path, f"it has format {head[-1]}, and formats up to {FORMAT_VERSION} are read")
    index_size, checksum, magic = _TRAILER.unpack(read(size - _TRAILER.size, _TRAILER.size))
    start = size - _TRAILER.size - index_size
    index = read(start, index_size) if start >= len(_MAGIC) else b""
    if magic != head or len(index) != index_size or crc32(index) != checksum:
        raise CorruptCheckpointError(path, "it is damaged or was cut off (the index does not match its checksum)")
    infos = msgspec.msgpack.decode(index, type=list[ChunkInfo])
    return infos if head == _MAGIC else [msgspec.structs.replace(info, old_keys=True) for info in infos]


def read_keys(data: bytes, path: str, info: ChunkInfo) -> list[NormalKey]:
    """Return the keys of a chunk, without unpickling anything.

    Args:
        data: The whole file.
        path: Its name, for errors.
        info: The chunk.

    Raises:
        CorruptCheckpointError: The chunk is damaged.
    """
    raw = _unpack(data, path, info)
    return _unpack_keys(raw[_LENGTHS.size : _LENGTHS.size + _LENGTHS.unpack_from(raw)[0]]) if raw else []


def _columns(chunk: Chunk) -> bytes:
    if chunk.op is ChunkOperation.DROP:
        return b""
    keys = _pack_keys(chunk.keys)
    values = _pickle_column(chunk, chunk.values) if chunk.values is not None else b""
    originals = _pickle_column(chunk, chunk.originals) if chunk.originals is not None else b""
    return b"".join((_LENGTHS.pack(len(keys), len(values)), keys, values, originals))


def _read_chunk(data: bytes, path: str, info: ChunkInfo) -> Chunk:
    chunk = Chunk(ChunkOperation(info.op), info.name, info.kind, info.keep_keys, info.namespace, info.key_groups, [])
    chunk.old_keys = info.old_keys
    raw = _unpack(data, path, info)
    if not raw:
        return chunk
    key_size, value_size = _LENGTHS.unpack_from(raw)
    after_keys = _LENGTHS.size + key_size
    after_values = after_keys + value_size
    try:
        chunk.keys = _unpack_keys(raw[_LENGTHS.size : after_keys])
        chunk.values = pickles.load(raw[after_keys:after_values]) if value_size else None
        chunk.originals = pickles.load(raw[after_values:]) if after_values < len(raw) else None
    except Exception as error:  # the user's classes may have any reason
        raise StateClassError(info.name, f"{type(error).__name__}: {error}") from error
    return chunk


def _unpack(data: bytes, path: str, info: ChunkInfo) -> bytes:
    """Return the columns of a chunk."""
    packed = data[info.offset : info.offset + info.size]
    if crc32(packed) != info.checksum:
        raise CorruptCheckpointError(path, f"it is damaged (state {info.name!r} does not match its checksum)")
    raw: bytes = _codec().decompress(packed, info.raw_size, asbytes=True) if info.raw_size else b""
    return raw


def _only(chunk: Chunk, key_groups: range, max_parallelism: int) -> Chunk:
    """Return what a chunk does to some key groups."""
    first, last = max(chunk.key_groups[0], key_groups.start), min(chunk.key_groups[1], key_groups.stop - 1)
    wanted = [key_group(normal, max_parallelism) in key_groups for normal in chunk.keys]
    chunk.key_groups = first, last
    chunk.keys = _filter(chunk.keys, wanted)
    chunk.values = None if chunk.values is None else _filter(chunk.values, wanted)
    chunk.originals = None if chunk.originals is None else _filter(chunk.originals, wanted)
    return chunk


def _filter(column: list[Any], wanted: list[bool]) -> list[Any]:
    return [item for item, keep in zip(column, wanted, strict=True) if keep]


def _pack_keys(keys: list[NormalKey]) -> bytes:
    try:
        return msgspec.msgpack.encode(keys)
    except (OverflowError, UnicodeEncodeError):  # an int of more than 64 bits, a lone surrogate
        return msgspec.msgpack.encode([[encode_normal(normal)] for normal in keys])


def _unpack_keys(packed: bytes) -> list[NormalKey]:
    keys: list[Any] = msgspec.msgpack.decode(packed)
    return [decode_normal(encoded) for (encoded,) in keys] if keys and type(keys[0]) is list else keys


def _pickle_column(chunk: Chunk, column: list[Any]) -> bytes:
    try:
        return pickles.dump(column)
    except Exception as error:  # the user's __reduce__ may raise anything
        for normal, value in zip(chunk.keys, column, strict=True):
            try:
                pickles.dump(value)
            except Exception as reason:
                kind = cast("type[Any]", type(value))
                name = f"{kind.__module__}.{kind.__qualname__}"
                raise UnpicklableStateError(chunk.name, reprlib.repr(normal), name, str(reason)) from reason
        raise UnpicklableStateError(chunk.name, "?", "value", str(error)) from error


@cache
def _codec() -> pa.Codec:
    # Measured on 500,000 int keys with counters: 11 ns an entry for 69 % of the size; zlib 157 ns for 50 %.
    return pa.Codec("zstd", compression_level=1)
