"""A sink that appends to a Delta table, each checkpoint as one version of the table (decision 56)."""

from __future__ import annotations

import json
import pickle
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock._api.connectors.committer import GlobalCommitter, SupportsGlobalCommitter
from penstock._api.connectors.serializer import SimpleVersionedSerializer
from penstock._api.connectors.sink import CommittingSinkWriter, Sink
from penstock._connectors.lake.delta_table import (
    check_writable,
    delta_options,
    deltalake,
    folder_of,
    open_target,
    writable_schema,
)
from penstock._connectors.lake.stores import refused_by_the_store, rows_of_file
from penstock._formats.parquet import ParquetWriterFactory
from penstock._formats.record_tables import NO_COLUMN, needed_schema
from penstock._shelf import show
from penstock.common.paths import absolute_path, scheme_of
from penstock.errors import LostCommittableError, UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from penstock._api.connectors.committer import CommitRequest, CommitterInitContext
    from penstock._api.connectors.sink import BatchContext, SinkWriterContext, WriterInitContext
    from penstock.common.serialization import BulkWriter


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file that stands in the table's folder, and in no version of the table yet."""

    path: str
    size: int
    rows: int
    #: The run that has written it: with the sink, the name under which the table records checkpoints.
    application: str
    #: The table for which it was written.
    table_id: str


class DataFileSerializer(SimpleVersionedSerializer[DataFile]):
    """Writes plain data, so that classes may move."""

    def get_version(self) -> int:
        """Return 1, the only version."""
        return 1

    def serialize(self, obj: DataFile) -> bytes:
        """Return the bytes of a file's description."""
        return pickle.dumps((obj.path, obj.size, obj.rows, obj.application, obj.table_id))

    def deserialize(self, version: int, serialized: bytes) -> DataFile:
        """Return the description from its bytes."""
        del version
        return DataFile(*pickle.loads(serialized))


class DeltaSink(Sink[Any], SupportsGlobalCommitter[DataFile]):
    """Appends each record to a Delta table exactly once.

    Writers put Parquet files into the table's folder. Once a checkpoint is durable, one version of the table adds all
    of its files, and records the checkpoint's number in the same step. A commit asks the table for that number first.
    Files of attempts that failed are in no version; ``DeltaTable.vacuum`` removes them. Needs ``penstock[delta]``.

    Args:
        table_uri: The table's folder, local or in an object store. A table that does not exist is made.
        schema: Names and types of the columns; records are dicts or Rows.
        storage_options: Those of deltalake, for object stores; by default the job's ``s3.…`` keys.

    Raises:
        MissingExtraError: deltalake is not installed.
        TypeError: The schema is none of Arrow's.
        UnsupportedTableError: A column is of a type that no Delta table has, such as an unsigned one.

    Example:
        >>> import pyarrow as pa
        >>> sink = DeltaSink("/data/items", pa.schema([("id", pa.int64())]))
    """

    def __init__(self, table_uri: str, schema: pa.Schema, storage_options: Mapping[str, str] | None = None) -> None:
        deltalake()
        self._uri = absolute_path(table_uri)
        self._schema = writable_schema(self._uri, needed_schema(schema))
        self._options = dict(storage_options or {})

    def storage_paths(self) -> tuple[str, ...]:
        """Return the table's folder; one in an object store is accessed with separate options."""
        return () if scheme_of(self._uri) else (self._uri,)

    def create_writer(self, context: WriterInitContext) -> _DeltaWriter:
        """Make a writer of Parquet files."""
        return _DeltaWriter(context, self._uri, self._schema, delta_options(self._uri, self._options))

    def create_global_committer(self, context: CommitterInitContext) -> _DeltaCommitter:
        """Make the committer.

        Raises:
            UnsupportedTableError: The table is partitioned, or has other columns.
        """
        return _DeltaCommitter(context, self._uri, self._schema, delta_options(self._uri, self._options))

    def get_committable_serializer(self) -> DataFileSerializer:
        """Return the serializer of descriptions of files."""
        return DataFileSerializer()


