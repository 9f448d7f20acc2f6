"""Decides which files a source reads, and when it takes them.

Others write to a monitored folder while it is listed. A file is taken, which means cut into splits, when two looks have
found it the same, so half-written files wait. A taken file stays known for good: if it changes later, that is an error,
because its records are published already.
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
    """The result of one look; times are of the monotonic clock.

    Args:
        files: The files, each once.
        skipped: By path: the reason why it is no file.
        begun_ms: When it began.
        ended_ms: When it ended.
    """

    files: list[FileStatus]
    skipped: Mapping[str, str]
    begun_ms: int
    ended_ms: int


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to read: all of it, or the part that was appended after a byte."""

    status: FileStatus
    start: int = 0
    #: The file that was followed under this name before and that no longer exists.
    in_place_of: FileStatus | None = None


@dataclass(frozen=True, slots=True)
class WaitingFile:
    """A file that may still be written, and the time since which it has not changed."""

    status: FileStatus
    unchanged_ms: int = 0


@dataclass(frozen=True, slots=True)
class FileSet:
    """Which files a source reads and how they are cut.

    Args:
        paths: Files, folders and globs.
        file_format: Cuts and reads them.
        splittable: Whether a file may be cut at all.
        monitoring: How to look for new files; None for a bounded source. Monitored paths need not exist yet.
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
            SourceFileError: A path matches nothing, and is not monitored.
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
        """Return a file up to the end that is read now, and its parts.

        Raises:
            SourceFileGoneError: The file no longer exists.
            SourceFileChangedError: It has changed since it was found.
            SourceFileError: It is corrupt.
        """
        status, start = new.status, new.start
        found = FoundFile.of(status, may_grow=self.may_grow)
        wanted = part_size if self.splittable else max(status.size, 1)
        if status.size == 0 and status.etag is not None and filesystem_of(status.path).size_of(status.path) is None:
            return status, []  # a folder that somebody has made in a store: it is listed, and there is no such object
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
        """Tell whether appended bytes of a file are read as well."""
        return self.monitoring is not None and self.grows(status)


class KnownFiles:
    """The files that a source knows, from one look to the next.

    Args:
        files: The source's files.
        taken: The taken files with their status.
        waiting: The files that are not taken yet.
    """

    def __init__(self, files: FileSet, taken: Mapping[str, FileStatus], waiting: Mapping[str, WaitingFile]) -> None:
        self._files = files
        self.taken = dict(taken)
        self.waiting = dict(waiting)
        self._looked_ms: int | None = None

    def new_in(self, listing: Listing) -> list[NewFile]:
        """Return the files to read now; files that may still be written wait for the next look.

        Raises:
            SourceFileChangedError: A taken file has changed.
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
        """Return the appended part of a taken file, if there is one."""
        taken = self.taken[status.path]
        if self._files.follows(status) and (found := state_of(status, taken)) is not Followed.THERE:
            return [NewFile(status, in_place_of=taken)] if found is Followed.REPLACED else []
        if self._files.grows(status) and status.size >= taken.size:
            if self._files.follows(status) and status.size > taken.size:
                return [NewFile(status, taken.size)]
        elif (change := status.differs_from(taken)) is not None:
            reason = (
                f"{change}: it has changed since the job took it, and is not read twice; write files under another "
                "name and rename them when they are complete, give monitor_continuously() a stable_for that is longer "
                "than their writer ever pauses, or, where lines are appended, read_appended_files(). To continue the "
                "job, move the file away, or rename it: under a new name all of it is read"
            )
            raise SourceFileChangedError(status.path, reason)
        return []

    def _waits(self, status: FileStatus, before: WaitingFile | None, passed_ms: int) -> WaitingFile | None:
        """Return the waiting file; None if it is to be taken now."""
        monitoring = self._files.monitoring
        if monitoring is None or self._files.follows(status):
            return None
        if before is None or status.differs_from(before.status) is not None:
            at_once = monitoring.by_rename and status.size > 0
            return None if at_once else WaitingFile(status)
        unchanged_ms = before.unchanged_ms + passed_ms
        # An empty file has nothing to read, and its first bytes would be a change.
        settled = status.size > 0 and unchanged_ms >= monitoring.stable_for_ms
        return None if settled else WaitingFile(status, unchanged_ms)

    def take(self, status: FileStatus) -> None:
        """Remember the part of a file that is read."""
        self.taken[status.path] = status

    def wait(self, status: FileStatus) -> None:
        """Let a file wait for the next look."""
        self.waiting[status.path] = WaitingFile(status)
