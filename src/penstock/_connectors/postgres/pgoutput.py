"""Decodes the messages of PostgreSQL's logical replication plugin ``pgoutput``, protocol 1.

Values stay the texts that the server sent. What they mean is known by the types of the columns.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from penstock.errors import InternalError

#: 2000-01-01 in milliseconds since 1970.
_EPOCH_MS: Final = 946_684_800_000
_BEGIN: Final = struct.Struct(">qqI")
_COMMIT: Final = struct.Struct(">bqqq")
_U16, _U32 = struct.Struct(">H"), struct.Struct(">I")


class Unchanged(Enum):
    """Stands for a long value that an update left as it was, and that the server does not send."""

    TOAST = 0


#: The texts of a row's values; None is a null.
Values: TypeAlias = "list[bytes | Unchanged | None]"


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, as it was when the changes after this message were made."""

    oid: int
    schema: str
    name: str
    #: The names of the columns, and the number of the type of each.
    columns: tuple[str, ...]
    types: tuple[int, ...]
    #: Whether a column is part of the key that old rows are sent with.
    is_key: tuple[bool, ...]

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class Begin:
    """The beginning of a transaction; the server sends transactions in the order of their commits, each at once."""

    #: Where the log has its commit.
    commit_lsn: int
    timestamp_ms: int
    #: The lower half of its number.
    xid: int


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """The end of a transaction."""

    commit_lsn: int
    #: Where the log continues after it.
    end_lsn: int


@dataclass(frozen=True, slots=True)
class RowChange:
    """A change of a row; ``old_is_key`` says that the old row has the columns of its key alone."""

    op: str
    relation: Relation
    old: Values | None
    new: Values | None
    old_is_key: bool = False


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables were emptied."""

    relations: tuple[Relation, ...]


Message: TypeAlias = Begin | CommitMessage | RowChange | Truncate


class Decoder:
    """Decodes the messages of one stream in their order.

    Example:
        >>> Decoder().decode(b"B" + (9).to_bytes(8, "big") + bytes(8) + (5).to_bytes(4, "big"))
        Begin(commit_lsn=9, timestamp_ms=946684800000, xid=5)
    """

    def __init__(self) -> None:
        self._relations: dict[int, Relation] = {}

    def decode(self, data: bytes) -> Message | None:
        """Return what a message says; None where nothing has changed, as for the description of a table.

        Raises:
            InternalError: It is none of the messages of this protocol, or it breaks off.
        """
        kind = data[:1]
        try:
            if kind in (b"I", b"U", b"D"):
                return self._row_change(kind, data)
            if kind == b"B":
                lsn, micros, xid = _BEGIN.unpack_from(data, 1)
                return Begin(lsn, _EPOCH_MS + micros // 1000, xid)
            if kind == b"C":
                _, lsn, end, _ = _COMMIT.unpack_from(data, 1)
                return CommitMessage(lsn, end)
            return self._other(kind, data)
        except (struct.error, IndexError, KeyError, ValueError) as error:
            raise InternalError(f"The message {data[:40]!r} of pgoutput cannot be decoded: {error!r}.") from error

    def _other(self, kind: bytes, data: bytes) -> Message | None:
        if kind == b"R":
            self._relation(data)
        elif kind == b"T":
            (count,) = _U32.unpack_from(data, 1)
            return Truncate(tuple(self._relations[_U32.unpack_from(data, 6 + 4 * place)[0]] for place in range(count)))
        elif kind not in (b"Y", b"O", b"M"):  # a type's name, where a transaction came from, and a program's message
            raise InternalError(f"The message {data[:40]!r} is none of pgoutput's, protocol 1.")
        return None

    def _relation(self, data: bytes) -> None:
        (oid,) = _U32.unpack_from(data, 1)
        schema, place = _text(data, 5)
        name, place = _text(data, place)
        (count,) = _U16.unpack_from(data, place + 1)
        place += 3
        columns: list[tuple[str, int, bool]] = []
        for _ in range(count):
            is_key = bool(data[place] & 1)
            column, place = _text(data, place + 1)
            columns.append((column, _U32.unpack_from(data, place)[0], is_key))
            place += 8
        names, types, keys = zip(*columns, strict=True) if columns else ((), (), ())
        self._relations[oid] = Relation(oid, schema or "pg_catalog", name, names, types, keys)

    def _row_change(self, kind: bytes, data: bytes) -> RowChange:
        relation = self._relations[_U32.unpack_from(data, 1)[0]]
        place, old, old_is_key, new = 5, None, False, None
        if data[place : place + 1] in (b"K", b"O"):
            old_is_key = data[place : place + 1] == b"K"
            old, place = _values(data, place + 1)
        if kind != b"D":
            if data[place : place + 1] != b"N":
                raise ValueError(place)
            new, place = _values(data, place + 1)
        op = {b"I": "insert", b"U": "update", b"D": "delete"}[kind]
        return RowChange(op, relation, old, new, old_is_key)


def _text(data: bytes, place: int) -> tuple[str, int]:
    end = data.index(0, place)
    return data[place:end].decode(), end + 1


def _values(data: bytes, place: int) -> tuple[Values, int]:
    (count,) = _U16.unpack_from(data, place)
    place += 2
    values: Values = []
    for _ in range(count):
        kind = data[place]
        place += 1
        if kind == 0x74:  # t
            end = place + 4 + _U32.unpack_from(data, place)[0]
            if end > len(data):
                raise ValueError(end)
            values.append(data[place + 4 : end])
            place = end
        elif kind == 0x6E:  # n
            values.append(None)
        elif kind == 0x75:  # u
            values.append(Unchanged.TOAST)
        else:
            raise ValueError(kind)
    return values, place
