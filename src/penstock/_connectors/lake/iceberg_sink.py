"""A sink that appends to an Iceberg table, each checkpoint as one snapshot (decision 57)."""

from __future__ import annotations

import json
import pickle
import uuid
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from penstock._api.connectors.committer import GlobalCommitter, SupportsGlobalCommitter
from penstock._api.connectors.serializer import SimpleVersionedSerializer
from penstock._api.connectors.sink import CommittingSinkWriter, Sink
from penstock._connectors.lake.iceberg_schema import check_columns, check_transforms, check_types, misplaced, writing
from penstock._connectors.lake.iceberg_table import (
    Tables,
    catalog_options,
    given_options,
    local_warehouse,
)
from penstock._connectors.lake.stores import refused_by_the_store, rows_of_file
from penstock._formats.record_tables import NO_COLUMN, RecordTables, checked_schema
from penstock._shelf import show
from penstock.common.libraries import library_of
from penstock.errors import LakeTableError, LostCommittableError, UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from penstock._api.connectors.committer import CommitRequest, CommitterInitContext
    from penstock._api.connectors.sink import BatchContext, SinkWriterContext, WriterInitContext

#: Bytes of records, as columns in memory, that become files together.
_WRITTEN_BYTES = 64 * 1024 * 1024
#: Tries of one commit while other writers change the table.
_TRIES = 5
#: Runs of a job whose last checkpoint a table remembers.
_REMEMBERED_RUNS = 50


@dataclass(frozen=True, slots=True)
class StagedDataFile:
    """A data file that stands in the table's location, and in no snapshot yet.

    Args:
        entry: The library's description of the file, pickled.
        spec_id: The partition spec by which it was written.
        table_uuid: The table that it was written for.
        schema_id: The table's schema then.
        columns: The columns that it has.
        job: Which job and sink have written it: under this name the table records checkpoints.
        run: Which run of that job.
    """

    entry: bytes
    spec_id: int
    table_uuid: str
    schema_id: int
    columns: tuple[str, ...]
    job: str
    run: str


class StagedDataFileSerializer(SimpleVersionedSerializer[StagedDataFile]):
    """Writes plain data, so that classes may move."""

    def get_version(self) -> int:
        """Return 1, the only version."""
        return 1

    def serialize(self, obj: StagedDataFile) -> bytes:
        """Return the bytes of a file's description."""
        return pickle.dumps((obj.entry, obj.spec_id, obj.table_uuid, obj.schema_id, obj.columns, obj.job, obj.run))

    def deserialize(self, version: int, serialized: bytes) -> StagedDataFile:
        """Return the description from its bytes."""
        del version
        return StagedDataFile(*pickle.loads(serialized))


class IcebergSink(Sink[Any], SupportsGlobalCommitter[StagedDataFile]):
    """Appends each record to an Iceberg table exactly once.

    Writers put data files into the table's location, by its partitions. Once a checkpoint is durable, one snapshot adds
    all of its files, and the same commit records the checkpoint in a property of the table. A commit asks for that
    property first. Files of attempts that failed are in no snapshot; removing orphan files removes them. Needs
    ``penstock[iceberg]``.

    Args:
        identifier: The table's name in the catalog, such as ``shop.orders``.
        catalog: The catalog's options, those of pyiceberg; the job's ``s3.…`` keys are added.
        schema: Names and types of the columns, for dicts or Rows; by default all columns of the table. A table that
            does not exist is made of it, without partitions.

    Raises:
        MissingExtraError: pyiceberg is not installed.
        TypeError: The catalog is no mapping, or the schema none of Arrow's.
        UnsupportedTableError: A column is of a type that no Iceberg table has, such as a large unsigned one.

    Example:
        >>> import pyarrow as pa
        >>> catalog = {"type": "sql", "uri": "sqlite:////data/catalog.db", "warehouse": "file:///data/tables"}
        >>> sink = IcebergSink("shop.orders", catalog, pa.schema([("id", pa.int64())]))
    """

    def __init__(self, identifier: str, catalog: Mapping[str, str], schema: pa.Schema | None = None) -> None:
        library_of("iceberg")
        self._identifier, self._catalog = identifier, given_options(catalog)
        self._schema = checked_schema(schema)
        if self._schema is not None:
            check_types(writing(identifier), self._schema)

    def storage_paths(self) -> tuple[str, ...]:
        """Return the catalog's warehouse, if it is a local folder and the catalog names it."""
        return local_warehouse(self._catalog)

    def create_writer(self, context: WriterInitContext) -> _IcebergWriter:
        """Make a writer of data files.

        Raises:
            LakeTableError: There is no such table, and no schema to make it of.
        """
        return _IcebergWriter(context, Tables(self._identifier, catalog_options(self._catalog)), self._schema)

    def create_global_committer(self, context: CommitterInitContext) -> _IcebergCommitter:
        """Make the committer, which makes a table that does not exist.

        Raises:
            LakeTableError: There is no such table, and no schema to make it of.
            UnsupportedTableError: The table has other columns than the schema.
        """
        return _IcebergCommitter(context, Tables(self._identifier, catalog_options(self._catalog)), self._schema)

    def get_committable_serializer(self) -> StagedDataFileSerializer:
        """Return the serializer of descriptions of files."""
        return StagedDataFileSerializer()


