"""A source that reads a snapshot of an Iceberg table, and may go on with those that follow, as columns."""

from __future__ import annotations

import logging
import pickle
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from penstock._api.connectors.enumerator_base import SplitQueueEnumerator
from penstock._api.connectors.serializer import SimpleVersionedSerializer
from penstock._api.connectors.source import Boundedness, Source
from penstock._connectors.lake.iceberg_scan import (
    IcebergScan,
    Position,
    Selection,
    added_by,
    check_same,
    files_of,
    reading,
    scan_of,
    snapshots_after,
)
from penstock._connectors.lake.iceberg_table import (
    Tables,
    catalog_options,
    given_options,
    local_warehouse,
)
from penstock._connectors.lake.scans import (
    Piece,
    PinnedScan,
    ScanReader,
    ScanSplit,
    ScanSplitSerializer,
    ScanSplitsSerializer,
    pack,
)
from penstock._shelf import show
from penstock.common.libraries import library_of
from penstock.errors import ExpiredSnapshotError, LakeTableError, UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock._api.connectors.reader import SourceReaderContext
    from penstock._api.connectors.source import SplitEnumeratorContext
    from penstock.common.time import Duration

_LOG = logging.getLogger(__name__)

#: Snapshots that one look plans.
_SNAPSHOTS_AT_ONCE = 20
#: Splits that wait at most before a look: each is in every checkpoint.
_MOST_WAITING = 1000
#: Failed looks in a row after which the job fails.
_FAILED_LOOKS = 5

Start = Literal["table", "latest", "earliest"] | int
_STARTS = ("table", "latest", "earliest")


@dataclass(frozen=True, slots=True)
class IcebergCheckpoint:
    """The checkpoint of an Iceberg source's enumerator.

    Args:
        position: Behind the last snapshot whose files are splits.
        splits: The unassigned splits.
        table_uuid: The table.
    """

    position: Position
    splits: tuple[ScanSplit, ...]
    table_uuid: str


class IcebergCheckpointSerializer(SimpleVersionedSerializer[IcebergCheckpoint]):
    """Writes plain data, so that classes may move."""

    def get_version(self) -> int:
        """Return 1, the only version."""
        return 1

    def serialize(self, obj: IcebergCheckpoint) -> bytes:
        """Return the bytes of a checkpoint."""
        position = obj.position.snapshot_id, obj.position.sequence
        return pickle.dumps((position, ScanSplitsSerializer().serialize(obj.splits), obj.table_uuid))

    def deserialize(self, version: int, serialized: bytes) -> IcebergCheckpoint:
        """Return the checkpoint from its bytes."""
        position, splits, table_uuid = pickle.loads(serialized)
        return IcebergCheckpoint(Position(*position), ScanSplitsSerializer().deserialize(version, splits), table_uuid)


