"""The files of a DataFrame that is made of a stream: Parquet, each with the columns of its own records."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from penstock._engine.caches.files import CacheSink, CacheWriter
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.columnar.record_columns import DeclaredColumns, column_batches
from penstock._formats.arrow_misfits import MisfitError
from penstock._formats.arrow_widening import joined
from penstock._formats.frame_types import NO_FIELD, of_files, of_frames
from penstock._formats.parquet import unwritable_column
from penstock.common.user_values import begin_of
from penstock.errors import BatchColumnsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._api.connectors.sink import BatchContext, WriterInitContext
    from penstock.common.typeinfo import TypeInformation

#: The columns of a file in memory, before they are compressed; a subtask holds as much.
FILE_BYTES: Final = 64 << 20


class FrameSink(CacheSink):
    """Where one job writes a stream for a DataFrame.

    Args:
        url: The directory of what is kept.
        writing: The name of the directory below it that this job alone writes to.
        type_info: The declared type of the records; None where they say themselves what they are.
    """

    def __init__(self, url: str, writing: str, type_info: TypeInformation | None) -> None:
        super().__init__(url, writing)
        self.type_info = type_info

    def create_writer(self, context: WriterInitContext) -> FrameWriter:
        """Make the writer of a subtask."""
        return FrameWriter(self, context)


class FrameWriter(CacheWriter):
    """Collects columns and writes them to Parquet files."""

    def __init__(self, sink: FrameSink, context: WriterInitContext) -> None:
        super().__init__(sink, context)
        self._declared = DeclaredColumns.of(sink.type_info)
        self._tables: list[Any] = []
        self._size = 0

    def write_all(self, elements: list[Any], timestamps: Sequence[int | None] | None = None) -> None:
        """Write records as columns; timestamps of records are no part of a DataFrame."""
        del timestamps
        if elements:
            if self._declared is None:
                elements = [{NO_FIELD: None} if isinstance(one, dict) and not one else one for one in elements]
            for batch in column_batches(RowBatch(elements), self._declared):
                self._add(batch.columns)

    def write_batch(self, batch: pa.RecordBatch, context: BatchContext) -> None:
        """Write columns as they are."""
        del context
        if batch.num_rows:
            self._add(batch if self._declared is None else self._declared.fitted(batch))

    def flush(self, end_of_input: bool) -> None:
        """Write a file of what is there."""
        del end_of_input
        if not self._tables:
            return
        tables, self._tables, self._size = self._tables, [], 0
        table = one_table(tables)
        unwritable = unwritable_column(table.schema)
        if unwritable is not None:
            field, reason = unwritable
            raise BatchColumnsError((field.name,), f"its column {field.name!r} is of type {field.type!s:.60}: {reason}")
        self.put(parquet_bytes(table), table.num_rows, table.schema.serialize().to_pybytes())

    def _add(self, columns: Any) -> None:
        table: Any = of_frames(cast("Any", pa.Table).from_batches([columns]))
        self._tables.append(table)
        self._size += table.nbytes
        if self._size >= FILE_BYTES:
            self.flush(False)


def one_table(tables: Sequence[Any]) -> Any:
    """Return tables as one, with the columns of all of them.

    Raises:
        BatchColumnsError: A column has values of several types.
    """
    try:
        return joined(tables)
    except MisfitError as error:
        rows = tables[error.place].slice(0, 1).to_pylist()
        told = f"records such as {begin_of(rows[0])}" if rows else "some of its records"
        reason = f"{told} do not fit others of the stream ({error})"
        way_out = "convert them in a map() before, or declare the type of the records"
        raise BatchColumnsError((error.column,), f"{reason}; {way_out}") from error


def parquet_bytes(table: Any) -> bytes:
    """Return a table as a Parquet file with one row group."""
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=max(1, table.num_rows))  # pyright: ignore[reportUnknownMemberType]
    return file.getvalue()


def schema_of(schemas: Sequence[bytes], declared: TypeInformation | None) -> pa.Schema:
    """Return the columns of all files of a stream; without files those of the declared type, which may be none.

    Raises:
        BatchColumnsError: A column has values of several types.
    """
    found = [cast("Any", pa.ipc).read_schema(pa.py_buffer(schema)) for schema in dict.fromkeys(schemas)]
    columns = DeclaredColumns.of(declared)
    if columns is not None and columns.are_complete:
        found.insert(0, pa.schema(list(zip(columns.names, columns.types, strict=True))))
    tables = [of_frames(schema.empty_table()) for schema in found]
    schema: Any = one_table(tables).schema if tables else pa.schema([])
    return of_files(schema)
