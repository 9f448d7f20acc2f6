"""Batches of columns: as the records of a file, and as tables of a schema, if that needs no look at single records."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from penstock.common.columns import RecordLayout, records_of
from penstock.errors import BatchColumnsError, SourceFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock._formats.parts import InputFile
    from penstock.common.typeinfo import TypeInformation


def records_in(
    file: InputFile,
    batch: pa.RecordBatch,
    layout: RecordLayout = RecordLayout.DICTS,
    types: Sequence[TypeInformation] | None = None,
) -> list[Any]:
    """Return the records of a batch that was read from a file; see ``records_of``.

    Raises:
        SourceFileError: A value has no counterpart in Python.
    """
    try:
        return records_of(batch, layout, types)
    except BatchColumnsError as error:
        raise SourceFileError(file.path, error.reason) from error


def check_names(file: InputFile, names: Sequence[str], wanted: Sequence[str] | None) -> None:
    """Check that the columns of a file have names of their own, and are all that a source reads.

    Raises:
        SourceFileError: Two have one name, or one is missing.
    """
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        reason = f"it has several columns of the name {twice!r}, and records have each field once"
        raise SourceFileError(file.path, f"{reason}; write it anew with other names")
    missing = [name for name in wanted or () if name not in names]
    if missing:
        reason = f"it has no column {', '.join(missing)}; its columns are {', '.join(names)}"
        raise SourceFileError(file.path, reason)


def as_schema(batch: pa.RecordBatch, schema: pa.Schema | None, *, lenient: bool) -> Any:
    """Return a batch as a table of a schema, with the columns by name; None if its records must be checked.

    Args:
        batch: The batch.
        schema: The schema; None takes that of the batch.
        lenient: Leave out columns that the schema does not have.
    """
    import pyarrow as pa

    table: Any = cast("Any", pa.Table).from_batches([batch])
    if schema is None:
        return table.replace_schema_metadata(None)
    if not (lenient or set(schema.names).issuperset(table.schema.names)):
        return None
    columns: list[Any] = []
    for field in cast("list[Any]", list(schema)):
        column = _column(table, field)
        if column is None:
            return None
        columns.append(column)
    return cast("Any", pa.table(columns, schema=schema))


def _column(table: Any, field: Any) -> Any:
    """Return the column of a field; None if a value may not fit, or a null is not allowed."""
    import pyarrow as pa

    if field.name not in table.schema.names:
        return cast("Any", pa).nulls(table.num_rows, field.type) if field.nullable else None
    column = table.column(field.name)
    if column.null_count and not field.nullable:
        return None
    if column.type == field.type:
        return column
    if not _is_wider(column.type, field.type):
        return None
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid:  # an integer that is too large
        return None


def _is_wider(found: Any, wanted: Any) -> bool:
    """Return whether Arrow's cast of a type to another one keeps all values unchanged, or fails."""
    import pyarrow as pa

    kinds: Any = pa.types
    if kinds.is_null(found):
        return True
    if kinds.is_dictionary(found):
        return found.value_type == wanted
    if kinds.is_integer(found) and kinds.is_integer(wanted):
        return True
    if kinds.is_decimal(found) and kinds.is_decimal(wanted):  # the cast fails where digits would go
        return True
    if kinds.is_string(found) or kinds.is_large_string(found):
        return kinds.is_string(wanted) or kinds.is_large_string(wanted)
    return kinds.is_float32(found) and kinds.is_float64(wanted)
