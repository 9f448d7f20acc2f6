"""The file source and its builder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock._api.connectors.source import Boundedness, Source
from penstock._connectors.files.monitoring import Monitoring
from penstock._formats.file_format import BulkFormat, FileFormat, StreamFormat
from penstock._shelf import show
from penstock.common.arguments import instance
from penstock.common.paths import above_glob, absolute_path

if TYPE_CHECKING:
    from penstock._api.connectors.reader import SourceReaderContext
    from penstock._api.connectors.source import SplitEnumeratorContext
    from penstock._connectors.files.discovery import FileSet
    from penstock._connectors.files.source import FileEnumerator, FileReader
    from penstock._connectors.files.source_state import FileCheckpoint, FileCheckpointSerializer, FileSourceSplit
    from penstock.common.time import Duration
    from penstock.common.typeinfo import TypeInformation


@dataclass(frozen=True, slots=True)
class FileEnumeratorProvider:
    """How the file source finds files; use the static methods to create one.

    Source: ``pyflink.datastream.connectors.file_system.FileEnumeratorProvider``.

    Args:
        splittable: Whether a file may be cut into parts.
    """

    splittable: bool

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Read large files in parts, where their format allows it: the default for bulk formats, and in batch mode."""
        return FileEnumeratorProvider(splittable=True)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Read each file as a whole, in its order: the default of stream formats in streaming mode."""
        return FileEnumeratorProvider(splittable=False)


@dataclass(frozen=True, slots=True)
class FileSplitAssignerProvider:
    """How parts of files are assigned to readers; use the static method to create one.

    Source: ``pyflink.datastream.connectors.file_system.FileSplitAssignerProvider``.
    """

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Assign parts to the readers that request them; the hosts of files play no role here."""
        return FileSplitAssignerProvider()


