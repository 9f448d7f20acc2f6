"""Which files a source reads, and since when.

A monitored folder is written to while it is looked at. A file is taken, that is cut into splits, when two looks have
found it the same, so that what is half written waits. What was taken stays known for good: if it is another one later,
that is an error, because what was read of it is out in the world.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock._connectors.files.filesystem import NotAFileError
from penstock._connectors.files.followed import Followed, state_of, take_new_names
from penstock._connectors.files.growing import tail_of
from penstock._connectors.files.opening import FoundFile, filesystem_of
from penstock._formats.lines import end_of_lines
from penstock._formats.parts import cut_evenly
from penstock._formats.unpacking import is_compressed
from penstock.errors import SourceFileChangedError, SourceFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._connectors.files.filesystem import FileStatus
    from penstock._connectors.files.monitoring import Monitoring
    from penstock._formats.file_format import FileFormat
    from penstock._formats.parts import FilePart


@dataclass(frozen=True, slots=True)
class Listing:
    """What one look has found; times are of the monotonic clock.

    Args:
        files: The files, each once.
        skipped: What is no file, and why, by path.
        begun_ms: When it began.
        ended_ms: When it ended.
    """

    files: list[FileStatus]
    skipped: Mapping[str, str]
    begun_ms: int
    ended_ms: int


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that is to be read, all of it or what was appended behind a byte."""

    status: FileStatus
    start: int = 0
    #: The file that was followed under this name before, where that is nowhere any more.
    in_place_of: FileStatus | None = None


@dataclass(frozen=True, slots=True)
class WaitingFile:
    """A file that may still be written, and how long it has been seen like this."""

    status: FileStatus
    unchanged_ms: int = 0


@dataclass(frozen=True, slots=True)
class FileSet:
    """Which files a source reads and how they are cut.

    Args:
        paths: Files, folders and globs.
        file_format: Cuts and reads them.
        splittable: Whether a file may be cut at all.
        monitoring: How to look for new ones, None for a source that ends. What is monitored may stand for nothing yet.
        may_grow: Whether files may have grown since they were found.
        clock: The time in seconds, on the monotonic clock.
    """

    paths: tuple[str, ...]
    file_format: FileFormat
    splittable: bool
    monitoring: Monitoring | None = None
    may_grow: bool = False
    clock: Callable[[], float] = time.monotonic

    def find(self) -> Listing:
        """Return the files, each once, in the order of the paths and then by name.

        Raises:
            SourceFileError: A path stands for nothing, and is not monitored.
        """
        begun_ms = int(self.clock() * 1000)
        found: dict[str, FileStatus] = {}
        skipped: dict[str, str] = {}
        for path in self.paths:
            try:
                for status in filesystem_of(path).find(path, skipped.__setitem__):
                    found.setdefault(status.path, status)
            except NotAFileError as error:
                if self.monitoring is None:
                    raise SourceFileError(path, str(error.strerror)) from None
                skipped[path] = str(error.strerror)
            except FileNotFoundError:
                if self.monitoring is None:
                    reason = "there is no such file or folder, and as a glob it matches none"
                    raise SourceFileError(path, reason) from None
            except OSError as error:
                reason = f"{error.strerror or error}; check the path and its permissions"
                raise SourceFileError(str(error.filename or path), reason) from error
        return Listing(list(found.values()), skipped, begun_ms, int(self.clock() * 1000))

    def cut(self, new: NewFile, part_size: int) -> tuple[FileStatus, list[FilePart]]:
        """Return a file as far as it is read now, and the parts of that.

        Raises:
            SourceFileGoneError: It is gone.
            SourceFileChangedError: It has changed since it was found.
            SourceFileError: It can be seen to be corrupt.
        """
        status, start = new.status, new.start
        found = FoundFile.of(status, may_grow=self.may_grow)
        wanted = part_size if self.splittable else max(status.size, 1)
        if not self.grows(status):
            return status, self.file_format.cut(found, wanted)
        follows = self.follows(status)
        end = end_of_lines(found, start) if follows else status.size
        if status.inode is not None:
            with found.open() as stream:
                status = replace(status, tail=tail_of(stream, end))
        if follows:
            return replace(status, size=end), cut_evenly(start, end, wanted)
        return status, self.file_format.cut(replace(found, status=status), wanted)

    def grows(self, status: FileStatus) -> bool:
        """Tell whether a file may be longer than it was."""
        return self.may_grow and not is_compressed(status.path)

    def follows(self, status: FileStatus) -> bool:
        """Tell whether what is appended to a file is read, too."""
        return self.monitoring is not None and self.grows(status)


