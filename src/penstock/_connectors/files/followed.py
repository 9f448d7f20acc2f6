"""Finds the followed files in a listing, also under new names."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from penstock._connectors.files.growing import is_copy, tail_of
from penstock._connectors.files.opening import filesystem_of
from penstock.errors import SourceFileChangedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock._connectors.files.filesystem import FileStatus


class Followed(Enum):
    """The file that currently has the name of a followed file."""

    #: The file, perhaps grown or cut.
    THERE = auto()
    #: Another file.
    REPLACED = auto()
    #: It was renamed or deleted a moment ago: the next look tells.
    UNKNOWN = auto()


def take_new_names(taken: dict[str, FileStatus], files: Sequence[FileStatus]) -> set[str]:
    """Update the names of followed files; return the names to ignore.

    These are second names: links, or names of a file that was renamed while its folder was listed.

    Args:
        taken: By name: the part of each file that was read; changed in place.
        files: The files of a listing that can be followed.
    """
    known = _by_inode(taken)
    names = _one_name_each(taken, files)
    passed_over = {status.path for status in files if status.inode is not None}.difference(names)
    renamed: list[tuple[FileStatus, FileStatus]] = []
    for status in (names[path] for path in sorted(names) if not _has(taken, names[path])):
        for before in known.get(status.inode, ()):
            goes_on = _continues(status, before)
            if goes_on is None:
                passed_over.add(status.path)
            elif goes_on:
                renamed.append((before, status))
                break
    for before, _ in renamed:
        del taken[before.path]
    for before, status in renamed:
        taken[status.path] = replace(before, path=status.path)
    return passed_over


def _by_inode(taken: Mapping[str, FileStatus]) -> dict[int | None, list[FileStatus]]:
    """Return the known files by inode; of a reused inode, the newest first."""
    known: dict[int | None, list[FileStatus]] = {}
    for before in taken.values():
        if before.tail is not None:
            known.setdefault(before.inode, []).insert(0, before)
    return known


def _one_name_each(taken: Mapping[str, FileStatus], files: Sequence[FileStatus]) -> dict[str, FileStatus]:
    """Return each file under one name: its known one, or the first."""
    chosen: dict[int, FileStatus] = {}
    for status in files:
        if status.inode is not None and (status.inode not in chosen or _has(taken, status)):
            chosen[status.inode] = status
    return {status.path: status for status in chosen.values()}


def state_of(status: FileStatus, taken: FileStatus) -> Followed:
    """Return what there is under the name of a file that is followed.

    Args:
        status: The status found under its name.
        taken: The followed file, and the part of it that was read.

    Raises:
        SourceFileChangedError: It is the same file, but the part that was read has changed.
    """
    if taken.inode is None or status.inode is None:  # in a store
        return Followed.THERE
    if status.inode != taken.inode:
        copied = _is_copy(status, taken)
        return Followed.UNKNOWN if copied is None else Followed.THERE if copied else Followed.REPLACED
    if status.size < taken.size or (status.size, status.modified_ms) == (taken.size, taken.modified_ms):
        return Followed.THERE
    goes_on = taken.tail is None or _continues(status, taken)
    if goes_on is False:
        reason = (
            f"what stands before byte {taken.size} is not what was read there: it was cut and written again, and lines "
            "may have been lost in between; let logs be renamed and started fresh, not copied and cut. To continue the "
            "job, rename the file: under a new name all of it is read"
        )
        raise SourceFileChangedError(status.path, reason)
    return Followed.UNKNOWN if goes_on is None else Followed.THERE


def _has(taken: Mapping[str, FileStatus], status: FileStatus) -> bool:
    """Tell whether a file is known by its name."""
    before = taken.get(status.path)
    return before is not None and before.inode == status.inode


def _continues(status: FileStatus, before: FileStatus) -> bool | None:
    """Tell whether a file holds the part that was read of another; None if it cannot be opened any more."""
    if status.size < before.size:
        return False
    try:
        with filesystem_of(status.path).open_again(status) as stream:
            return tail_of(stream, before.size) == before.tail
    except OSError:
        return None


def _is_copy(status: FileStatus, before: FileStatus) -> bool | None:
    if status.size < before.size:
        return False
    try:
        with filesystem_of(status.path).open_again(status) as stream:
            return is_copy(stream, before)
    except OSError:
        return None
