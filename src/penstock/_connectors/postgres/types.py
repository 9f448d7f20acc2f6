"""What the catalog says of types: for each column a codec, or an error that names the column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from psycopg.adapt import Transformer
from psycopg.pq import Format
from psycopg.types.multirange import MultirangeLoader
from psycopg.types.range import RangeLoader

from penstock._connectors.postgres.client import run
from penstock._connectors.postgres.values import (
    array_codec,
    as_text,
    codec_of,
    enum_codec,
    multirange_codec,
    range_codec,
)
from penstock.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import psycopg

    from penstock._connectors.postgres.values import Codec

_TEXT_OID, _TEXTS_OID = 25, 1009
#: The types of some numbers, and all that they consist of.
_TYPES: Final = """
WITH RECURSIVE found AS (SELECT unnest(%s::oid[]) AS oid UNION SELECT part FROM found f JOIN pg_type t ON t.oid = f.oid,
  LATERAL (VALUES (t.typbasetype), (CASE WHEN t.typcategory = 'A' THEN t.typelem END),
    ((SELECT rngsubtype FROM pg_range WHERE t.oid IN (rngtypid, rngmultitypid)))) AS parts(part) WHERE part <> 0)
SELECT t.oid, CASE WHEN n.nspname = 'pg_catalog' OR t.typname = 'citext' THEN t.typname ELSE '' END,
  CASE WHEN t.typcategory = 'A' AND t.typelem <> 0 THEN 'a' ELSE t.typtype END::text, t.typtypmod, t.typdelim::text,
  coalesce(nullif(t.typbasetype, 0), CASE WHEN t.typcategory = 'A' THEN nullif(t.typelem, 0) END,
    (SELECT rngsubtype FROM pg_range WHERE t.oid IN (rngtypid, rngmultitypid)), 0),
  format_type(t.oid, NULL)
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid IN (SELECT oid FROM found)"""


class _RangeOfTexts(RangeLoader[str]):
    subtype_oid = _TEXT_OID


class _RangesOfTexts(MultirangeLoader[str]):
    subtype_oid = _TEXT_OID


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A column and its type, by number and modifier."""

    name: str
    #: The type in SQL; empty for that without lengths.
    type: str
    type_oid: int
    modifier: int = -1


@dataclass(frozen=True, slots=True)
class _Type:
    oid: int
    #: Its name in the catalog; empty of a type that does not come with the server.
    name: str
    kind: str
    modifier: int
    delimiter: str
    #: The type of which it is a domain, an array or a range.
    part: int
    sql: str


def codecs_of(
    connection: psycopg.Connection[tuple[Any, ...]],
    table: str,
    columns: Sequence[ColumnType],
    text_columns: Collection[str] = (),
) -> list[Codec]:
    """Return the codec of each column.

    Args:
        connection: A connection.
        table: The table, for errors.
        columns: Its columns.
        text_columns: The names of columns whose values are to be texts.

    Raises:
        TableError: A column is of a type that has no counterpart.
    """
    rows = run(connection, _TYPES, ([column.type_oid for column in columns],)).fetchall()
    found = _Codecs(connection, {row[0]: _Type(*row) for row in rows})
    codecs: list[Codec] = []
    for column in columns:
        name = column.type or found.name_of(column.type_oid)
        is_text = column.name in text_columns
        codec = as_text(name) if is_text else found.of(column.type_oid, name, column.modifier)
        if codec is None:
            reason = f"its column {column.name!r} is of type {name}, for which there is no value in Python"
            way_out = f"Have its values as texts (set_text_columns({column.name!r})), or leave the column out"
            raise TableError(table, reason, way_out)
        codecs.append(codec)
    return codecs


class _Codecs:
    """Makes codecs of types.

    Args:
        connection: A connection.
        types: The types by number, with all that they consist of.
    """

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], types: dict[int, _Type]) -> None:
        self._types = types
        self._arrays: Callable[[bytes], Any] = Transformer(connection).get_loader(_TEXTS_OID, Format.TEXT).load
        self._range = _RangeOfTexts(_TEXT_OID, connection).load
        self._ranges = _RangesOfTexts(_TEXT_OID, connection).load

    def name_of(self, oid: int) -> str:
        """Return the name of a type in SQL."""
        return self._types[oid].sql if oid in self._types else "that is gone"

    def of(self, oid: int, name: str, modifier: int) -> Codec | None:
        """Return the codec of a type; None if it is not known."""
        found = self._types.get(oid)
        if found is None or found.kind in {"b", "e"}:
            is_enum = found is not None and found.kind == "e"
            codec = enum_codec(name) if is_enum else codec_of(name, found.name if found else "", modifier)
            return codec and replace(codec, oid=oid)
        # A domain or an array has the lengths of its part; a range has none.
        part = self.of(found.part, name, found.modifier if found.kind == "d" and modifier < 0 else modifier)
        return None if part is None else self._of_part(found, part, name)

    def _of_part(self, found: _Type, part: Codec, name: str) -> Codec | None:
        match found.kind:
            case "d":
                return part
            case "a":
                return array_codec(name, part, self._arrays) if found.delimiter == "," else None
            case "r":
                return range_codec(name, part, self._range)
            case "m":
                return multirange_codec(name, part, self._ranges)
            case _:
                return None
