"""Whether columns have a place in an Iceberg table: their types at the start, and their fields at a commit.

A file's columns have the numbers of the table's fields. Readers find values by these alone: values of a number that the
table does not have any more would be committed and seen by nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock._connectors.lake.stores import types_in
from penstock.errors import UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Sequence

_LARGE_UNSIGNED = ("uint32", "uint64")


def check_types(what: str, schema: Any) -> None:
    """Check that an Iceberg table has the types of a schema.

    Args:
        what: What is done, for the error.
        schema: A schema of Arrow's.

    Raises:
        UnsupportedTableError: It has no such type.
    """
    import pyarrow as pa
    from pyiceberg.io import pyarrow as library

    convert: Any = getattr(library, "_pyarrow_to_schema_without_ids")  # noqa: B009 - it is the library's own
    for field in schema:
        reason = next((why for one in types_in(field.type) if (why := _refused(one))), None)
        reason = reason or (None if field.name else "its columns have names")
        if reason is None:
            try:
                convert(pa.schema([field]))
            except Exception as error:  # noqa: BLE001 - of no common class
                reason = str(error).rstrip(".")
            else:
                continue
        told = f"the sink's column {field.name!r} is {field.type}, which no Iceberg table has ({reason})"
        raise UnsupportedTableError(what, f"{told}; give it another type in the schema")


def _refused(arrow_type: Any) -> str | None:
    """Return why no table has a type that the library would take, and then fail to write."""
    import pyarrow as pa

    if str(arrow_type) in _LARGE_UNSIGNED:
        return "integers have signs there: take the next wider type"
    if pa.types.is_decimal(arrow_type) and arrow_type.scale < 0:
        return "decimals have digits behind the point there, or none"
    if not pa.types.is_struct(arrow_type):
        return None
    names: list[str] = [field.name for field in list[Any](arrow_type)]
    return "structs have fields there, and fields have names" if not names or "" in names else None


def misplaced(table: Any, schema_id: int, columns: Sequence[str], entry: Any) -> str | None:
    """Return what keeps a file from being a part of a table as it is now; None if nothing does.

    Args:
        table: The table.
        schema_id: Its schema when the file was written.
        columns: The columns that the file has.
        entry: The library's description of the file.
    """
    now = table.schema()
    if now.schema_id == schema_id:
        return None
    written = table.schemas().get(schema_id)
    if written is None:
        return f"its schema {schema_id} was removed from its metadata"
    return _without_place(written.select(*columns), now) or _lacking(written.select(*columns), now, entry)


def _without_place(written: Any, now: Any) -> str | None:
    """Return which column of a file the table lacks, or has with a type that does not hold its values."""
    from pyiceberg.exceptions import ResolveError
    from pyiceberg.schema import index_by_id, promote

    there = index_by_id(now)
    for number, field in index_by_id(written).items():
        name = written.find_column_name(number)
        other = there.get(number)
        if other is None:
            again = ", and another of that name was added" if name in now.column_names else ""
            return f"its column {name!r} was dropped{again}"
        if field.field_type.is_primitive and field.field_type != other.field_type:
            try:
                promote(field.field_type, other.field_type)
            except (ResolveError, AttributeError):
                return f"its column {name!r} was changed from {field.field_type} to {other.field_type}"
    return None


def _lacking(written: Any, now: Any, entry: Any) -> str | None:
    """Return which column the table needs, and a file lacks or has nulls in."""
    has = {field.field_id: field for field in written.fields}
    for field in now.fields:
        if not field.required:
            continue
        own = has.get(field.field_id)
        if own is None and getattr(field, "initial_default", None) is None:
            return f"a column {field.name!r} was added that must not be null"
        if (
            own is not None
            and not own.required
            and cast("dict[int, int]", entry.null_value_counts or {}).get(field.field_id) != 0
        ):
            return f"its column {field.name!r} was changed so that it must not be null"
    return None


def writing(identifier: str) -> str:
    """Return what is done, for errors."""
    return f"Writing into the Iceberg table {identifier}"


def check_transforms(identifier: str, table: Any) -> None:
    """Check that the partitions of records can be computed here.

    Raises:
        UnsupportedTableError: A transform of the table's partitions needs a library that is not installed.
    """
    from pyiceberg.exceptions import NotInstalledError

    for field in table.spec().fields:
        try:
            field.transform.pyarrow_transform(table.schema().find_type(field.source_id))
        except (NotInstalledError, NotImplementedError, ValueError) as error:
            what = writing(identifier)
            reason = f"its partitions are by {field.transform} of a column, which cannot be computed here ({error})"
            raise UnsupportedTableError(what, reason) from None


def check_columns(identifier: str, table: Any, schema: Any) -> None:
    """Check that files of a schema have a place in the table.

    Raises:
        UnsupportedTableError: The table has no such column or another type, or must have a column that is missing.
    """
    from pyiceberg.io import pyarrow as library

    what = writing(identifier)
    there: Any = library.schema_to_pyarrow(table.schema(), include_field_ids=False)
    if unknown := [name for name in schema.names if name not in there.names]:
        reason = f"the sink's columns {', '.join(unknown)} are not in the table, which has {', '.join(there.names)}"
        raise UnsupportedTableError(what, reason)
    if lacking := [one.name for one in there if not one.nullable and one.name not in schema.names]:
        reason = f"the sink's schema lacks {', '.join(lacking)}, which must not be null"
        raise UnsupportedTableError(what, reason)
    try:
        cast("Any", library)._check_pyarrow_schema_compatible(table.schema(), schema)
    except ValueError as error:
        raise UnsupportedTableError(what, f"the sink's types are not the table's: {error}") from None
