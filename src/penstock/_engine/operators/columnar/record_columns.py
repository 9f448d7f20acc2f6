"""Converts records to columns, by the declared type of their stream or else by the records of each batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._engine.operators.columns import ColumnBatch
from penstock._formats.arrow_misfits import MisfitError
from penstock._formats.arrow_runs import runs
from penstock._formats.arrow_types import arrow_type
from penstock._formats.arrow_values import array_of, arrow_array
from penstock._formats.batches import as_schema
from penstock.common.columns import RecordLayout, check_columns, int64_column
from penstock.common.typeinfo import MapTypeInfo, PickledBytesTypeInfo, RowTypeInfo, TupleTypeInfo, Types
from penstock.common.types import Row, RowKind, field_names
from penstock.common.user_values import short_repr
from penstock.errors import BatchColumnsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
            raise BatchColumnsError(tuple(found), f"declared are {self._description()}")
        held = zip(self.names, self.types, strict=True)
        schema: Any = pa.schema([(name, kind or batch.schema.field(name).type) for name, kind in held])
        if batch.schema.equals(schema):
            return batch
        table = as_schema(batch, schema, lenient=False)
        if table is None:
            types = ", ".join(f"{field.name}: {field.type}" for field in batch.schema)
            reason = f"declared are {self._description()}, and not all values of {types} are of these types; cast them"
            raise BatchColumnsError(tuple(found), reason)
        return table.combine_chunks().to_batches()[0]

    def _description(self) -> str:
        return ", ".join(
            name if kind is None else f"{name}: {kind}" for name, kind in zip(self.names, self.types, strict=True)
        )


def column_batches(batch: RowBatch, declared: DeclaredColumns | None) -> Iterator[ColumnBatch]:
    """Yield records as columns, with their timestamps and watermarks.

    Records with values that no column holds together come in batches of their own, each of as many as fit: what
    becomes of a record must not depend on those that came with it.

    Args:
        batch: The records; without any, there is one batch without columns.
        declared: The columns of their declared type. None derives them: dicts and Rows have a column for each field, in
            the order in which the fields appear, tuples one for each position, and other values are one column.

    Raises:
        BatchColumnsError: A record cannot be columns, or its values are not of the declared type.
    """
    if not batch.records:
        yield ColumnBatch(_no_columns(), RecordLayout.DICTS, None, batch.watermarks)
    try:
        for start, stop, (columns, layout) in runs(batch.records, lambda records: _columns_of(records, declared)):
            part = batch if stop - start == len(batch) else batch.slice(start, stop)
            stamps = None if part.timestamps is None else int64_column(part.timestamps)
            yield ColumnBatch(columns, layout, stamps, part.watermarks)
    except MisfitError as error:
        told = f"it is to be made of records such as {short_repr(batch.records[error.place])}, but {error.reason}"
        raise BatchColumnsError((error.column,) if error.column else (), told) from error


def _columns_of(records: list[Any], declared: DeclaredColumns | None) -> tuple[Any, RecordLayout]:
    """Return records as an Arrow batch.

    Raises:
        MisfitError: A record does not fit the others, or is none.
    """
    import pyarrow as pa

    layout, names, types, values = _inferred(records) if declared is None else _by_type(records, declared)
    if not names:
        raise MisfitError(0, "it has no fields")
    arrays = [_array(*column) for column in zip(names, types, values, strict=True)]
    columns: Any = cast("Any", pa.RecordBatch).from_arrays(arrays, names=list(names))
    check_columns(columns, layout)
    return columns, layout


def _no_columns() -> Any:
    import pyarrow as pa

    return cast("Any", pa.RecordBatch).from_arrays([], names=[])


_Columns = tuple[RecordLayout, "Sequence[str]", "Sequence[Any]", "Sequence[Sequence[Any]]"]


def _by_type(records: list[Any], declared: DeclaredColumns) -> _Columns:
    if declared.layout is RecordLayout.VALUES:
        return declared.layout, declared.names, declared.types, [records]
    _check_kinds(records)
    try:
        values = list(zip(*records, strict=True))
    except (TypeError, ValueError) as error:
        raise MisfitError(0, f"not all are of the declared type ({error})") from error
    if len(values) != len(declared.names):
        raise MisfitError(0, "it is not of the declared type")
    return declared.layout, declared.names, declared.types, values


def _inferred(records: list[Any]) -> _Columns:
    first: Any = records[0]
    if isinstance(first, Row) and field_names(first) is not None:
        _check_alike(records, lambda record: isinstance(record, Row) and field_names(record) is not None)
        _check_kinds(records)
        return _by_names(RecordLayout.ROWS, [record.as_dict() for record in records])
    if isinstance(first, dict):
        _check_alike(records, lambda record: isinstance(record, dict))
        return _by_names(RecordLayout.DICTS, records)
    if isinstance(first, tuple):
        names = _numbered(len(cast("tuple[object, ...]", first)))
        _check_alike(records, lambda record: isinstance(record, tuple) and len(cast("Any", record)) == len(names))
        return RecordLayout.TUPLES, names, [None] * len(names), list(zip(*records, strict=True))
    return RecordLayout.VALUES, (ONLY_COLUMN,), (None,), [records]


def _check_alike(records: list[Any], is_alike: Callable[[Any], bool]) -> None:
    """Refuse the first record that has not the form of those before it."""
    for place, record in enumerate(records):
        if not is_alike(record):
            raise MisfitError(place, f"it is a {type(record).__name__} of another form than those before it")


def _by_names(layout: RecordLayout, fields: list[dict[Any, Any]]) -> _Columns:
    if not all(fields):  # beside others it would have their fields, alone it could not be told from no record
        raise MisfitError(fields.index({}), "it has no fields")
    names = list(dict.fromkeys(name for each in fields for name in each))
    for name in names:
        if not isinstance(name, str):
            place = next(place for place, each in enumerate(fields) if name in each)
            raise MisfitError(place, f"its field {name!r} has a name that is no text")
    return layout, names, [None] * len(names), [[each.get(name) for each in fields] for name in names]


def _check_kinds(records: list[Any]) -> None:
    """Refuse Rows with a kind other than insert, which columns cannot hold."""
    for place, record in enumerate(records):
        if isinstance(record, Row) and record.get_row_kind() is not RowKind.INSERT:
            raise MisfitError(place, f"it is a Row of kind {record.get_row_kind().name}, which columns cannot tell")


def _array(name: str, kind: Any, values: Sequence[Any]) -> Any:
    try:
        return array_of(values) if kind is None else arrow_array(values, kind)
    except MisfitError as error:
        type_too = "declare the type of the records" if kind is None else "declare another type"
        reason = f"the values of {name!r} are no column: {error}; convert it in a map() before, or {type_too}"
        raise MisfitError(error.place, reason, name) from error


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
