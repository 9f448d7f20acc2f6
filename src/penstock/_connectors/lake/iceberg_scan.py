"""What is read of an Iceberg table: the files of one snapshot, or those that each new snapshot adds."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from penstock._connectors.lake.scans import Piece, PinnedScan
from penstock.errors import (
    ExpiredSnapshotError,
    LakeTableError,
    SourceFileError,
    SourceFileGoneError,
    UnsupportedTableError,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa

    from penstock._connectors.lake.iceberg_table import Tables


@dataclass(frozen=True, slots=True)
class Selection:
    """What a source wants of a table.

    Args:
        columns: The columns, None for all of the snapshot.
        row_filter: Which rows, as a text or an expression of pyiceberg's; None for all.
        skip_changes: Whether snapshots that delete or overwrite rows are passed over when the table is followed.
    """

    columns: tuple[str, ...] | None = None
    row_filter: Any = None
    skip_changes: bool = False


@dataclass(frozen=True, slots=True)
class Position:
    """The last snapshot that was taken.

    Args:
        snapshot_id: Its id; None before the first.
        sequence: Its sequence number, which tells what is missing where the snapshot itself has expired; None if it is
            not known, as in tables of format 1.
    """

    snapshot_id: int | None
    sequence: int | None

    @classmethod
    def of(cls, snapshot: Any) -> Position:
        """Return the position behind a snapshot."""
        return cls(snapshot.snapshot_id, snapshot.sequence_number or None)


def reading(identifier: str) -> str:
    """Return what is done, for errors."""
    return f"Reading the Iceberg table {identifier}"


def check_same(identifier: str, table: Any, table_uuid: str) -> None:
    """Check that a table is the one that was read before.

    Raises:
        UnsupportedTableError: It was made anew.
    """
    if str(table.metadata.table_uuid) != table_uuid:
        raise UnsupportedTableError(reading(identifier), "it was dropped and made anew; start the job fresh")


def scan_of(identifier: str, table: Any, snapshot: Any, selection: Selection) -> bytes:
    """Return the pinned scan of a snapshot: the table, its schema then, columns and filter.

    Raises:
        LakeTableError: The snapshot's schema has no such column, or the filter does not fit it.
    """
    schema_id = table.metadata.current_schema_id if snapshot.schema_id is None else snapshot.schema_id
    scan = pickle.dumps((str(table.metadata.table_uuid), schema_id, selection.columns, selection.row_filter))
    _projected(identifier, table, schema_id, selection)
    return scan


def _projected(identifier: str, table: Any, schema_id: int, selection: Selection) -> tuple[Any, Any, Any]:
    """Return the metadata with a schema as the current one, the schema of the columns, and the filter."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.expressions.parser import parse
    from pyiceberg.expressions.visitors import bind

    schema = table.schemas().get(schema_id)
    if schema is None:
        raise LakeTableError(reading(identifier), f"its schema {schema_id} was removed from its metadata")
    names = [field.name for field in schema.fields]
    if missing := [name for name in selection.columns or () if name not in names]:
        reason = f"it has no column {', '.join(missing)}; its columns are {', '.join(names)}"
        raise LakeTableError(reading(identifier), reason)
    given = selection.row_filter
    try:
        row_filter = AlwaysTrue() if given is None else parse(given) if isinstance(given, str) else given
        bind(schema, row_filter, case_sensitive=True)
    except Exception as error:  # of the parser, of binding, of literals: they have no common class
        raise LakeTableError(reading(identifier), f"the filter {given} cannot be used ({error})") from error
    metadata = table.metadata.model_copy(update={"current_schema_id": schema_id})
    projected = schema if selection.columns is None else schema.select(*selection.columns)
    return metadata, projected, row_filter


def files_of(identifier: str, table: Any, snapshot: Any, selection: Selection) -> list[Piece]:
    """Return the files of a snapshot that may have wanted rows, with their delete files.

    Raises:
        UnsupportedTableError: It has equality deletes.
    """
    scan: Any = table.scan(snapshot_id=snapshot.snapshot_id)
    if selection.row_filter is not None:
        scan = scan.filter(selection.row_filter)
    try:
        tasks = list(scan.plan_files())
    except (ValueError, NotImplementedError) as error:
        reason = f"{str(error).rstrip('.')}; let its engine rewrite the data files, which applies deletes"
        raise UnsupportedTableError(reading(identifier), reason) from None
    tasks.reverse()  # the newest come first
    return [_piece(task) for task in tasks]


def _piece(task: Any) -> Piece:
    return Piece(pickle.dumps(task), 0, task.file.file_size_in_bytes)


