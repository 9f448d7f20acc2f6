"""Converts records to columns, by the declared type of their stream or else by the records of each batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._engine.operators.columns import ColumnBatch
from penstock._formats.arrow_misfits import MisfitError
from penstock._formats.arrow_types import arrow_type
from penstock._formats.arrow_values import array_of, arrow_array
from penstock._formats.batches import as_schema
from penstock.common.columns import RecordLayout, check_columns, int64_column
from penstock.common.typeinfo import MapTypeInfo, PickledBytesTypeInfo, RowTypeInfo, TupleTypeInfo, Types
from penstock.common.types import Row, RowKind, field_names
from penstock.common.user_values import short_repr
from penstock.errors import BatchColumnsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._engine.operators.batch import RowBatch
    from penstock.common.typeinfo import TypeInformation

#: The name of the only column where records are plain values; Flink's name for it.
ONLY_COLUMN: Final = "f0"


@dataclass(frozen=True, slots=True)
class DeclaredColumns:
    """The columns of a declared type.

    Attributes:
        layout: The Python type of the records.
        names: The names of the columns; those of tuples are f0, f1 and so on.
        types: Their Arrow types; None for a type that Arrow does not have, whose Arrow type follows from the values.
    """

    layout: RecordLayout
    names: tuple[str, ...]
    types: tuple[Any, ...]

    @staticmethod
    def of(type_info: TypeInformation | None) -> DeclaredColumns | None:
        """Return the columns of a type; None for a type that does not determine columns."""
        match type_info:
            case None | PickledBytesTypeInfo() | MapTypeInfo():
                return None
            case RowTypeInfo():
                names, types = type_info.get_field_names(), type_info.get_field_types()
                return DeclaredColumns(RecordLayout.ROWS, tuple(names), _arrow_types(types))
            case TupleTypeInfo():
                types = type_info.get_field_types()
                return DeclaredColumns(RecordLayout.TUPLES, _numbered(len(types)), _arrow_types(types))
            case _:
                return DeclaredColumns(RecordLayout.VALUES, (ONLY_COLUMN,), _arrow_types([type_info]))

    @property
    def are_complete(self) -> bool:
        """Whether Arrow has the type of each column."""
        return None not in self.types

    def fitted(self, batch: Any) -> Any:
        """Return an Arrow batch as these columns, in their order.

        Columns of tuples and of plain values are found by their places, those of rows by their names.

        Raises:
            BatchColumnsError: It has other columns, or values that a cast would change.
        """
        import pyarrow as pa

        found: list[str] = batch.schema.names
        if self.layout is not RecordLayout.ROWS and len(found) == len(self.names):
            batch = batch.rename_columns(list(self.names))
        elif sorted(found) != sorted(self.names):
            raise BatchColumnsError(tuple(found), f"declared are {self._told()}")
        held = zip(self.names, self.types, strict=True)
        schema: Any = pa.schema([(name, kind or batch.schema.field(name).type) for name, kind in held])
        if batch.schema.equals(schema):
            return batch
        table = as_schema(batch, schema, lenient=False)
        if table is None:
            types = ", ".join(f"{field.name}: {field.type}" for field in batch.schema)
            reason = f"declared are {self._told()}, and not all values of {types} are of these types; cast them"
            raise BatchColumnsError(tuple(found), reason)
        return table.combine_chunks().to_batches()[0]

    def _told(self) -> str:
        return ", ".join(
            name if kind is None else f"{name}: {kind}" for name, kind in zip(self.names, self.types, strict=True)
        )


def with_columns(batch: RowBatch, declared: DeclaredColumns | None) -> ColumnBatch:
    """Return records as columns, with their timestamps and watermarks.

    Args:
        batch: The records, at least one.
        declared: The columns of their declared type. None derives them: dicts and Rows have a column for each field, in
            the order in which the fields appear, tuples one for each position, and other values are one column.

    Raises:
        BatchColumnsError: The records have no columns in common, or a column has values of several types.
    """
    import pyarrow as pa

    layout, names, types, values = _inferred(batch.records) if declared is None else _by_type(batch.records, declared)
    arrays = [_array(*column, batch.records) for column in zip(names, types, values, strict=True)]
    columns: Any = cast("Any", pa.RecordBatch).from_arrays(arrays, names=list(names))
    if not names:  # a batch without columns does not know its number of records
        raise BatchColumnsError((), f"records such as {batch.records[0]!r:.200} have no fields")
    check_columns(columns, layout)
    stamps = None if batch.timestamps is None else int64_column(batch.timestamps)
    return ColumnBatch(columns, layout, stamps, batch.watermarks)


_Columns = tuple[RecordLayout, "Sequence[str]", "Sequence[Any]", "Sequence[Sequence[Any]]"]


def _by_type(records: list[Any], declared: DeclaredColumns) -> _Columns:
    if declared.layout is RecordLayout.VALUES:
        return declared.layout, declared.names, declared.types, [records]
    _check_kinds(records)
    try:
        values = list(zip(*records, strict=True))
    except (TypeError, ValueError) as error:
        raise _misfit(declared.names, records, f"they are not of the declared type ({error})") from error
    if len(values) != len(declared.names):
        raise _misfit(declared.names, records, "they are not of the declared type")
    return declared.layout, declared.names, declared.types, values


def _inferred(records: list[Any]) -> _Columns:
    first: Any = records[0]
    if isinstance(first, Row) and field_names(first) is not None:
        _check_kinds(records)
        return _by_names(RecordLayout.ROWS, records, Row, lambda record: record.as_dict())
    if isinstance(first, dict):
        return _by_names(RecordLayout.DICTS, records, dict, lambda record: record)
    if isinstance(first, tuple):
        names = _numbered(len(cast("tuple[object, ...]", first)))
        if any(not isinstance(record, tuple) or len(cast("Any", record)) != len(names) for record in records):
            raise _misfit(names, records, "some are tuples of that length and others are not")
        return RecordLayout.TUPLES, names, [None] * len(names), list(zip(*records, strict=True))
    return RecordLayout.VALUES, (ONLY_COLUMN,), (None,), [records]


def _by_names(
    layout: RecordLayout, records: list[Any], kind: type[Any], fields_of: Callable[[Any], dict[str, Any]]
) -> _Columns:
    if any(not isinstance(record, kind) for record in records):
        raise _misfit((), records, f"some are {kind.__name__}s and others are not")
    fields = [fields_of(record) for record in records]
    names = list(dict.fromkeys(name for each in fields for name in each))
    if not all(isinstance(name, str) for name in cast("list[object]", names)):
        raise _misfit(tuple(map(str, names)), records, "their fields have names that are no texts")
    return layout, names, [None] * len(names), [[each.get(name) for each in fields] for name in names]


def _check_kinds(records: list[Any]) -> None:
    """Refuse Rows with a kind other than insert, which columns cannot hold."""
    for record in records:
        if isinstance(record, Row) and record.get_row_kind() is not RowKind.INSERT:
            raise _misfit((), records, f"one is a Row of kind {record.get_row_kind().name}, which columns cannot tell")


def _array(name: str, kind: Any, values: Sequence[Any], records: list[Any]) -> Any:
    try:
        return array_of(values) if kind is None else arrow_array(values, kind)
    except MisfitError as error:
        reason = f"the values of {name!r} are no column: {error}; declare the type of the records"
        raise _misfit((name,), records[error.place :], reason) from error


def _misfit(names: Sequence[str], records: list[Any], reason: str) -> BatchColumnsError:
    told = f"it is to be made of records such as {short_repr(records[0])}, but {reason}"
    return BatchColumnsError(tuple(names), told)


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"f{place}" for place in range(count))


def _arrow_types(types: Sequence[TypeInformation]) -> tuple[Any, ...]:
    found: list[Any] = []
    for type_info in types:
        try:
            found.append(None if type_info == Types.INSTANT() else arrow_type(type_info, ""))
        except ValueError:
            found.append(None)
    return tuple(found)
