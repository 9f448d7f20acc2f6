"""A chunk: one operation on rows of one pane, in columns, and the encoding of its columns in a file.

Values are pickled as one list per chunk: pickling them one by one costs several times as much. An empty column
takes no bytes: most chunks have only keys and values.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from penstock._engine.protocol.key_groups import key_group
from penstock._engine.protocol.keys import NormalKey, decode_normal, encode_normal
from penstock._engine.state.files import pickles
from penstock._engine.state.files.trust import ALL_CLASSES
from penstock.common.user_values import error_line, short_repr
from penstock.errors import StateClassError, UnpicklableStateError, UntrustedClassError

if TYPE_CHECKING:
    from penstock._engine.state.files.trust import AllowedClasses
    from penstock._engine.state.rows import Address, Namespace

#: keys, namespaces, sub-keys, values, originals, stamps
_SIZES: Final = Struct(">6Q")
#: The types of normal keys; NoneType for a missing sub-key.
_KEY_TYPES: Final = frozenset({str, int, bytes, type(None)})


class ChunkOperation(IntEnum):
    """What a chunk does."""

    #: Set rows to values.
    PUT = 0
    #: Delete rows.
    DELETE = 1
    #: Delete a whole pane; such a chunk has no columns.
    DROP = 2
    #: Delete all rows of these keys and namespaces.
    CLEAR = 3


@dataclass(slots=True)
class Chunk:
    """One operation in columns."""

    op: ChunkOperation
    #: The table, or the timer domain.
    name: str
    #: The kind of the state, see `kinds`; "timers" for timers.
    kind: str
    keep_keys: bool
    #: The namespace of the pane.
    namespace: Namespace
    #: First and last key group that the operation may concern.
    key_groups: tuple[int, int]
    keys: list[NormalKey]
    values: list[Any] | None = None
    #: The user's keys where the normal keys are bytes; (key, sub-key) for composite addresses; None elsewhere.
    originals: list[Any] | None = None
    #: The namespaces of the rows; None where all are ().
    namespaces: list[Namespace] | None = None
    #: The sub-keys of the rows; None where no row has any.
    subs: list[NormalKey | None] | None = None
    #: When each row was last written or read; None where no row expires.
    stamps: list[int | None] | None = None
    #: The time from which the rows of the table expire, see `time_to_live`; None where they do not.
    since: int | None = None

    @property
    def is_composite(self) -> bool:
        """Whether the address of a row is more than its key."""
        return self.subs is not None or self.namespaces is not None

    def addresses(self) -> list[Address]:
        """Return the addresses of the rows in their pane."""
        if not self.is_composite:
            return cast("list[Address]", self.keys)
        count = len(self.keys)
        namespaces = self.namespaces or [()] * count
        return list(zip(self.keys, namespaces, self.subs or [None] * count, strict=True))

    def only(self, key_groups: range, max_parallelism: int) -> Chunk:
        """Reduce the chunk to the rows of some key groups, and return it."""
        wanted = [key_group(normal, max_parallelism) in key_groups for normal in self.keys]
        first, last = max(self.key_groups[0], key_groups.start), min(self.key_groups[1], key_groups.stop - 1)
        self.key_groups = first, last
        self.keys = _filter(self.keys, wanted)
        for name in ("namespaces", "subs", "values", "originals", "stamps"):
            column = getattr(self, name)
            setattr(self, name, None if column is None else _filter(column, wanted))
        return self


def _filter(column: list[Any], wanted: list[bool]) -> list[Any]:
    return [item for item, keep in zip(column, wanted, strict=True) if keep]


# ------------------------------------------------------------------------------------------------------------- to bytes


def pack(chunk: Chunk) -> bytes:
    """Return the columns of a chunk as bytes.

    Raises:
        UnpicklableStateError: A value can be pickled neither by pickle nor by cloudpickle.
    """
    if chunk.op is ChunkOperation.DROP:
        return b""
    parts = (
        _pack_keys(chunk.keys),
        b"" if chunk.namespaces is None else msgspec.msgpack.encode(chunk.namespaces),
        b"" if chunk.subs is None else _pack_keys(chunk.subs),
        b"" if chunk.values is None else _pickle_column(chunk, chunk.values),
        b"" if chunk.originals is None else _pickle_column(chunk, chunk.originals),
        b"" if chunk.stamps is None else msgspec.msgpack.encode(chunk.stamps),
    )
    return b"".join((_SIZES.pack(*map(len, parts)), *parts))


def _pack_keys(keys: list[NormalKey] | list[NormalKey | None]) -> bytes:
    try:
        return msgspec.msgpack.encode(keys)
    except (OverflowError, UnicodeEncodeError):  # an int of more than 64 bits, a lone surrogate
        return msgspec.msgpack.encode([[None if normal is None else encode_normal(normal)] for normal in keys])


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
                raise UnpicklableStateError(chunk.name, short_repr(normal), name, str(reason)) from reason
        raise UnpicklableStateError(chunk.name, "?", "value", str(error)) from error


# ----------------------------------------------------------------------------------------------------------- from bytes


def unpack(chunk: Chunk, raw: bytes, classes: AllowedClasses = ALL_CLASSES) -> Chunk:
    """Give a chunk its columns.

    Args:
        chunk: The chunk, without columns.
        raw: The bytes that `pack` returned.
        classes: The classes that values may have.

    Raises:
        ValueError: The bytes are damaged; a decoder may raise another error.
        StateClassError: A value cannot be unpickled.
        UntrustedClassError: A value has a class that is not allowed.
    """
    if not raw:
        return chunk
    keys, namespaces, subs, values, originals, stamps = _split(raw)
    chunk.keys = _unpack_keys(keys)
    chunk.namespaces = msgspec.msgpack.decode(namespaces, type=list[tuple[int, ...]]) if namespaces else None
    chunk.subs = _unpack_keys(subs) if subs else None
    chunk.stamps = msgspec.msgpack.decode(stamps, type=list[int | None]) if stamps else None
    classes.check_keys(chunk.keys)
    classes.check_keys(chunk.subs or ())
    chunk.values = load_value(classes, chunk.name, values) if values else None
    chunk.originals = load_value(classes, chunk.name, originals) if originals else None
    for column in (chunk.namespaces, chunk.subs, chunk.stamps, chunk.values, chunk.originals):
        if column is not None and (type(column) is not list or len(column) != len(chunk.keys)):
            reason = "its columns differ in length"
            raise ValueError(reason)
    return chunk


def load_value(classes: AllowedClasses, name: str, data: bytes) -> Any:
    """Return a value of a state from its pickle.

    Raises:
        ValueError: The bytes are no pickle.
        StateClassError: The class of the value does not accept the stored data.
        UntrustedClassError: The value has a class that is not allowed.
    """
    try:
        return classes.load(data)
    except UntrustedClassError as error:
        raise UntrustedClassError(error.name, name) from None
    except (pickle.UnpicklingError, EOFError, MemoryError, OverflowError) as error:
        reason = error_line(error)
        raise ValueError(reason) from error
    except Exception as error:  # the user's classes may raise anything
        raise StateClassError(name, error_line(error)) from error


def unpack_owners(raw: bytes) -> tuple[list[NormalKey], list[Namespace] | None, list[NormalKey] | None]:
    """Return the keys, namespaces and sub-keys of a chunk, without unpickling anything."""
    keys, namespaces, subs, *_ = _split(raw)
    return (
        _unpack_keys(keys),
        msgspec.msgpack.decode(namespaces, type=list[tuple[int, ...]]) if namespaces else None,
        _unpack_keys(subs) if subs else None,
    )


def _split(raw: bytes) -> list[bytes]:
    parts: list[bytes] = []
    start = _SIZES.size
    for size in _SIZES.unpack_from(raw):
        parts.append(raw[start : start + size])
        start += size
    return parts


def _unpack_keys(packed: bytes) -> list[Any]:
    keys: list[Any] = msgspec.msgpack.decode(packed, type=list[Any])
    if keys and type(keys[0]) is list:
        keys = [None if encoded is None else decode_normal(encoded) for (encoded,) in keys]
    if not _KEY_TYPES.issuperset(map(type, keys)):
        reason = "it has keys of a type that no key has"
        raise ValueError(reason)
    return keys