def added_by(identifier: str, table: Any, snapshot: Any, selection: Selection) -> list[Piece] | None:
    """Return the files that a snapshot has added; None if it changes rows and is passed over.

    Raises:
        UnsupportedTableError: It deletes or overwrites rows, and is not to be passed over.
    """
    from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
    from pyiceberg.table import FileScanTask
    from pyiceberg.table.snapshots import Operation

    operation = Operation.APPEND if snapshot.summary is None else snapshot.summary.operation
    if operation == Operation.REPLACE:  # the same rows in other files
        return []
    if operation != Operation.APPEND:
        if selection.skip_changes:
            return None
        reason = (
            f"its snapshot {snapshot.snapshot_id} is of the kind {operation.value}: rows that were read before are "
            "deleted or changed, which a stream of added rows cannot show; pass such snapshots over with "
            "skip_changes=True, or read the table as a bounded source"
        )
        raise UnsupportedTableError(reading(identifier), reason)
    return [
        _piece(FileScanTask(entry.data_file))
        for manifest in snapshot.manifests(table.io)
        if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id == snapshot.snapshot_id
        for entry in manifest.fetch_manifest_entry(table.io)
        if entry.status == ManifestEntryStatus.ADDED
    ]


def snapshots_after(identifier: str, table: Any, position: Position) -> list[Any]:
    """Return the snapshots of the table's main branch behind a position, oldest first.

    Raises:
        ExpiredSnapshotError: Some of them have expired.
        UnsupportedTableError: The table was rolled back behind the position.
    """
    found: list[Any] = []
    snapshot_id = table.metadata.current_snapshot_id
    while snapshot_id is not None and snapshot_id != position.snapshot_id:
        snapshot = table.snapshot_by_id(snapshot_id)
        if snapshot is None:
            break
        found.append(snapshot)
        snapshot_id = snapshot.parent_snapshot_id
    if snapshot_id != position.snapshot_id and table.snapshot_by_id(position.snapshot_id or -1) is not None:
        reason = (
            f"its current snapshot does not descend from snapshot {position.snapshot_id}, up to which it was read: it "
            "was rolled back or replaced; start the job fresh"
        )
        raise UnsupportedTableError(reading(identifier), reason)
    if not _follows(found, snapshot_id, position):
        since = "its beginning" if position.snapshot_id is None else f"snapshot {position.snapshot_id}"
        reason = (
            f"snapshots after {since} have expired, so what they added is not known; let the table retain them for "
            "longer than the job may be down, or start the job fresh"
        )
        raise ExpiredSnapshotError(reading(identifier), reason)
    return found[::-1]


def _follows(found: list[Any], before: int | None, position: Position) -> bool:
    """Tell whether the oldest snapshot found is the one right behind a position.

    Args:
        found: The snapshots, newest first.
        before: The one before them, as its id.
        position: The position.
    """
    sequence = (found[-1].sequence_number if found else None) or None
    if position.sequence is None or sequence is None:
        return before == position.snapshot_id
    # Some engines cut the link to an expired snapshot, so that the oldest one looks like the very first.
    return sequence == position.sequence + 1 if before is None else before == position.snapshot_id


class IcebergScan(PinnedScan):
    """Reads data files with the schema of a snapshot, without their deleted rows."""

    def __init__(self, tables: Tables, scan: bytes) -> None:
        from pyiceberg.io.pyarrow import ArrowScan

        self._identifier = tables.identifier
        table = tables.load_once("Reading")
        table_uuid, schema_id, columns, row_filter = pickle.loads(scan)
        check_same(tables.identifier, table, table_uuid)
        selection = Selection(columns, row_filter)
        metadata, projected, bound = _projected(tables.identifier, table, schema_id, selection)
        self._scan: Any = ArrowScan(metadata, table.io, projected, bound)

    def read(self, piece: Piece, unit: int) -> Generator[tuple[int, pa.RecordBatch]]:
        """Read a data file."""
        import pyarrow as pa

        task = pickle.loads(piece.file)
        # A file without deletes is streamed; of others the library makes all batches before the first.
        stream = getattr(self._scan, "_record_batches_from_scan_tasks_and_deletes", None)
        try:
            if stream is None or task.delete_files:
                batches = self._scan.to_record_batches([task])
            else:
                batches = stream([task], cast("dict[str, Any]", {}))
            for batch in batches:
                yield unit, batch
        except FileNotFoundError:
            reason = (
                "it belongs to a snapshot that was read and is not any more: expired snapshots take their files with "
                "them, so let the table retain them for longer; start the job without a checkpoint to read the table "
                "as it is now"
            )
            raise SourceFileGoneError(task.file.file_path, reason) from None
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = f"it is damaged, or does not have the columns of its table ({error}); restore it from a copy"
            raise SourceFileError(task.file.file_path, reason) from error
