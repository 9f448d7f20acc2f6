"""A source that reads one version of a Delta table, as columns."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from penstock._api.connectors.source import Boundedness, Source
from penstock._connectors.lake.delta_table import delta_options, deltalake, folder_of, open_version
from penstock._connectors.lake.scans import (
    BATCH_ROWS,
    Piece,
    PinnedScan,
    ScanEnumerator,
    ScanReader,
    ScanSplit,
    ScanSplitSerializer,
    ScanSplitsSerializer,
    pack,
)
from penstock._shelf import show
from penstock.common.paths import absolute_path, scheme_of
from penstock.errors import LakeTableError, SourceFileError, SourceFileGoneError, UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    import pyarrow as pa

    from penstock._api.connectors.reader import SourceReaderContext
    from penstock._api.connectors.source import SplitEnumeratorContext


class DeltaSource(Source[Any, ScanSplit, tuple[ScanSplit, ...]]):
    """Reads one version of a Delta table in parallel, each row as a dict, in batches of columns.

    The version is pinned when the job begins, with its schema: older files that lack a column have nulls in it. Needs
    ``penstock[delta]``.

    Args:
        table_uri: The table's folder, local or in an object store.
        version: The version to read; by default the newest when the job begins.
        columns: The columns to read; all by default.
        predicate: Which rows to read, as an expression of Arrow's. Files whose partition values or statistics exclude
            it are not opened.
        storage_options: Those of deltalake, for object stores; by default the job's ``s3.…`` keys.

    Raises:
        MissingExtraError: deltalake is not installed.

    Example:
        >>> import pyarrow.compute as pc
        >>> source = DeltaSource("/data/items", columns=["id", "price"], predicate=pc.field("price") > 10)
    """

    def __init__(
        self,
        table_uri: str,
        *,
        version: int | None = None,
        columns: Sequence[str] | None = None,
        predicate: Any = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        deltalake()
        self._uri, self._version = absolute_path(table_uri), version
        self._columns = None if columns is None else list(columns)
        self._predicate, self._options = predicate, dict(storage_options or {})

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def storage_paths(self) -> tuple[str, ...]:
        """Return the table's folder on a disk; one in an object store is accessed with separate options."""
        return () if scheme_of(self._uri) else (self._uri,)

    def create_enumerator(self, enum_context: SplitEnumeratorContext[ScanSplit]) -> ScanEnumerator:
        """Pin the version and list its files.

        Raises:
            LakeTableError: There is no such table or version, or it has no such column.
            UnsupportedTableError: Reading it needs a feature that is not supported here, such as deletion vectors.
        """
        table = open_version(self._uri, self._version, delta_options(self._uri, self._options))
        schema = _schema_of(table)
        columns = schema.names if self._columns is None else self._columns
        self._check(schema, columns)
        scan = pickle.dumps((table.version(), schema.serialize().to_pybytes(), columns, self._predicate))
        pieces = _pieces(self._uri, table, schema, self._predicate)
        splits = pack(f"v{table.version()}", scan, pieces, enum_context.current_parallelism, divisible=True)
        return ScanEnumerator(enum_context, splits)

    def _check(self, schema: Any, columns: list[str]) -> None:
        import pyarrow as pa

        what = f"Reading the Delta table {self._uri}"
        if missing := [name for name in columns if name not in schema.names]:
            reason = f"it has no column {', '.join(missing)}; its columns are {', '.join(schema.names)}"
            raise LakeTableError(what, reason)
        if self._predicate is not None:
            try:
                _dataset([], schema).scanner(filter=self._predicate)
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise LakeTableError(what, f"the predicate {self._predicate} cannot be used ({error})") from None

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[ScanSplit], checkpoint: tuple[ScanSplit, ...]
    ) -> ScanEnumerator:
        """Continue with the unassigned splits; the table's log is not read again."""
        return ScanEnumerator(enum_context, checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> _DeltaReader:
        """Make a reader of files."""
        return _DeltaReader(reader_context, self._uri, delta_options(self._uri, self._options))

    def get_split_serializer(self) -> ScanSplitSerializer:
        """Return the serializer of splits."""
        return ScanSplitSerializer()

    def get_enumerator_checkpoint_serializer(self) -> ScanSplitsSerializer:
        """Return the serializer of the enumerator's snapshots."""
        return ScanSplitsSerializer()


def _schema_of(table: Any) -> Any:
    import pyarrow as pa

    return pa.schema(table.schema().to_arrow())


def _dataset(fragments: list[Any], schema: Any) -> Any:
    import pyarrow.dataset as ds

    return cast("Any", ds.FileSystemDataset)(fragments, schema, ds.ParquetFileFormat())


def _pieces(uri: str, table: Any, schema: Any, predicate: Any) -> list[Piece]:
    """Return the files of a table that may have rows for a predicate, the oldest first.

    Raises:
        UnsupportedTableError: A file is outside of the table's folder, or partitions are of bytes.
    """
    import pyarrow as pa

    what = f"Reading the Delta table {uri}"

    rows: list[dict[str, Any]] = cast("Any", pa.table)(table.get_add_actions(flatten=True)).to_pylist()
    rows.sort(key=lambda row: (row["modification_time"], row["path"]))
    partitioned: list[str] = table.metadata().partition_columns
    kinds: Any = pa.types
    if of_bytes := [name for name in partitioned if kinds.is_binary(schema.field(name).type)]:
        reason = f"it is partitioned by {', '.join(of_bytes)}, and the library gives bytes there that were not written"
        raise UnsupportedTableError(what, f"{reason}; read the table with Spark, as a DataFrame")
    if predicate is not None:
        rows = _possible(rows, partitioned, schema, predicate)
    pieces: list[Piece] = []
    for row in rows:
        path = unquote(row["path"])
        if "://" in path or path.startswith("/"):
            reason = f"its file {path} is outside of its folder, as in a shallow clone; read the table that it is of"
            raise UnsupportedTableError(what, reason)
        values = tuple((name, row[f"partition.{name}"]) for name in partitioned)
        pieces.append(Piece((path, values), 0, row["size_bytes"]))
    return pieces


def _possible(rows: list[dict[str, Any]], partitioned: list[str], schema: Any, predicate: Any) -> list[dict[str, Any]]:
    """Return the files whose partition values and statistics do not exclude a predicate.

    Statistics count for integers and dates alone: those of other types may be rounded, or leave values out.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.fs as arrow_fs

    kinds: Any = pa.types
    exact = [field for field in schema if kinds.is_integer(field.type) or kinds.is_date(field.type)]
    file_format: Any = ds.ParquetFileFormat()
    local = arrow_fs.LocalFileSystem()
    fragments: list[Any] = []
    for number, row in enumerate(rows):
        known = _partition([(name, row[f"partition.{name}"]) for name in partitioned], schema)
        for field in exact:
            for sign, is_least in (("min", True), ("max", False)):
                bound = row.get(f"{sign}.{field.name}")
                if bound is not None and row.get(f"null_count.{field.name}") == 0:
                    column, value = ds.field(field.name), cast("Any", pa.scalar)(bound, field.type)
                    known = known & (column >= value if is_least else column <= value)
        fragments.append(file_format.make_fragment(str(number), local, known))
    return [rows[int(one.path)] for one in _dataset(fragments, schema).get_fragments(filter=predicate)]


def _partition(values: Sequence[tuple[str, Any]], schema: Any) -> Any:
    """Return what partition values say about all rows of a file."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    known: Any = cast("Any", ds.scalar)(True)
    for name, value in values:
        column: Any = ds.field(name)
        is_value = (
            column.is_null() if value is None else column == cast("Any", pa.scalar)(value, schema.field(name).type)
        )
        known = known & is_value
    return known


class _DeltaReader(ScanReader):
    def __init__(self, context: SourceReaderContext, uri: str, options: Mapping[str, str]) -> None:
        super().__init__(context)
        self._uri, self._options = uri, options

    def open_scan(self, scan: bytes) -> PinnedScan:
        return _DeltaScan(self._uri, folder_of(self._uri, self._options), pickle.loads(scan))


class _DeltaScan(PinnedScan):
    """Reads row groups of Parquet files, with the columns of the pinned version."""

    def __init__(self, uri: str, files: Any, pinned: tuple[int, bytes, list[str], Any]) -> None:
        import pyarrow as pa
        import pyarrow.dataset as ds

        self._uri, self._files = uri, files
        self._format: Any = ds.ParquetFileFormat()
        self._version, schema, self._columns, self._predicate = pinned
        self._schema: Any = pa.ipc.read_schema(pa.py_buffer(schema))

    def read(self, piece: Piece, unit: int) -> Generator[tuple[int, pa.RecordBatch]]:
        """Read the row groups that begin in the piece."""
        import pyarrow as pa

        path, values = piece.file
        try:
            fragment = self._format.make_fragment(path, self._files, _partition(values, self._schema))
            groups = [
                number for number, start in enumerate(_starts(fragment.metadata)) if piece.start <= start < piece.end
            ]
            for place, number in enumerate(groups[unit:], unit):
                scanner = fragment.subset(row_group_ids=[number]).scanner(
                    schema=self._schema,
                    columns=self._columns,
                    filter=self._predicate,
                    batch_size=BATCH_ROWS,
                    use_threads=False,
                )
                for batch in scanner.to_batches():
                    yield place, batch
        except FileNotFoundError:
            reason = (
                f"it belongs to version {self._version} of the table and is not any more: VACUUM removes files that no "
                "new version has, so let it retain them for longer than such a job takes; start the job without a "
                "checkpoint to read the table as it is now"
            )
            raise SourceFileGoneError(f"{self._uri}/{path}", reason) from None
        except (pa.ArrowException, OSError) as error:
            reason = f"it is damaged, or does not have the columns of its table ({error}); restore it from a copy"
            raise SourceFileError(f"{self._uri}/{path}", reason) from error


def _starts(metadata: Any) -> Iterator[int]:
    """Return the byte at which each row group begins."""
    for number in range(metadata.num_row_groups):
        column = metadata.row_group(number).column(0)
        yield column.dictionary_page_offset or column.data_page_offset


show("penstock.datastream.connectors.delta", DeltaSource)