class _DeltaWriter(CommittingSinkWriter[Any, DataFile]):
    """Writes one Parquet file in each epoch."""

    takes_batches = True

    def __init__(self, context: WriterInitContext, uri: str, schema: pa.Schema, options: Mapping[str, str]) -> None:
        self._context, self._uri, self._schema, self._options = context, uri, schema, options
        self._table: Any = None
        self._seen: tuple[Any, ...] = ()
        self._factory = ParquetWriterFactory(schema, way_out=NO_COLUMN)
        self._files = folder_of(uri, options, make=True)
        self._path = ""
        self._stream: Any = None
        self._writer: BulkWriter | None = None
        self._rows = 0
        self._finished: list[DataFile] = []

    def _opened(self, rows: int) -> BulkWriter:
        if self._writer is None:
            self._look()
            context = self._context
            self._path = f"part-{context.attempt_token}-{context.subtask_id}-{uuid.uuid4().hex}.parquet"
            with self._refused():
                self._stream = self._files.open_output_stream(self._path)
            self._writer = self._factory.create(self._stream)
        self._rows += rows
        return self._writer

    def _look(self) -> None:
        """Look at the table before the files of an epoch; it is made where the job has not written it yet.

        Raises:
            UnsupportedTableError: It was made anew, or does not take the files.
        """
        if self._table is not None and self._stamp() == self._seen:
            with refused_by_the_store(f"Looking at the Delta table {self._uri}", deltalake().exceptions.DeltaError):
                self._table.update_incremental()
        else:
            is_new = self._context.restored_checkpoint_id is None and self._table is None
            before, self._table = self._table, open_target(self._uri, self._options, self._schema if is_new else None)
            if before is not None and self._table.metadata().id != before.metadata().id:
                reason = "it was deleted and made anew while the job wrote it; start the job again to write the new one"
                raise UnsupportedTableError(f"Writing into the Delta table {self._uri}", reason)
        self._seen = self._stamp()
        check_writable(self._table, self._schema)

    def _stamp(self) -> tuple[Any, ...]:
        """Return what tells a version's entry of the log from one of the same number in a table that was made anew."""
        (info,) = self._files.get_file_info([f"_delta_log/{self._table.version():020}.json"])
        return info.path, info.size, info.mtime_ns

    def _refused(self) -> AbstractContextManager[None]:
        return refused_by_the_store(f"Writing {self._uri}/{self._path}")

    def write(self, element: Any, context: SinkWriterContext) -> None:
        del context
        self.write_all([element])

    def write_all(self, elements: list[Any], timestamps: Sequence[int | None] | None = None) -> None:
        del timestamps
        writer = self._opened(len(elements))
        with self._refused():
            writer.add_elements(elements)

    def write_batch(self, batch: pa.RecordBatch, context: BatchContext) -> None:
        if context.has_names:
            writer = self._opened(batch.num_rows)
            with self._refused():
                writer.add_batch(batch, context.records)
        else:
            self.write_all(context.records())

    def flush(self, end_of_input: bool) -> None:
        del end_of_input
        if self._writer is None:
            return
        with self._refused():
            self._writer.finish()
            size = self._stream.tell()
            self._stream.close()
        context = self._context
        application = f"penstock-{context.job_id}-{context.operator_uid}-{context.run_id}"
        self._finished.append(DataFile(self._path, size, self._rows, application, self._table.metadata().id))
        self._writer, self._stream, self._rows = None, None, 0

    def prepare_commit(self) -> list[DataFile]:
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        stream, self._stream, self._writer = self._stream, None, None
        if stream is None:
            return
        with suppress(Exception):  # of a store that is full, or gone: the file counts for nothing
            stream.close()
        with suppress(Exception):
            self._files.delete_file(self._path)


class _DeltaCommitter(GlobalCommitter[DataFile]):
    def __init__(self, context: CommitterInitContext, uri: str, schema: pa.Schema, options: Mapping[str, str]) -> None:
        del context
        self._uri, self._schema, self._options = uri, schema, dict(options)
        self._files = folder_of(uri, options, make=True)
        library = deltalake()
        if library.DeltaTable.is_deltatable(uri, self._options or None):
            check_writable(library.DeltaTable(uri, storage_options=self._options or None), schema)

    def commit(self, requests: Collection[CommitRequest[DataFile]]) -> None:
        """Add the files of one checkpoint as one version, unless the table has recorded the checkpoint.

        Raises:
            LostCommittableError: A file is gone, or has another length, or the table was made anew.
            UnsupportedTableError: The table has been given other columns since the files were written.
            LakeTableError: The table's store refuses the version.
        """
        library = deltalake()
        with refused_by_the_store(f"Committing to the Delta table {self._uri}", library.exceptions.DeltaError):
            self._commit(library, requests)

    def _commit(self, library: Any, requests: Collection[CommitRequest[DataFile]]) -> None:
        files = [request.get_committable() for request in requests]
        checkpoint_id, application = next(iter(requests)).checkpoint_id, files[0].application
        table = open_target(self._uri, self._options)
        recorded = table.transaction_version(application)
        if recorded is not None and recorded >= checkpoint_id:
            for request in requests:
                request.signal_already_committed()
            return
        if any(file.table_id != table.metadata().id for file in files):
            what = f"{self._uri}, checkpoint {checkpoint_id}"
            raise LostCommittableError(what, "the table was deleted and made anew since its files were written")
        check_writable(table, self._schema)
        for file, info in zip(files, self._files.get_file_info([file.path for file in files]), strict=True):
            if info.size != file.size:
                raise LostCommittableError(f"{self._uri}/{file.path}", f"it has {info.size} of its {file.size} bytes")
        now = int(time.time() * 1000)
        actions = [
            library.transaction.AddAction(file.path, file.size, {}, now, True, json.dumps({"numRecords": file.rows}))
            for file in files
        ]
        transaction = library.Transaction(application, checkpoint_id, now)
        properties = library.CommitProperties(app_transactions=[transaction])
        table.create_write_transaction(actions, "append", self._schema, commit_properties=properties)

    def describe(self, committable: DataFile) -> str:
        """Return how many rows are staged, and where."""
        return f"{committable.rows} rows in {self._uri}/{committable.path}"

    def read_records(self, committable: DataFile) -> Iterator[Any] | None:
        """Return the rows of a file as dicts; None if it is gone."""
        return rows_of_file(lambda: self._files.open_input_file(committable.path))


show("penstock.datastream.connectors.delta", DeltaSink)
