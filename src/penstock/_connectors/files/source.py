"""The file source's enumerator and reader."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock._api.connectors.enumerator_base import SplitQueueEnumerator
from penstock._api.connectors.reader import InputStatus
from penstock._api.connectors.reader_base.sequential import SequentialSourceReader, SplitCursor
from penstock._connectors.files.discovery import KnownFiles
from penstock._connectors.files.opening import FoundFile
from penstock._connectors.files.source_state import FileCheckpoint, FileSourceSplit
from penstock._connectors.files.walking import VANISHED
from penstock.errors import SourceFileChangedError, SourceFileError, SourceFileGoneError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock._api.connectors.reader import SourceOutput, SourceReaderContext
    from penstock._api.connectors.source import SplitEnumeratorContext
    from penstock._connectors.files.discovery import FileSet, Listing, NewFile
    from penstock._formats.file_format import FileFormat

_LOG = logging.getLogger(__name__)

_PART_BYTES = 32 * 1024 * 1024
_LEAST_PART_BYTES = 1024 * 1024
_PARTS_PER_READER = 4


class FileEnumerator(SplitQueueEnumerator[FileSourceSplit, FileCheckpoint]):
    """Assigns parts of files in order, and looks for new files if the source monitors.

    Args:
        context: The enumerator's context.
        files: Which files to read.
        checkpoint: The checkpoint to continue from; None looks for the files now.
    """

    def __init__(
        self, context: SplitEnumeratorContext[FileSourceSplit], files: FileSet, checkpoint: FileCheckpoint | None
    ) -> None:
        self._files = files
        state = checkpoint or FileCheckpoint()
        self._known = KnownFiles(files, state.taken, state.waiting)
        #: The skipped paths of the last look, because each is logged once.
        self._skipped: Mapping[str, str] = {}
        self._skipped_files = context.metric_group.counter("skippedFiles")
        self._replaced_files = context.metric_group.counter("replacedFiles")
        context.metric_group.gauge("waitingFiles", lambda: len(self._known.waiting))
        super().__init__(context, state.splits, complete=files.monitoring is None)
        if checkpoint is None:
            self.find_new_splits()

    def start(self) -> None:
        """Look for new files periodically, if the source monitors."""
        if self._files.monitoring is not None:
            interval_ms = self._files.monitoring.interval_ms
            self._context.call_async(self._files.find, self._listed, interval_ms, interval_ms)

    def find_new_splits(self) -> None:
        """Add new files."""
        self._listed(self._files.find(), None)

    def _listed(self, listing: Listing | None, error: Exception | None) -> None:
        if listing is None:
            raise error or AssertionError("neither files nor an error")
        for path, reason in listing.skipped.items():
            if self._skipped.get(path) != reason:
                self._skip(path, reason)
        self._skipped = listing.skipped
        new = self._known.new_in(listing)
        part_size = self._part_size(sum(one.status.size - one.start for one in new))
        self.add_splits([split for one in new for split in self._take(one, part_size)])

    def _take(self, new: NewFile, part_size: int) -> list[FileSourceSplit]:
        """Cut a file, unless it has been deleted or changed since the listing."""
        path = new.status.path
        try:
            status, parts = self._files.cut(new, part_size)
        except SourceFileGoneError as error:
            self._skip(path, error.reason)
            return []
        except SourceFileChangedError:
            if self._files.monitoring is None or path in self._known.taken:
                raise
            self._known.wait(new.status)
            return []
        self._known.take(status)
        if new.in_place_of is not None:
            self._replaced_files.inc()
            _LOG.warning(
                "%s is another file now, and is read from its beginning. The one that was followed is nowhere among "
                "the source's paths: what was appended to it behind byte %d is not read",
                *(path, new.in_place_of.size),
            )
        return [FileSourceSplit(status, part) for part in parts]

    def _part_size(self, total: int) -> int:
        """Return the size of parts at which each reader gets several, if there is enough to read."""
        wanted = total // (self._context.current_parallelism * _PARTS_PER_READER)
        return min(_PART_BYTES, max(_LEAST_PART_BYTES, wanted))

    def _skip(self, path: str, reason: str) -> None:
        """Count and log a path that is no file."""
        self._skipped_files.inc()
        _LOG.log(logging.INFO if reason == VANISHED else logging.WARNING, "%s is skipped: %s", path, reason)

    def snapshot_state(self, checkpoint_id: int) -> FileCheckpoint:
        """Return the unassigned parts, and the known files."""
        del checkpoint_id
        return FileCheckpoint(tuple(self.waiting_splits), dict(self._known.taken), dict(self._known.waiting))


class FileReader(SequentialSourceReader[Any, FileSourceSplit]):
    """Reads parts of files with a format.

    Args:
        context: The reader's context.
        file_format: Reads the parts.
        may_grow: Whether files may have grown since they were found.
    """

    def __init__(self, context: SourceReaderContext, file_format: FileFormat, *, may_grow: bool = False) -> None:
        super().__init__(context)
        if file_format.leaves_out:
            file_format = file_format.counting(context.metric_group.counter("skippedLines").inc)
        self._format, self._may_grow = file_format, may_grow
        self.emits_new_records: bool = file_format.emits_new_records

    def open_split(self, split: FileSourceSplit) -> SplitCursor[Any, FileSourceSplit]:
        """Open a part at its position."""
        file = FoundFile.of(split.file, may_grow=self._may_grow)
        return _PartCursor(self._format, split, file)


class _PartCursor(SplitCursor[Any, FileSourceSplit]):
    def __init__(self, file_format: FileFormat, split: FileSourceSplit, file: FoundFile) -> None:
        self._format, self._split, self._file = file_format, split, file
        #: Blocks of records, or batches of columns, each with the position behind it.
        self._blocks: Iterator[tuple[Any, int]] | None = None
        self._is_columns = False
        #: The number of records to skip after a restore; below the current block and the position after it.
        self._skip = split.skip
        self._block: Any = ()
        self._behind = 0
        self._at = 0
        #: Whether bytes were read since it was known that they are those of the file that was found.
        self._is_unsure = False

    def poll_next(self, output: SourceOutput[Any]) -> InputStatus:
        if self._blocks is None:
            self._is_columns = self._format.gives_batches and output.takes_batches
            read = self._format.read_batches if self._is_columns else self._format.read
            self._blocks = iter(read(self._file, self._split.part))
        if self._at == len(self._block) and not self._next_block(self._blocks):
            return InputStatus.END_OF_INPUT
        records = self._block[self._at : self._at + output.wanted]
        self._at += len(records)
        collect = output.collect_batch if self._is_columns else output.collect_all
        collect(records)
        if self._at == len(self._block):
            self._split = replace(self._split, part=replace(self._split.part, position=self._behind), skip=0)
        else:
            self._split = replace(self._split, skip=self._at)
        return InputStatus.MORE_AVAILABLE

    def _next_block(self, blocks: Iterator[tuple[Any, int]]) -> bool:
        """Read the next block, without the skipped records; tell whether there was one."""
        while True:
            try:
                block = next(blocks, None)
                # The file may have changed under the open stream, so the bytes would be of another file.
                self._is_unsure = block is not None
                self._file.check(while_reading=self._is_unsure)
            except OSError as error:
                reason = f"{error.strerror or error}; check the disk or the network that it is on"
                raise SourceFileError(self._split.file.path, reason) from error
            if block is None:
                return False
            self._block, self._behind = block
            self._at, self._skip = min(self._skip, len(self._block)), max(0, self._skip - len(self._block))
            if self._at < len(self._block):
                return True
            self._split = replace(self._split, part=replace(self._split.part, position=self._behind), skip=self._skip)

    def snapshot(self) -> FileSourceSplit:
        """Return the position, unless the records since the last one may be of another file."""
        if self._is_unsure:
            self._file.check()
            self._is_unsure = False
        return self._split

    def close(self) -> None:
        close = getattr(self._blocks, "close", None)
        if close is not None:
            close()