class KnownFiles:
    """What a source knows of files, from one look to the next.

    Args:
        files: Which files it reads.
        taken: Those that it has taken, as they were then; None where an older checkpoint did not say how.
        waiting: Those that are not taken yet.
    """

    def __init__(
        self, files: FileSet, taken: Mapping[str, FileStatus | None], waiting: Mapping[str, WaitingFile]
    ) -> None:
        self._files = files
        self.taken = dict(taken)
        self.waiting = dict(waiting)
        self._looked_ms: int | None = None

    def new_in(self, listing: Listing) -> list[NewFile]:
        """Return what is to be read now; what may still be written waits for the next look.

        Raises:
            SourceFileChangedError: A file that was taken is another one now.
        """
        passed_ms = 0 if self._looked_ms is None else max(0, listing.begun_ms - self._looked_ms)
        self._looked_ms = listing.ended_ms
        followed = [status for status in listing.files if self._files.follows(status)]
        passed_over = take_new_names(self.taken, followed)
        new: list[NewFile] = []
        before = self.waiting.copy()
        self.waiting.clear()
        for status in listing.files:
            if status.path in passed_over:
                continue
            if status.path in self.taken:
                new += self._appended(status)
            elif (waits := self._waits(status, before.get(status.path), passed_ms)) is not None:
                self.waiting[status.path] = waits
            else:
                new.append(NewFile(status))
        return new

    def _appended(self, status: FileStatus) -> list[NewFile]:
        """Return what is to be read of a file that was taken before: nothing, or what was appended."""
        taken = self.taken[status.path]
        if taken is None or (taken.inode is None and taken == replace(status, inode=None)):
            self.taken[status.path] = status
        elif self._files.follows(status) and (found := state_of(status, taken)) is not Followed.THERE:
            return [NewFile(status, in_place_of=taken)] if found is Followed.REPLACED else []
        elif self._files.grows(status) and status.size >= taken.size:
            if self._files.follows(status) and status.size > taken.size:
                return [NewFile(status, taken.size)]
        elif (change := status.differs_from(taken)) is not None:
            reason = (
                f"{change}: it has changed since the job took it, and is not read twice; write files under another "
                "name and rename them when they are complete, give monitor_continuously() a stable_for that is longer "
                "than their writer ever pauses, or, where lines are appended, read_appended_files(). To go on with the "
                "job, move the file away, or rename it: under a new name all of it is read"
            )
            raise SourceFileChangedError(status.path, reason)
        return []

    def _waits(self, status: FileStatus, before: WaitingFile | None, passed_ms: int) -> WaitingFile | None:
        """Return how a file goes on waiting, None for one that is to be taken."""
        monitoring = self._files.monitoring
        if monitoring is None or self._files.follows(status):
            return None
        if before is None or status.differs_from(before.status) is not None:
            at_once = monitoring.by_rename and status.size > 0
            return None if at_once else WaitingFile(status)
        unchanged_ms = before.unchanged_ms + passed_ms
        # An empty file has nothing to read; what comes into it later would be a change.
        settled = status.size > 0 and unchanged_ms >= monitoring.stable_for_ms
        return None if settled else WaitingFile(status, unchanged_ms)

    def take(self, status: FileStatus) -> None:
        """Keep in mind what is read of a file."""
        self.taken[status.path] = status

    def wait(self, status: FileStatus) -> None:
        """Look at a file again."""
        self.waiting[status.path] = WaitingFile(status)