class IcebergSource(Source[Any, ScanSplit, IcebergCheckpoint]):
    """Reads an Iceberg table in parallel, each row as a dict, in batches of columns.

    Without ``follow`` it is bounded: it reads the snapshot that is current when the job begins, or another one. With
    it, the source never ends: it reads what each new snapshot adds, snapshot by snapshot. Needs ``penstock[iceberg]``.

    Args:
        identifier: The table's name in the catalog, such as ``shop.orders``.
        catalog: The catalog's options, those of pyiceberg; the job's ``s3.…`` keys are added.
        snapshot_id: The snapshot that a bounded source reads.
        columns: The columns to read; all by default.
        row_filter: Which rows to read, as an expression of pyiceberg's or its text. Files that it excludes are not
            opened.
        follow: The time between two looks for new snapshots.
        start: Where a following source begins: with the whole ``"table"``, with what is added after the ``"latest"``
            snapshot, with what the ``"earliest"`` retained snapshot and all later ones have added, or behind the
            snapshot of an id.
        skip_changes: Pass over snapshots that delete or overwrite rows, which are an error by default.

    Raises:
        MissingExtraError: pyiceberg is not installed.
        ValueError: Options contradict each other.

    Example:
        >>> from penstock.common.time import Duration
        >>> catalog = {"type": "sql", "uri": "sqlite:////data/catalog.db", "warehouse": "file:///data/tables"}
        >>> source = IcebergSource("shop.orders", catalog, row_filter="price > 10", follow=Duration.of_seconds(10))
        >>> source.get_boundedness()
        <Boundedness.CONTINUOUS_UNBOUNDED: 'continuous_unbounded'>
    """

    def __init__(
        self,
        identifier: str,
        catalog: Mapping[str, str],
        *,
        snapshot_id: int | None = None,
        columns: Sequence[str] | None = None,
        row_filter: Any = None,
        follow: Duration | None = None,
        start: Start = "table",
        skip_changes: bool = False,
    ) -> None:
        library_of("iceberg")
        if follow is not None and snapshot_id is not None:
            msg = "snapshot_id is for a bounded source; a source that follows takes start=snapshot_id."
            raise ValueError(msg)
        if follow is None and (start != "table" or skip_changes):
            msg = "start and skip_changes are for a source that follows the table; give it follow=Duration…"
            raise ValueError(msg)
        if not isinstance(start, int) and start not in _STARTS:
            msg = f"start is one of {', '.join(_STARTS)}, or a snapshot's id, not {start!r}."
            raise ValueError(msg)
        self._identifier, self._catalog, self._snapshot_id = identifier, given_options(catalog), snapshot_id
        self._start: Start = start
        self._selection = Selection(None if columns is None else tuple(columns), row_filter, skip_changes)
        self._interval_ms = None if follow is None else follow.to_millis()

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED unless the table is followed."""
        return Boundedness.BOUNDED if self._interval_ms is None else Boundedness.CONTINUOUS_UNBOUNDED

    def storage_paths(self) -> tuple[str, ...]:
        """Return the catalog's warehouse, if it is a local folder and the catalog names it."""
        return local_warehouse(self._catalog)

    def create_enumerator(self, enum_context: SplitEnumeratorContext[ScanSplit]) -> IcebergEnumerator:
        """Pin the snapshot and list its files.

        Raises:
            LakeTableError: There is no such table, snapshot or column, or the filter does not fit.
            UnsupportedTableError: The table has equality deletes.
        """
        tables = self._tables()
        table = tables.load_once("Reading")
        position, snapshot = _beginning(self._identifier, table, self._snapshot_id, self._start)
        splits: list[ScanSplit] = []
        if snapshot is not None:
            scan = scan_of(self._identifier, table, snapshot, self._selection)
            pieces = files_of(self._identifier, table, snapshot, self._selection)
            splits = _splits(position, scan, pieces, enum_context.current_parallelism)
        checkpoint = IcebergCheckpoint(position, tuple(splits), str(table.metadata.table_uuid))
        return IcebergEnumerator(enum_context, tables, self._selection, self._interval_ms, checkpoint)

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[ScanSplit], checkpoint: IcebergCheckpoint
    ) -> IcebergEnumerator:
        """Continue with the unassigned splits, and behind the position."""
        return IcebergEnumerator(enum_context, self._tables(), self._selection, self._interval_ms, checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> _IcebergReader:
        """Make a reader of data files."""
        return _IcebergReader(reader_context, self._tables())

    def get_split_serializer(self) -> ScanSplitSerializer:
        """Return the serializer of splits."""
        return ScanSplitSerializer()

    def get_enumerator_checkpoint_serializer(self) -> IcebergCheckpointSerializer:
        """Return the serializer of the enumerator's snapshots."""
        return IcebergCheckpointSerializer()

    def _tables(self) -> Tables:
        return Tables(self._identifier, catalog_options(self._catalog))


def _beginning(identifier: str, table: Any, snapshot_id: int | None, start: Start) -> tuple[Position, Any]:
    """Return the position to begin behind, and the snapshot to read as a whole, if any.

    Raises:
        LakeTableError: There is no such snapshot.
    """
    wanted = start if isinstance(start, int) else snapshot_id
    if wanted is not None and table.snapshot_by_id(wanted) is None:
        known = ", ".join(str(one.snapshot_id) for one in table.snapshots()[-5:]) or "none"
        reason = f"it has no snapshot {wanted}, or it has expired; its newest are {known}"
        raise LakeTableError(reading(identifier), reason)
    if isinstance(start, int):
        return Position.of(table.snapshot_by_id(start)), None
    current = table.current_snapshot() if snapshot_id is None else table.snapshot_by_id(snapshot_id)
    if current is None:  # an empty table
        return Position(None, table.metadata.last_sequence_number), None
    if start == "earliest":
        return Position(_oldest(table, current).parent_snapshot_id, None), None
    return Position.of(current), current if start == "table" else None


def _oldest(table: Any, snapshot: Any) -> Any:
    """Return the oldest retained ancestor of a snapshot."""
    while (parent := table.snapshot_by_id(snapshot.parent_snapshot_id or -1)) is not None:
        snapshot = parent
    return snapshot


def _splits(position: Position, scan: bytes, pieces: list[Piece], readers: int) -> list[ScanSplit]:
    return pack(f"snapshot-{position.snapshot_id}", scan, pieces, readers, divisible=False)


@dataclass(frozen=True, slots=True)
class _AddedFiles:
    """What one snapshot has added; no files for one that was passed over."""

    position: Position
    scan: bytes
    pieces: list[Piece] | None


class IcebergEnumerator(SplitQueueEnumerator[ScanSplit, IcebergCheckpoint]):
    """Assigns the splits of a snapshot, and those of later snapshots if the table is followed.

    Args:
        context: The enumerator's context.
        tables: The table.
        selection: What is wanted of it.
        interval_ms: The time between two looks; None for a bounded source.
        checkpoint: Where to begin.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[ScanSplit],
        tables: Tables,
        selection: Selection,
        interval_ms: int | None,
        checkpoint: IcebergCheckpoint,
    ) -> None:
        self._tables, self._selection, self._interval_ms = tables, selection, interval_ms
        self._position, self._table_uuid = checkpoint.position, checkpoint.table_uuid
        self._failed = 0
        self._skipped = context.metric_group.counter("skippedSnapshots")
        super().__init__(context, checkpoint.splits, complete=interval_ms is None)

    def start(self) -> None:
        """Look for new snapshots, if the table is followed."""
        self._look_later()

    def _look_later(self) -> None:
        if self._interval_ms is not None:
            look = partial(_look, self._tables, self._selection, self._position, self._table_uuid)
            self._context.call_async(look, self._looked, self._interval_ms)

    def _looked(self, added: list[_AddedFiles] | None, error: Exception | None) -> None:
        if added is None:
            self._note_failure(error or AssertionError("neither snapshots nor an error"))
        elif len(self.waiting_splits) < _MOST_WAITING:  # else they are looked for again
            self._failed = 0
            self._take(added)
        self._look_later()

    def _note_failure(self, error: Exception) -> None:
        """Raise an error that another look does not mend, or that too many looks have met in a row."""
        self._failed += 1
        if isinstance(error, (UnsupportedTableError, ExpiredSnapshotError)) or self._failed >= _FAILED_LOOKS:
            raise error
        _LOG.warning("A look for new snapshots of %s failed and is repeated: %s", self._tables.identifier, error)

    def _take(self, added: list[_AddedFiles]) -> None:
        for one in added:
            self._position = one.position
            if one.pieces is None:
                self._skipped.inc()
                _LOG.warning(
                    "Snapshot %d of %s deletes or overwrites rows, and is passed over",
                    *(one.position.snapshot_id, self._tables.identifier),
                )
                continue
            self.add_splits(_splits(one.position, one.scan, one.pieces, self._context.current_parallelism))

    def snapshot_state(self, checkpoint_id: int) -> IcebergCheckpoint:
        """Return the position and the unassigned splits."""
        del checkpoint_id
        return IcebergCheckpoint(self._position, tuple(self.waiting_splits), self._table_uuid)


def _look(tables: Tables, selection: Selection, position: Position, table_uuid: str) -> list[_AddedFiles]:
    """Return what the snapshots behind a position have added, the oldest first.

    Raises:
        UnsupportedTableError: The table was made anew.
    """
    table = tables.load_once("Reading")
    check_same(tables.identifier, table, table_uuid)
    added: list[_AddedFiles] = []
    for snapshot in snapshots_after(tables.identifier, table, position)[:_SNAPSHOTS_AT_ONCE]:
        pieces = added_by(tables.identifier, table, snapshot, selection)
        scan = scan_of(tables.identifier, table, snapshot, selection) if pieces else b""
        added.append(_AddedFiles(Position.of(snapshot), scan, pieces))
    return added


class _IcebergReader(ScanReader):
    def __init__(self, context: SourceReaderContext, tables: Tables) -> None:
        super().__init__(context)
        self._tables = tables

    def open_scan(self, scan: bytes) -> PinnedScan:
        return IcebergScan(self._tables, scan)


show("penstock.datastream.connectors.iceberg", IcebergSource)