def _opened(tables: Tables, schema: pa.Schema | None, *, make: bool) -> tuple[Any, Any]:
    """Return the table and the schema of the records; the catalog is closed again.

    Args:
        tables: The table.
        schema: The sink's schema, if it has one.
        make: Whether the table is made of it where there is none.
    """
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    try:
        if schema is not None and make:
            tables.make(schema)
        table = tables.load("Writing into")
    finally:
        tables.close()
    check_transforms(tables.identifier, table)
    if schema is None:
        return table, schema_to_pyarrow(table.schema(), include_field_ids=False)
    check_columns(tables.identifier, table, schema)
    return table, schema


class _IcebergWriter(CommittingSinkWriter[Any, StagedDataFile]):
    """Writes the records of an epoch into as few files as the table's partitions allow."""

    takes_batches = True

    def __init__(self, context: WriterInitContext, tables: Tables, schema: pa.Schema | None) -> None:
        self._context, self._tables, self._schema = context, tables, schema
        self._has_looked = True
        self._table, self._record_schema = _opened(tables, schema, make=context.restored_checkpoint_id is None)
        self._records = RecordTables(self._record_schema, way_out=NO_COLUMN)
        self._finished: list[StagedDataFile] = []
        self._outputs = _Outputs(self._table.io)

    def write_all(self, elements: list[Any], timestamps: Sequence[int | None] | None = None) -> None:
        del timestamps
        self._look()
        self._records.add_elements(elements)
        self._write_if_full()

    def write_batch(self, batch: pa.RecordBatch, context: BatchContext) -> None:
        if context.has_names:
            self._look()
            self._records.add_batch(batch, context.records)
            self._write_if_full()
        else:
            self.write_all(context.records())

    def write(self, element: Any, context: SinkWriterContext) -> None:
        del context
        self.write_all([element])

    def _look(self) -> None:
        """Look at the table before the first record of an epoch: it may have changed.

        Raises:
            LakeTableError: It is gone.
            UnsupportedTableError: It was made anew, or its columns are not the sink's any more.
        """
        if self._has_looked:
            return
        table, record_schema = _opened(self._tables, self._schema, make=False)
        if table.metadata.table_uuid != self._table.metadata.table_uuid:
            reason = "it was dropped and made anew while the job wrote it; start the job again to write the new one"
            raise UnsupportedTableError(writing(self._tables.identifier), reason)
        if not record_schema.equals(self._record_schema):
            self._record_schema = record_schema
            self._records = RecordTables(record_schema, way_out=NO_COLUMN)
        self._table, self._has_looked = table, True
        self._outputs = _Outputs(table.io)

    def _write_if_full(self) -> None:
        if self._records.nbytes >= _WRITTEN_BYTES:
            self._write_files()

    def _write_files(self) -> None:
        from pyiceberg.io import pyarrow as library

        records = self._records.take()
        if records is None:
            return
        context, metadata = self._context, self._table.metadata
        name = f"{context.attempt_token}-{context.subtask_id}-{uuid.uuid4().hex}"
        job = f"{context.job_id}.{context.operator_uid}"
        # The library names files by whatever stands in the place of its UUID.
        what = f"Writing files of the Iceberg table {'.'.join(self._table.name())} into {metadata.location}"
        with refused_by_the_store(what):
            written = list(
                cast("Any", library)._dataframe_to_data_files(metadata, records, self._outputs, name, count())
            )
        self._outputs.begun.clear()
        spec, table, schema = metadata.default_spec_id, str(metadata.table_uuid), metadata.current_schema_id
        columns = tuple(records.column_names)
        self._finished += [
            StagedDataFile(pickle.dumps(one), spec, table, schema, columns, job, context.run_id) for one in written
        ]

    def flush(self, end_of_input: bool) -> None:
        del end_of_input
        self._write_files()
        self._has_looked = False

    def prepare_commit(self) -> list[StagedDataFile]:
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        for location in self._outputs.begun:  # of a store that is full, or gone: they count for nothing
            with suppress(Exception):
                self._table.io.delete(location)
        self._outputs.begun.clear()


class _Outputs:
    """Begins data files, and knows which.

    Args:
        io: The table's ``FileIO``.
    """

    def __init__(self, io: Any) -> None:
        self._io = io
        self.begun: list[str] = []

    def new_output(self, location: str) -> Any:
        """Begin one; called by the library, on several threads."""
        self.begun.append(location)
        return self._io.new_output(location)


