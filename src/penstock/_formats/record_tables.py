"""Converts records, or batches of columns, to tables of a schema, for columnar files and tables."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from penstock._formats.arrow_misfits import MisfitError, made, misfits
from penstock._formats.arrow_types import unknown_field, unusable_part
from penstock._formats.arrow_values import array_of, arrow_array, plain
from penstock._formats.arrow_widening import joined
from penstock._formats.batches import as_schema
from penstock._formats.fields import LEFT_OUT, Columns, check_insert
from penstock.common.arguments import instance
from penstock.common.serialization import BulkWriter
from penstock.common.types import Row
from penstock.common.user_values import begin_of
from penstock.errors import RecordValueError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

_ROWS = 8192

_BY_SCHEMA = "Give a schema that has all fields to for_schema() of the writers, or change the records"
_BY_TYPE = "Make the values of one type, or give a schema to for_schema() of the writers"
_BY_CASTING = "Make the value one that fits, give the column another type"
_BY_FIRST = (
    "Without a schema, a file has the columns of the records in its first row group: give one that has all fields to "
    "for_schema() of the writers"
)

#: The advice of sinks that write into a table.
NO_COLUMN = "Add the column to the table and to the sink's schema, or change the records"


def needed_schema(schema: Any) -> pa.Schema:
    """Return the schema that a program gives for columns.

    Raises:
        TypeError: It is no schema of Arrow.
        ValueError: Two columns have one name, or one has a type that records have no values of.
    """
    import pyarrow as pa

    columns = instance("schema", schema, pa.Schema, 'pa.schema([("id", pa.int64())]) makes one')
    twice = [name for name, count in Counter(columns.names).items() if count > 1]
    if twice:
        msg = f"The schema has several columns of the name {twice[0]!r}; records have each field once."
        raise ValueError(msg)
    for field in cast("list[Any]", list(columns)):
        reason = unusable_part(field.type)
        if reason is not None:
            msg = f"The schema's column {field.name!r} cannot be written: {reason}. Give it another type."
            raise ValueError(msg)
    return columns


def checked_schema(schema: Any) -> pa.Schema | None:
    """Return the schema that a program gives for columns, or None; raises as ``needed_schema`` does."""
    return None if schema is None else needed_schema(schema)


class RecordTables:
    """Collects records as tables.

    Without a schema, the columns are all fields of the records up to the first ``take``, with types that hold all
    values. They are then the columns of all later records.

    Args:
        schema: Names and types of the columns.
        lenient: Leave out what the columns cannot hold.
        way_out: What errors advise for a field without a column, where the user can neither give a schema to
            ``for_schema`` nor choose ``lenient``: in tables, which are only appended to.
    """

    def __init__(self, schema: pa.Schema | None, *, lenient: bool = False, way_out: str | None = None) -> None:
        self._schema, self._lenient, self._way_out = schema, lenient, way_out
        advice = way_out or f"{_BY_SCHEMA}; {LEFT_OUT}"
        self._columns = None if schema is None else Columns(schema.names, advice, lenient=lenient)
        self._records: list[Any] = []
        self._batches: list[Any] = []
        #: The bytes of the tables that were not taken yet.
        self.nbytes = 0

    def add_elements(self, elements: list[Any]) -> None:
        """Add records; raises as ``convert`` does."""
        self._records += elements
        if len(self._records) >= _ROWS:
            self.convert()

    def add_batch(self, batch: pa.RecordBatch, records: Callable[[], list[Any]]) -> None:
        """Add a batch of columns, as it is where its columns are the schema's; raises as ``convert`` does."""
        self.convert()
        table = as_schema(batch, self._schema, lenient=self._lenient)
        if table is None:  # then a single record does not fit, and is named; or its value can be converted
            self.add_elements(records())
        else:
            self._add(table)

    def take(self) -> Any:
        """Return all records since the last call as one table; None if there are none.

        Raises:
            RecordValueError: Records do not fit together. Others as of ``convert``.
        """
        self.convert()
        if not self._batches:
            return None
        try:
            table = joined(self._batches)
        except MisfitError as error:
            first = self._batches[error.place].slice(0, 1).to_pylist()[0]
            raise RecordValueError(error.column, begin_of(first), "not declared", error.reason, _BY_TYPE) from error
        if self._schema is None:
            self._schema, self._columns = table.schema, Columns(table.schema.names, _BY_FIRST)
        self._batches, self.nbytes = [], 0
        return table

    def convert(self) -> None:
        """Convert the records that wait, so that one that does not fit is named now.

        Raises:
            RecordFieldError: A record has a field for which there is no column.
            RecordValueError: A record has a value that its column cannot hold.
        """
        records, self._records = self._records, []
        if records:
            self._add(self._inferred(records) if self._columns is None else self._by_columns(self._columns, records))

    def _add(self, table: Any) -> None:
        self._batches.append(table)
        self.nbytes += table.nbytes

    def _by_columns(self, columns: Columns, records: list[Any]) -> Any:
        import pyarrow as pa

        assert self._schema is not None
        values = list(zip(*map(columns.values, records), strict=True))
        fields: list[Any] = list(self._schema)
        typed = zip(values, fields, strict=True)
        arrays = [self._array(records, columns, column, field) for column, field in typed]
        return pa.table(arrays, schema=self._schema)  # pyright: ignore[reportUnknownMemberType]

    def _array(self, records: list[Any], columns: Columns, values: Sequence[Any], field: Any) -> Any:
        """Return one column of some records.

        Raises:
            RecordFieldError: A value contains a field that the column's structs lack.
            RecordValueError: The column cannot hold a value unchanged.
        """
        import pyarrow as pa

        if pa.types.is_nested(field.type) and not self._lenient:
            _check_inside(records, columns, field.name, values, field.type)
        missing = None if field.nullable else next((place for place, one in enumerate(values) if one is None), None)
        if missing is not None:
            raise self._unfit(records[missing], field, "it is null or left out, and the column takes no nulls")
        try:
            if self._lenient:
                return made(list(map(plain, values)), lambda given: cast("Any", pa).array(given, field.type))
            return made(values, lambda given: arrow_array(given, field.type))
        except MisfitError as error:
            raise self._unfit(records[error.place], field, error.reason) from error

    def _inferred(self, records: list[Any]) -> Any:
        """Return a table of all fields that records have, with types that hold all of their values.

        Raises:
            RecordValueError: A field has values that have no type in common.
        """
        import pyarrow as pa

        dicts = list(map(_as_dict, records))
        names = dict.fromkeys(chain.from_iterable(dicts))
        if not names:
            way_out = "Filter such records out, or give a schema to for_schema() of the writers"
            raise RecordValueError("*", begin_of(records[0]), "not declared", "the record has no fields", way_out)
        columns: dict[str, Any] = {}
        for name in names:
            try:
                columns[name] = made([one.get(name) for one in dicts], array_of)
            except MisfitError as error:
                record = begin_of(records[error.place])
                raise RecordValueError(name, record, "not declared", error.reason, _BY_TYPE) from error
        return cast("Any", pa.table(columns))

    def _unfit(self, record: Any, field: Any, reason: str) -> RecordValueError:
        may_be_lenient = not self._lenient and self._way_out is None
        way_out = (
            f"{_BY_CASTING}, or set lenient=True to let what does not fit be cut" if may_be_lenient else _BY_CASTING
        )
        return RecordValueError(field.name, begin_of(record), str(field.type), reason.rstrip("."), way_out)


