"""Extracts the fields of records by the names of columns, and never omits one silently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from penstock.common._conversion.row_values import is_array
from penstock.common.types import Row, RowKind, field_names
from penstock.common.user_values import begin_of
from penstock.errors import RecordFieldError, RecordValueError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

#: The advice about lenient writers in messages.
LEFT_OUT: Final = "lenient=True lets what is no column be left out"
_NO_CHANGES: Final = "Filter such rows out, or turn them into rows that say what has changed"


def check_insert(row: Row, why: str = "its target is only appended to", way_out: str = _NO_CHANGES) -> None:
    """Check that a row is new, for a target that cannot change or delete another one.

    Args:
        row: The row.
        why: Why only new rows are possible, as a clause.
        way_out: What the error advises.

    Raises:
        RecordValueError: The row is of another kind than INSERT.
    """
    kind = row.get_row_kind()
    if kind is not RowKind.INSERT:
        reason = f"it is of kind {kind.name}, and {why}"
        raise RecordValueError("*", begin_of(row), "rows of kind INSERT", reason, way_out)


class Columns:
    """Splits records into the values of named columns.

    Args:
        names: The columns in order.
        way_out: The advice for a field without a column.
        lenient: Whether to omit fields without a column.
    """

    def __init__(self, names: Collection[str], way_out: str, *, lenient: bool = False) -> None:
        self.names = list(names)
        self._known = set(self.names)
        self.way_out = way_out
        self._lenient = lenient

    def values(self, record: Any) -> Sequence[Any]:
        """Return a record's values by column: of dicts and of rows with names by name, of the rest by position.

        A field that a dict lacks is None.

        Raises:
            RecordFieldError: The record has a field that is no column.
            RecordValueError: It is no record, or a row that changes or deletes another one.
        """
        if isinstance(record, dict):
            fields = cast("dict[str, Any]", record)
            if not self._lenient and not self._known.issuperset(fields):
                self.refuse(record, fields)
            return list(map(fields.get, self.names))
        if isinstance(record, Row):
            check_insert(record)
            names = field_names(record)
            if names is not None and not self._known.issuperset(names):
                if self._lenient:
                    return list(map(record.as_dict().get, self.names))
                self.refuse(record, names)
            return record.get_fields_by_names(self.names)
        if not is_array(record):
            reason = "it has no names, and its parts have no order"
            raise RecordValueError(
                "*", f"{record!r:.200}", ", ".join(self.names), reason, "Make it a Row, a dict or a tuple"
            )
        return record

    def refuse(self, record: Any, fields: Iterable[str]) -> NoReturn:
        """Raise for the first field that is no column."""
        field = next(name for name in fields if name not in self._known)
        raise RecordFieldError(str(field), begin_of(record), tuple(self.names), self.way_out)