class _IcebergCommitter(GlobalCommitter[StagedDataFile]):
    def __init__(self, context: CommitterInitContext, tables: Tables, schema: pa.Schema | None) -> None:
        self._tables = tables
        _opened(tables, schema, make=context.restored_checkpoint_id is None)

    def commit(self, requests: Collection[CommitRequest[StagedDataFile]]) -> None:
        """Add the files of one checkpoint as one snapshot, unless the table has recorded the checkpoint.

        Another writer that commits first is a conflict: the table is looked at again, because that writer may have been
        another driver of this job.

        Raises:
            LostCommittableError: A file is gone, or the table was made anew.
            UnsupportedTableError: The table's partitions or columns were changed since the files were written, so that
                their values have no place in it.
            LakeTableError: The store refuses the snapshot.
        """
        from pyiceberg.exceptions import CommitFailedException

        checkpoint_id = next(iter(requests)).checkpoint_id
        files = [request.get_committable() for request in requests]
        for _ in range(_TRIES):
            table = self._tables.load("Committing to")
            if _recorded(table, files[0]) >= checkpoint_id:
                for request in requests:
                    request.signal_already_committed()
                return
            try:
                with refused_by_the_store(f"Committing to the Iceberg table {self._tables.identifier}"):
                    self._append(table, files, checkpoint_id)
            except CommitFailedException:
                continue
            return
        for request in requests:
            request.retry_later()

    def _append(self, table: Any, files: list[StagedDataFile], checkpoint_id: int) -> None:
        name, first = self._tables.identifier, files[0]
        if any(file.table_uuid != str(table.metadata.table_uuid) for file in files):
            raise LostCommittableError(f"{name}, checkpoint {checkpoint_id}", "the table was dropped and made anew")
        if any(file.spec_id != table.spec().spec_id for file in files):
            reason = (
                f"its partitions were changed from spec {first.spec_id} to {table.spec().spec_id} while checkpoint "
                f"{checkpoint_id} was under way; set the former ones until the job has committed it"
            )
            raise UnsupportedTableError(f"Committing to the Iceberg table {name}", reason)
        entries = [pickle.loads(file.entry) for file in files]
        for file, entry in zip(files, entries, strict=True):
            _check_file(table, entry)
            if reason := misplaced(table, file.schema_id, file.columns, entry):
                told = f"{reason} since the files of checkpoint {checkpoint_id} were written, which stay where they are"
                raise UnsupportedTableError(f"Committing to the Iceberg table {name}", told)
        marks = {**_marks(table, first.job), first.run: checkpoint_id}
        newest = dict(list(marks.items())[-_REMEMBERED_RUNS:])
        job_id, _, uid = first.job.partition(".")
        summary = {
            "penstock.job-id": job_id,
            "penstock.operator-uid": uid,
            "penstock.run-id": first.run,
            "penstock.checkpoint-id": str(checkpoint_id),
        }
        transaction = _without_retries(table).transaction()
        with transaction.update_snapshot(snapshot_properties=summary).fast_append() as append:
            for entry in entries:
                append.append_data_file(entry)
        transaction.set_properties({_property(first.job): json.dumps(newest)})
        transaction.commit_transaction()

    def describe(self, committable: StagedDataFile) -> str:
        """Return how many rows are staged, and where."""
        entry = pickle.loads(committable.entry)
        return f"{entry.record_count} rows in {entry.file_path}"

    def read_records(self, committable: StagedDataFile) -> Iterator[Any] | None:
        """Return the rows of a file as dicts; None if it is gone."""
        entry, table = pickle.loads(committable.entry), self._tables.load("Reading files staged for")
        return rows_of_file(lambda: table.io.new_input(entry.file_path).open())

    def close(self) -> None:
        self._tables.close()


def _property(job: str) -> str:
    return f"penstock.commits.{job}"


def _marks(table: Any, job: str) -> dict[str, int]:
    """Return the last checkpoint of each run of a job that the table has; the newest run is the last."""
    return json.loads(table.properties.get(_property(job), "{}"))


def _recorded(table: Any, file: StagedDataFile) -> int:
    """Return the last checkpoint of a file's run that the table has; 0 without one."""
    return _marks(table, file.job).get(file.run, 0)


def _check_file(table: Any, entry: Any) -> None:
    """Check that a staged file is there, whole.

    Raises:
        LostCommittableError: It is not.
        LakeTableError: It is not known, because the store does not answer.
    """
    try:
        size = len(table.io.new_input(entry.file_path))
    except FileNotFoundError:
        raise LostCommittableError(entry.file_path, "it is gone") from None
    except OSError as error:
        raise LakeTableError(f"Looking at {entry.file_path}", f"the store does not answer ({error})") from error
    if size != entry.file_size_in_bytes:
        raise LostCommittableError(entry.file_path, f"it has {size} of its {entry.file_size_in_bytes} bytes")


def _without_retries(table: Any) -> Any:
    """Return the table with retries of the library switched off, in this process alone.

    It would repeat an append on what another driver has committed meanwhile, and not look for the checkpoint again.
    """
    from pyiceberg.table import Table

    properties = {**table.properties, "commit.retry.num-retries": "0"}
    metadata = table.metadata.model_copy(update={"properties": properties})
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)


show("penstock.datastream.connectors.iceberg", IcebergSink)
