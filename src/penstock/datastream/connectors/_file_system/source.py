"""The file source and its builder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.common.paths import absolute_path
from penstock.datastream.connectors._file_system.formats import StreamFormat
from penstock.datastream.connectors.base import Boundedness, Source

if TYPE_CHECKING:
    from penstock._connectors.files.source import (
        FileCheckpoint,
        FileEnumerator,
        FileReader,
        FileSet,
        FileSourceSplit,
    )
    from penstock.common.time import Duration
    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.connectors._file_system.formats import BulkFormat, FileFormat
    from penstock.datastream.connectors.base import SourceReaderContext, SplitEnumeratorContext


@dataclass(frozen=True, slots=True)
class FileEnumeratorProvider:
    """How the file source finds files; made by the static methods.

    Source: ``pyflink.datastream.connectors.file_system.FileEnumeratorProvider``.

    Args:
        splittable: Whether a file may be cut into parts.
    """

    splittable: bool

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Read large files in parts, where their format allows it; this is the default."""
        return FileEnumeratorProvider(splittable=True)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Read each file as a whole."""
        return FileEnumeratorProvider(splittable=False)


@dataclass(frozen=True, slots=True)
class FileSplitAssignerProvider:
    """How parts of files are given to readers; made by the static method.

    Source: ``pyflink.datastream.connectors.file_system.FileSplitAssignerProvider``.
    """

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Give parts to whoever asks; which host a file is near to plays no role here."""
        return FileSplitAssignerProvider()


class FileSource(Source[Any, "FileSourceSplit", "FileCheckpoint"]):
    """Reads files in parallel; made by its builders.

    Paths are files, folders or globs, local or in an object store. A folder stands for all files below it; names that
    begin with ``.`` or ``_`` are passed over. Large files are read in parts where their format allows it.

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
        splittable: bool,
        discovery_interval_ms: int | None,
        *,
        may_grow: bool = False,
    ) -> None:
        self._paths, self._format, self._splittable = paths, file_format, splittable
        self._discovery_interval_ms, self._may_grow = discovery_interval_ms, may_grow

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Begin a source of files that are read record by record, such as lines of text.

        Args:
            stream_format: How to read them.
            *paths: Files, folders and globs.

        Raises:
            ValueError: No path was given.
        """
        return FileSourceBuilder(paths, stream_format)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Begin a source of files that are read in batches, such as Parquet.

        Args:
            bulk_format: How to read them.
            *paths: Files, folders and globs.

        Raises:
            ValueError: No path was given.
        """
        return FileSourceBuilder(paths, bulk_format)

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED unless folders are monitored."""
        return Boundedness.BOUNDED if self._discovery_interval_ms is None else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that the format gives its records."""
        return self._format.get_produced_type()

    @property
    def holds_produced_type(self) -> bool:
        """Whether the format makes each record by its type."""
        return self._format.holds_produced_type

    def create_enumerator(self, enum_context: SplitEnumeratorContext[FileSourceSplit]) -> FileEnumerator:
        """Find the files.

        Raises:
            SourceFileError: A path stands for nothing, or a file can be seen to be corrupt.
        """
        from penstock._connectors.files.source import FileEnumerator

        return FileEnumerator(enum_context, self._files(), None, self._discovery_interval_ms)

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[FileSourceSplit], checkpoint: FileCheckpoint
    ) -> FileEnumerator:
        """Go on with the parts that no reader has."""
        from penstock._connectors.files.source import FileEnumerator

        return FileEnumerator(enum_context, self._files(), checkpoint, self._discovery_interval_ms)

    def create_reader(self, reader_context: SourceReaderContext) -> FileReader:
        """Make a reader of parts."""
        from penstock._connectors.files.source import FileReader

        return FileReader(reader_context, self._format, may_grow=self._may_grow)

    def _files(self) -> FileSet:
        from penstock._connectors.files.source import FileSet

        monitored = self._discovery_interval_ms is not None
        return FileSet(self._paths, self._format, self._splittable, monitored, self._may_grow)


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
        self._enumerator = FileEnumeratorProvider.default_splittable_file_enumerator()
        self._discovery_interval_ms: int | None = None
        self._may_grow = False

    def read_appended_files(self) -> FileSourceBuilder:
        """Read files of lines that others append to, each as far as it was there when it was found; ours.

        A line that had begun by then is read to its end; what comes behind it is never read. Without this, a file that
        has changed after it was found is an error.

        Raises:
            TypeError: The format is not read line by line.
        """
        if not isinstance(self._format, StreamFormat):
            msg = f"Only files that are read line by line can be read while they grow, not {self._format!r}."
            raise TypeError(msg)
        self._may_grow = True
        return self

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:
        """Look for new files from time to time, and never end; a file that was read once is not read again.

        A folder, prefix or glob may stand for nothing for now.

        Args:
            discovery_interval: The time between two looks.

        Raises:
            ValueError: The time is not positive.
        """
        interval_ms = discovery_interval.to_millis()
        if interval_ms <= 0:
            msg = f"discovery_interval must be at least 1 ms: {discovery_interval}."
            raise ValueError(msg)
        self._discovery_interval_ms = interval_ms
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that are there when the job starts, then end; this is the default."""
        self._discovery_interval_ms = None
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Set whether files may be read in parts."""
        self._enumerator = file_enumerator
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Set how parts are given to readers; there is one way."""
        del split_assigner
        return self

    def build(self) -> FileSource:
        """Return the source."""
        return FileSource(
            self._paths,
            self._format,
            self._enumerator.splittable,
            self._discovery_interval_ms,
            may_grow=self._may_grow,
        )