class FileSource(Source[Any, "FileSourceSplit", "FileCheckpoint"]):
    """Reads files in parallel; use a builder to create one.

    Paths are files, folders or globs, local or in an object store. A folder means all files below it, except names that
    begin with ``.`` or ``_``. In streaming mode one reader reads a file of records, such as lines, from its beginning
    to its end, as in Flink. Large files of bulk formats, and in batch mode all, are read in parts if the format allows.

    Source: org.apache.flink.connector.file.src.FileSource.

    Example:
        >>> from penstock.datastream.connectors.file_system import FileSource, StreamFormat
        >>> source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/in").build()
        >>> source.get_boundedness()
        <Boundedness.BOUNDED: 'bounded'>
    """

    def __init__(
        self,
        paths: tuple[str, ...],
        file_format: FileFormat,
        splittable: bool | None,
        monitoring: Monitoring | None,
        *,
        may_grow: bool = False,
    ) -> None:
        self._paths, self._format, self._splittable = paths, file_format, splittable
        self._monitoring, self._may_grow = monitoring, may_grow

    @staticmethod
    def for_record_stream_format(stream_format: FileFormat, *paths: str) -> FileSourceBuilder:
        """Begin a source of files that are read record by record, such as lines of text.

        Args:
            stream_format: How to read them; one that reads in batches does so here, too, such as that of
                ``AvroParquetReaders``, which is a StreamFormat in Flink.
            *paths: Files, folders and globs.

        Raises:
            TypeError: The format is none.
            ValueError: No path was given.
        """
        return FileSourceBuilder(paths, instance("stream_format", stream_format, FileFormat))

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Begin a source of files that are read in batches, such as Parquet.

        Args:
            bulk_format: How to read them.
            *paths: Files, folders and globs.

        Raises:
            TypeError: The format is no BulkFormat.
            ValueError: No path was given.
        """
        otherwise = "for_record_stream_format() takes formats that are read record by record"
        return FileSourceBuilder(paths, instance("bulk_format", bulk_format, BulkFormat, otherwise))

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED unless folders are monitored."""
        return Boundedness.BOUNDED if self._monitoring is None else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the format's records."""
        return self._format.get_produced_type()

    @property
    def holds_produced_type(self) -> bool:
        """Whether the format makes each record by its type."""
        return self._format.holds_produced_type

    def storage_paths(self) -> tuple[str, ...]:
        """Return the files and folders, and the folders in which globs begin."""
        return tuple(dict.fromkeys(map(above_glob, self._paths)))

    def create_enumerator(self, enum_context: SplitEnumeratorContext[FileSourceSplit]) -> FileEnumerator:
        """Find the files.

        Raises:
            SourceFileError: A path matches nothing, or a file is corrupt.
        """
        from penstock._connectors.files.source import FileEnumerator

        return FileEnumerator(enum_context, self._files(enum_context.is_batch), None)

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[FileSourceSplit], checkpoint: FileCheckpoint
    ) -> FileEnumerator:
        """Continue with the unassigned parts."""
        from penstock._connectors.files.source import FileEnumerator

        return FileEnumerator(enum_context, self._files(enum_context.is_batch), checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> FileReader:
        """Make a reader of parts."""
        from penstock._connectors.files.source import FileReader

        return FileReader(reader_context, self._format, may_grow=self._may_grow)

    def get_enumerator_checkpoint_serializer(self) -> FileCheckpointSerializer:
        """Return the serializer of the enumerator's snapshots."""
        from penstock._connectors.files.source_state import FileCheckpointSerializer

        return FileCheckpointSerializer()

    def _files(self, is_batch: bool) -> FileSet:
        from penstock._connectors.files.discovery import FileSet

        # Flink's SimpleStreamFormat is not splittable: parts of a file would mix its times. Batch mode sorts by key and
        # time anyway.
        splittable = self._splittable
        if splittable is None:
            splittable = is_batch or not isinstance(self._format, StreamFormat)
        return FileSet(self._paths, self._format, splittable, self._monitoring, self._may_grow)


class FileSourceBuilder:
    """Builds a file source; ``for_record_stream_format`` and ``for_bulk_file_format`` make it.

    Source: ``pyflink.datastream.connectors.file_system.FileSourceBuilder``.
    """

    def __init__(self, paths: tuple[str, ...], file_format: FileFormat) -> None:
        if not paths:
            msg = "A file source needs at least one path."
            raise ValueError(msg)
        self._paths = tuple(map(absolute_path, paths))
        self._format = file_format
        self._enumerator: FileEnumeratorProvider | None = None
        self._monitoring: Monitoring | None = None
        self._may_grow = False

    def read_appended_files(self) -> FileSourceBuilder:
        """Read files of lines to which others append; not in Flink.

        A bounded source reads each file up to the length at which it was found. A line that had begun by then is read
        to its end; later lines are never read. A monitoring source continues with appended lines once their ends are
        written; compressed files are not followed. Without this setting, a file that has changed after it was found is
        an error.

        Raises:
            TypeError: The format is not read line by line.
        """
        if not isinstance(self._format, StreamFormat):
            msg = f"Only files that are read line by line can be read while they grow, not {self._format!r}."
            raise TypeError(msg)
        self._may_grow = True
        return self

    def monitor_continuously(
        self, discovery_interval: Duration, *, stable_for: Duration | None = None, by_rename: bool = False
    ) -> FileSourceBuilder:
        """Look for new files periodically, and never end; each file is read once.

        A folder, prefix or glob may match nothing at first. A file is read when two looks have found it the same (size
        and time, ETag in object stores) and not empty; a later change ends the job with an error. A renamed file is a
        new file, and a deleted file stays known. ``stable_for`` and ``by_rename`` are not in Flink.

        Args:
            discovery_interval: The time between two looks.
            stable_for: How long a file must not change; choose more than the longest pause of its writer. By default,
                from one look to the next.
            by_rename: Whether files are written elsewhere, or under a hidden name, and renamed: then each is read at
                once.

        Raises:
            TypeError: A time is no Duration.
            ValueError: A time is not positive, or both ``stable_for`` and ``by_rename`` are given.
        """
        self._monitoring = Monitoring.of(discovery_interval, stable_for, by_rename)
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that exist at the start of the job, then end; this is the default."""
        self._monitoring = None
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Set whether files may be read in parts, within each of which alone records are in the order of the file."""
        self._enumerator = file_enumerator
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Set how parts are assigned to readers; there is only one way."""
        del split_assigner
        return self

    def build(self) -> FileSource:
        """Return the source.

        Raises:
            TypeError: Growing files are to be followed in which a line is not always a record.
        """
        follows = self._monitoring is not None and self._may_grow
        if follows and isinstance(self._format, StreamFormat) and not self._format.lines_are_records:
            msg = (
                f"Files can be followed while they grow only where each line is a record, not with {self._format!r}: "
                "in a charset such as UTF-8, and for CSV with set_multiline_values(False) or disable_quote_char()."
            )
            raise TypeError(msg)
        return FileSource(
            self._paths,
            self._format,
            None if self._enumerator is None else self._enumerator.splittable,
            self._monitoring,
            may_grow=self._may_grow,
        )


show(
    "penstock.datastream.connectors.file_system",
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
)
