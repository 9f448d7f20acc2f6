"""The file source's split, enumerator and reader."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._connectors.files.opening import FoundFile, filesystem_of
from penstock.common.paths import plain_path, scheme_of
from penstock.datastream.connectors.base import InputStatus, SourceSplit
from penstock.datastream.connectors.enumerator_base import SplitQueueEnumerator
from penstock.datastream.connectors.reader_base import SequentialSourceReader, SplitCursor
from penstock.errors import SourceFileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock._connectors.files.filesystem import FileStatus
    from penstock.datastream.connectors._file_system.formats import FileFormat
    from penstock.datastream.connectors._file_system.parts import FilePart
    from penstock.datastream.connectors.base import SourceOutput, SourceReaderContext, SplitEnumeratorContext

_PART_BYTES = 32 * 1024 * 1024
_LEAST_PART_BYTES = 1024 * 1024
_PARTS_PER_READER = 4


@dataclass(frozen=True, slots=True)
class FileSourceSplit(SourceSplit):
    """A part of a file, and how far it was read.

    Source: org.apache.flink.connector.file.src.FileSourceSplit with its CheckpointedPosition.
    """

    file: FileStatus
    part: FilePart
    #: Records after the part's position that were emitted, too: formats know positions only between blocks.
    skip: int = 0

    def split_id(self) -> str:
        """Return path and start of the part."""
        return f"{self.file.path}@{self.part.start}"


@dataclass(frozen=True, slots=True)
class FileCheckpoint:
    """What an enumerator of files resumes from: parts that no reader has, and every file that it ever found."""

    splits: tuple[FileSourceSplit, ...]
    found: frozenset[str]


@dataclass(frozen=True, slots=True)
class FileSet:
    """Which files a source reads and how they are cut.

    Args:
        paths: Files, folders and globs.
        file_format: Cuts and reads them.
        splittable: Whether a file may be cut at all.
        monitored: Whether a path may stand for nothing yet.
        may_grow: Whether files may have grown since they were found.
    """

    paths: tuple[str, ...]
    file_format: FileFormat
    splittable: bool
    monitored: bool = False
    may_grow: bool = False

    def find(self) -> list[FileStatus]:
        """Return the files, each once, in the order of the paths and then by name.

        Raises:
            SourceFileError: A path stands for nothing, and is not monitored.
        """
        found: dict[str, FileStatus] = {}
        for path in self.paths:
            try:
                for status in filesystem_of(path).find(path):
                    found.setdefault(status.path, status)
            except FileNotFoundError:
                if self.monitored:
                    continue
                raise SourceFileError(path, "there is no such file or folder, and as a glob it matches none") from None
            except OSError as error:
                raise SourceFileError(path, f"{error.strerror or error}; check the path and its permissions") from error
        return list(found.values())

    def cut(self, files: Sequence[FileStatus], readers: int) -> list[FileSourceSplit]:
        """Return the parts of files: small enough that each reader gets several, where there is enough to read."""
        total = sum(status.size for status in files)
        part_size = min(_PART_BYTES, max(_LEAST_PART_BYTES, total // (readers * _PARTS_PER_READER)))
        return [FileSourceSplit(status, part) for status in files for part in self._parts(status, part_size)]

    def _parts(self, status: FileStatus, part_size: int) -> list[FilePart]:
        found = FoundFile.of(status, may_grow=self.may_grow)
        return self.file_format.cut(found, part_size if self.splittable else max(status.size, 1))


class FileEnumerator(SplitQueueEnumerator[FileSourceSplit, FileCheckpoint]):
    """Hands out parts of files in their order, and looks for new files if told so.

    Args:
        context: The enumerator's surroundings.
        files: Which files to read.
        checkpoint: What to go on from; None looks for the files now.
        discovery_interval_ms: How often to look for new files; None never does.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[FileSourceSplit],
        files: FileSet,
        checkpoint: FileCheckpoint | None,
        discovery_interval_ms: int | None,
    ) -> None:
        self._files, self._discovery_interval_ms = files, discovery_interval_ms
        self._readers = context.current_parallelism
        if checkpoint is None:
            statuses = files.find()
            splits = files.cut(statuses, self._readers)
            checkpoint = FileCheckpoint(tuple(splits), frozenset(status.path for status in statuses))
        self._found = set(map(_settled, checkpoint.found))
        super().__init__(context, checkpoint.splits, complete=discovery_interval_ms is None)

    def start(self) -> None:
        """Look for new files from time to time, if told so."""
        interval = self._discovery_interval_ms
        if interval is not None:
            self._context.call_async(self._files.find, self._add_new_files, interval, interval)

    def find_new_splits(self) -> None:
        """Add the files that were not found before."""
        self._add_new_files(self._files.find(), None)

    def _add_new_files(self, statuses: list[FileStatus] | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        new = [status for status in statuses or () if status.path not in self._found]
        self._found.update(status.path for status in new)
        self.add_splits(self._files.cut(new, self._readers))

    def snapshot_state(self, checkpoint_id: int) -> FileCheckpoint:
        """Return the parts that no reader has, and the files found so far."""
        del checkpoint_id
        return FileCheckpoint(tuple(self.waiting_splits), frozenset(self._found))


def _settled(path: str) -> str:
    """Return the name of a file as a listing has it; checkpoints of earlier versions have names as they were given."""
    return plain_path(path) if scheme_of(path) else str(Path(path).absolute())


class FileReader(SequentialSourceReader[Any, FileSourceSplit]):
    """Reads parts of files with a format.

    Args:
        context: The reader's surroundings.
        file_format: Reads the parts.
        may_grow: Whether files may have grown since they were found.
    """

    def __init__(self, context: SourceReaderContext, file_format: FileFormat, *, may_grow: bool = False) -> None:
        super().__init__(context)
        self._format, self._may_grow = file_format, may_grow
        self.emits_new_records = file_format.emits_new_records

    def open_split(self, split: FileSourceSplit) -> SplitCursor[Any, FileSourceSplit]:
        """Go on with a part."""
        file = FoundFile.of(split.file, may_grow=self._may_grow)
        return _PartCursor(self._format.read(file, split.part), split, file)


class _PartCursor(SplitCursor[Any, FileSourceSplit]):
    def __init__(self, blocks: Iterator[tuple[list[Any], int]], split: FileSourceSplit, file: FoundFile) -> None:
        self._blocks, self._split, self._file = blocks, split, file
        #: Records still to be skipped after a restore, the block at hand, and the position after it.
        self._skip = split.skip
        self._block: list[Any] = []
        self._behind = 0
        self._at = 0

    def poll_next(self, output: SourceOutput[Any]) -> InputStatus:
        if self._at == len(self._block) and not self._next_block():
            return InputStatus.END_OF_INPUT
        records = self._block[self._at : self._at + output.wanted]
        self._at += len(records)
        output.collect_all(records)
        if self._at == len(self._block):
            self._split = replace(self._split, part=replace(self._split.part, position=self._behind), skip=0)
        else:
            self._split = replace(self._split, skip=self._at)
        return InputStatus.MORE_AVAILABLE

    def _next_block(self) -> bool:
        """Read a block, past what a restore skips; tell whether there was one."""
        while True:
            try:
                block = next(self._blocks, None)
                # It may have changed under the open stream, and what was read is then of another one.
                self._file.check(while_reading=block is not None)
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
        return self._split

    def close(self) -> None:
        close = getattr(self._blocks, "close", None)
        if close is not None:
            close()
