"""Spark DataFrames as streams, and streams as Spark DataFrames."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from penstock._api.connectors.source import Boundedness, Source
from penstock._connectors.files.discovery import FileSet
from penstock._connectors.files.source import FileEnumerator, FileReader
from penstock._connectors.files.source_state import FileCheckpoint, FileSourceSplit
from penstock._engine.caches.files import take_noted
from penstock._engine.caches.place import cache_directory
from penstock._engine.graph.stream_graph import with_ancestors
from penstock._engine.operators.factories.sources_and_sinks import SinkWriterFactory
from penstock._engine.operators.operator_factory import OperatorRole
from penstock._engine.storage.opening import storage_options
from penstock._formats.parquet import ParquetColumnarRowInputFormat
from penstock.common import option_table
from penstock.errors import SourceFileError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from penstock._api.connectors.reader import SourceReaderContext
    from penstock._api.connectors.source import SplitEnumeratorContext
    from penstock._builders.pipeline import Pipeline
    from penstock._engine.driver.epochs.enumerators import EnumeratorContext
    from penstock._engine.graph.stream_graph import StreamEdge, StreamNode
    from penstock._engine.storage.run_files import RunFiles
    from penstock.common.configuration import Configuration
    from penstock.common.typeinfo import RowTypeInfo, TypeInformation


class Writing(Protocol):
    """Writes a DataFrame once."""

    def run(self) -> Sequence[str]:
        """Write it, and return the full paths of the files; after an error or `cancel` no task writes any more."""
        ...

    def cancel(self) -> None:
        """Stop the writing, from another thread; one that has not begun does not begin."""
        ...


#: What begins to write the DataFrames of this process where a run may write, by the token of their source.
_frames: dict[str, Callable[[RunFiles], Writing]] = {}


@dataclass(frozen=True, slots=True)
class FrameCheckpoint:
    """The checkpoint of the enumerator: whether the files are written, and what of them is not assigned."""

    written: bool
    files: FileCheckpoint


class FrameSource(Source[Any, FileSourceSplit, Any]):
    """The rows of a DataFrame. Its files are written by the first run that starts without a checkpoint of them.

    Where they are is in checkpoints alone, so a run that continues reads the same files, and never writes others.

    Args:
        row_type: The type of the rows.
        begin: Begins to write the files; it stays in this process.
    """

    def __init__(self, row_type: RowTypeInfo, begin: Callable[[RunFiles], Writing]) -> None:
        self._row_type = row_type
        self._token = secrets.token_hex(8)
        _frames[self._token] = begin

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def get_produced_type(self) -> RowTypeInfo:
        """Return the type of the rows."""
        return self._row_type

    @property
    def holds_produced_type(self) -> bool:
        """True: it is the type of the columns."""
        return True

    def create_enumerator(self, enum_context: SplitEnumeratorContext[FileSourceSplit]) -> FrameEnumerator:
        """Write the files, and assign them."""
        return FrameEnumerator(enum_context, self._format(), self._token, FrameCheckpoint(False, FileCheckpoint()))

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[FileSourceSplit], checkpoint: FrameCheckpoint
    ) -> FrameEnumerator:
        """Continue with the files of the checkpoint."""
        return FrameEnumerator(enum_context, self._format(), self._token, checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> FileReader:
        """Make a reader."""
        return FileReader(reader_context, self._format())

    def _format(self) -> ParquetColumnarRowInputFormat:
        return ParquetColumnarRowInputFormat(self._row_type)


class FrameEnumerator(FileEnumerator):
    """Has the DataFrame written, unless a checkpoint knows its files, and assigns the files.

    Args:
        context: The enumerator's context.
        file_format: Reads the files.
        token: Of the source.
        checkpoint: Where it begins.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[FileSourceSplit],
        file_format: ParquetColumnarRowInputFormat,
        token: str,
        checkpoint: FrameCheckpoint,
    ) -> None:
        self._format = file_format
        self._token = token
        self._writing: Writing | None = None
        super().__init__(context, self._files_at(()), checkpoint.files)
        self._complete = checkpoint.written

    def start(self) -> None:
        """Write the DataFrame beside the main loop, unless an earlier start within this run has done so."""
        if not self._complete:
            files = cast("EnumeratorContext", self._context).run_files()
            self._writing = _frames[self._token](files)
            self._context.call_async(partial(_write_once, self._token, files, self._writing), self._written)

    def close(self) -> None:
        """Stop the writing that is under way."""
        if self._writing is not None and not self._complete:
            self._writing.cancel()

    def find_new_splits(self) -> None:
        """Do nothing: a DataFrame has no rows that come later."""

    def snapshot_state(self, checkpoint_id: int) -> FrameCheckpoint:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the unassigned parts of the files."""
        return FrameCheckpoint(self._complete, super().snapshot_state(checkpoint_id))

    def _written(self, paths: Sequence[str] | None, error: Exception | None) -> None:
        if paths is None:
            raise error or AssertionError("neither files nor an error")
        if paths:
            self._files = self._files_at(tuple(paths))
            super().find_new_splits()
        self._complete = True
        self._end_if_done()

    def _skip(self, path: str, reason: str) -> None:
        """Fail: each file has rows of the DataFrame."""
        raise SourceFileError(path, f"it has rows of a DataFrame, and is no file to read any more: {reason}")

    def _files_at(self, paths: tuple[str, ...]) -> FileSet:
        return FileSet(paths, self._format, splittable=True, monitoring=None, may_grow=False)


def _write_once(token: str, files: RunFiles, writing: Writing) -> Sequence[str]:
    if token not in files.frames:
        files.frames[token] = tuple(writing.run())
    return files.frames[token]


def frame_source(frame: DataFrame) -> FrameSource:
    """Return the source of a DataFrame.

    Raises:
        TypeError: It is none.
        UnsupportedOperationError: It is of Spark Connect or a streaming one, or has columns that no stream can have.
    """
    from penstock._engine.spark.frames import FrameWriting, columns_of
    from penstock._formats.frame_types import declared_rows

    columns = columns_of(frame)
    return FrameSource(declared_rows(columns), partial(FrameWriting, frame))


def frame_of_stream(
    pipeline: Pipeline,
    edges: tuple[StreamEdge, ...],
    declared: TypeInformation | None,
    configuration: Configuration,
    run: Callable[[StreamNode], None],
) -> DataFrame:
    """Run what a stream needs, and return its records as a DataFrame.

    Args:
        pipeline: The operators of its environment.
        edges: The stream.
        declared: The declared type of its records.
        configuration: Says where the files are kept.
        run: Runs a job of one node and what it reads from, to its end.

    Raises:
        UnsupportedOperationError: A source of the stream is unbounded, or Spark has no such columns.
        BatchColumnsError: A column has values of several types.
    """
    from penstock._engine.caches.frames import FrameSink, schema_of
    from penstock._engine.spark.frames import frame_of_files

    sources = with_ancestors([edge.source for edge in edges])
    endless = next((node for node in sources if node.factory.role is OperatorRole.SOURCE and not node.bounded), None)
    if endless is not None:
        reason = f"{endless} never comes to an end; write the stream by a sink, and query what it has written"
        raise UnsupportedOperationError("to_dataframe() of an unbounded stream", reason)
    options = storage_options(configuration)
    place = cache_directory(configuration.get(option_table.CHECKPOINT_DIRECTORY), options)
    writing = secrets.token_hex(8)
    sink = FrameSink(place.storage.url, writing, declared)
    node = pipeline.add_for_own_job(SinkWriterFactory(sink), "DataFrame", edges)
    try:
        run(node)
        files = take_noted(writing)
        assert files is not None, "each writer notes its files, and the job started fresh"
        schema = schema_of([file.schema for file in files], declared)
        return frame_of_files(place.storage, options, files, schema)
    except BaseException:
        take_noted(writing)
        place.delete(writing)
        raise
