"""Turns records into rows of a table, in the order of its columns."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._connectors.postgres.changes import PostgresChange
from penstock._connectors.postgres.unfit import UnfitError
from penstock._formats.fields import check_insert
from penstock.common.types import Row, RowKind
from penstock.common.user_values import short_repr
from penstock.errors import RecordFieldError, RecordValueError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._connectors.postgres.values import Codec

UPSERT, DELETE = "u", "d"
#: Whole numbers from here on have no text in Python.
_LONGEST: Final = 10**4300
_WAY_OUT: Final = "Map the records to the table's columns, or add a column"
_FITTING: Final = "Map the value to one that fits, or give the column another type"
_KINDS: Final = {
    RowKind.INSERT: UPSERT,
    RowKind.UPDATE_AFTER: UPSERT,
    RowKind.UPDATE_BEFORE: None,
    RowKind.DELETE: DELETE,
}


class RowMaker:
    """Makes rows of records: dicts, Rows, and tuples or lists in the order of the columns.

    Args:
        names: The columns.
        codecs: What writes their values.
        inserts_only: Whether there is no key by which a row could be changed or deleted.
    """

    def __init__(self, names: Sequence[str], codecs: Sequence[Codec], *, inserts_only: bool = False) -> None:
        self._inserts_only = inserts_only
        self._names, self._codecs = tuple(names), tuple(codecs)
        self._known = frozenset(self._names)
        get = cast("Callable[[Any], Any]", itemgetter(*self._names))
        self._get: Callable[[Any], tuple[Any, ...]] = get if len(self._names) > 1 else lambda record: (get(record),)

    def rows(self, records: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return a row for each record.

        Raises:
            RecordFieldError: A record has a field for which there is no column.
            RecordValueError: A record is none of the known kinds, or no insert where only these are possible, or has a
                value that its column cannot hold unchanged.
        """
        width, get = len(self._names), self._get
        try:
            if all(type(record) is dict and len(record) == width for record in records):
                rows = [get(record) for record in records]
            else:
                rows = [self._row(record) for record in records]
        except KeyError:
            rows = [self._row(record) for record in records]
        return self._written(rows)

    def changes(self, records: Sequence[Any]) -> list[tuple[str, tuple[Any, ...]]]:
        """Return for each record what is done with its key, and the row; raises as ``rows`` does."""
        kinds: list[str] = []
        rows: list[tuple[Any, ...]] = []
        for record in records:
            if isinstance(record, PostgresChange):
                for kind, fields in _parts(record):
                    kinds.append(kind)
                    rows.append(self._row(fields))
                continue
            kind = _KINDS[record.get_row_kind()] if isinstance(record, Row) else UPSERT
            if kind is not None:
                kinds.append(kind)
                rows.append(self._row(record))
        return list(zip(kinds, self._written(rows), strict=True))

    def _row(self, record: Any) -> tuple[Any, ...]:
        fields: Any = record
        if isinstance(record, Row):
            if self._inserts_only:
                way_out = "Name the key (set_key_columns), or filter such rows out"
                check_insert(record, "without a key each row is a new one", way_out)
            fields = tuple(record) if record._fields is None else record.as_dict()
        if isinstance(fields, dict):
            unknown = next((str(name) for name in fields if name not in self._known), None)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            if unknown is not None:
                raise RecordFieldError(unknown, short_repr(record), self._names, _WAY_OUT)
            return tuple(fields.get(name) for name in self._names)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType]
        if not isinstance(fields, tuple | list) or len(fields) != len(self._names):  # pyright: ignore[reportUnknownArgumentType]
            reason = "it is no dict, no Row, and no tuple with a value for each column"
            raise RecordValueError("*", short_repr(record), ", ".join(self._names), reason, _WAY_OUT)
        return tuple(fields)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]

    def _written(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return rows with values as the client library writes them: column by column, most of which stay."""
        columns = list(zip(*rows, strict=True))
        try:
            written = [codec.column(values) for codec, values in zip(self._codecs, columns, strict=bool(rows))]
        except UnfitError:
            raise self._misfit(rows) from None
        same = all(one is other for one, other in zip(written, columns, strict=True))
        return rows if same else list(zip(*written, strict=True))

    def _misfit(self, rows: list[tuple[Any, ...]]) -> RecordValueError:
        """Return the error for the first row with a value that does not fit."""
        for row in rows:
            for name, codec, value in zip(self._names, self._codecs, row, strict=True):
                try:
                    codec.column((value,))
                except UnfitError as error:
                    record = dict(zip(self._names, row, strict=True))
                    return RecordValueError(
                        name, short_repr(record), codec.name, f"{short_repr(value)}: {error}", _FITTING
                    )
        raise AssertionError


def unwritable(names: Sequence[str], row: Sequence[Any], table: str, error: Exception) -> RecordValueError:
    """Return the error for a row that the client library does not write."""
    record = short_repr(dict(zip(names, row, strict=False)))
    for name, value in zip(names, row, strict=False):
        if isinstance(value, str) and "\0" in value:
            reason = "PostgreSQL has no character NUL in texts"
            return RecordValueError(name, record, table, reason, "Remove or replace it in a map() before the sink")
        if isinstance(value, str) and any("\ud800" <= sign <= "\udfff" for sign in value):
            reason = "it has one half of a surrogate pair, which no encoding has"
            return RecordValueError(name, record, table, reason, "Replace it in a map() before the sink")
        if isinstance(value, int) and abs(value) >= _LONGEST:
            reason = "it has more digits than Python writes"
            return RecordValueError(name, record, table, reason, "Map it to a Decimal")
    return RecordValueError("*", record, table, str(error).removesuffix("."), "Map it to a value of another type")


def _parts(change: PostgresChange) -> list[tuple[str, dict[str, Any]]]:
    """Return the deletes and upserts that a change of another table amounts to."""
    if change.op == "truncate":
        way_out = "Filter such changes out, and empty the table by hand"
        raise RecordValueError("op", repr(change), "insert, update, delete", "it has no key", way_out)
    if change.unchanged:
        way_out = f"Set REPLICA IDENTITY FULL for {change.table}, so that the server sends these values"
        reason = "the server did not send the value, which has not changed"
        raise RecordValueError(change.unchanged[0], f"{change!r:.200}", "a value", reason, way_out)
    parts: list[tuple[str, dict[str, Any]]] = []
    if change.before is not None and (change.after is None or change.key_changed):
        parts.append((DELETE, change.before))
    if change.after is not None:
        parts.append((UPSERT, change.after))
    return parts