class TableWriter(BulkWriter):
    """Writes records in groups, as tables; a subclass knows the format of the file.

    Args:
        stream: The file.
        tables: Converts the records.
        group_bytes: The bytes in memory at which a group is written.
    """

    def __init__(self, stream: BinaryIO, tables: RecordTables, group_bytes: int) -> None:
        self._stream, self._tables, self._group_bytes = stream, tables, group_bytes
        self._writer: Any = None

    @abstractmethod
    def open_file(self, stream: BinaryIO, schema: pa.Schema) -> Any:
        """Return a writer of the library, which has ``close``; runs before the first group."""

    @abstractmethod
    def write_group(self, writer: Any, table: Any) -> None:
        """Write a group."""

    def add_element(self, element: Any) -> None:
        """Write one record."""
        self.add_elements([element])

    def add_elements(self, elements: list[Any]) -> None:
        """Write records."""
        self._tables.add_elements(elements)
        self._write_full_group()

    def add_batch(self, batch: pa.RecordBatch, records: Callable[[], list[Any]]) -> None:
        """Write a batch of columns."""
        self._tables.add_batch(batch, records)
        self._write_full_group()

    def flush(self) -> None:
        """Convert the records that wait; a group that is full is written."""
        self._tables.convert()
        self._write_full_group()

    def finish(self) -> None:
        """Write the last group, and the end of the file."""
        self._write_waiting()
        if self._writer is not None:
            self._writer.close()

    def _write_full_group(self) -> None:
        if self._tables.nbytes >= self._group_bytes:
            self._write_waiting()

    def _write_waiting(self) -> None:
        table = self._tables.take()
        if table is None:
            return
        if self._writer is None:
            self._writer = self.open_file(self._stream, table.schema)
        self.write_group(self._writer, table)


def _check_inside(records: list[Any], columns: Columns, name: str, values: Sequence[Any], arrow_type: Any) -> None:
    """Raise for a record with a field inside of one column that the column's structs do not have."""
    for record, value in zip(records, values, strict=True):
        try:
            unknown = unknown_field(value, arrow_type, name)
        except misfits():  # it is no value of the type at all, which the conversion tells
            continue
        if unknown is not None:
            columns.refuse(record, [unknown])


def _as_dict(record: Any) -> dict[str, Any]:
    if isinstance(record, Row):
        check_insert(record)
        return record.as_dict()
    return dict(record)
