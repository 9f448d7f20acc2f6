"""Finds the files of a local path, in folders to which others may write at the same time.

Paths that are no readable files are skipped and reported to the caller: vanished files, broken links, links into a
folder above, pipes, sockets, devices. A folder that cannot be listed is an error, because it may have files.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import stat
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock._connectors.files.filesystem import MAGIC, FileStatus, NotAFileError, is_hidden, is_passed_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The reason to skip a file that was in the listing of its folder.
VANISHED: Final = "it vanished while its folder was listed"
_ROUND: Final = "it leads back into a folder that it is in"

#: Folders by device and inode, which identify them whatever their names are.
_Folders: TypeAlias = frozenset[tuple[int, int]]

_OTHER_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def find_files(path: str, skip: Callable[[str, str], None]) -> list[FileStatus]:
    """Return the files of a path, sorted; an existing path is no glob, whatever its name.

    Args:
        path: A file, folder or glob.
        skip: Called for each skipped path, with the reason.

    Raises:
        NotAFileError: The path itself is no file and no folder.
        FileNotFoundError: The path matches nothing.
        OSError: A folder cannot be listed.
    """
    if os.path.lexists(path):
        what = _look(path)
        if isinstance(what, str):
            raise NotAFileError(errno.ENOENT, what, path)
        return sorted(_below(path, skip, frozenset()), key=_by_path)
    found: dict[str, FileStatus] = {}
    anything = False
    for match, above in _Glob(path, skip).matches():
        anything = True
        found.update((status.path, status) for status in _below(match, skip, above))
    if not anything:
        raise FileNotFoundError(path)
    return [found[key] for key in sorted(found)]


def status_of(path: str) -> FileStatus:
    """Return how a file is now.

    Raises:
        NotAFileError: Its name belongs to something else, or to a broken link.
        FileNotFoundError: It is gone.
    """
    what = _look(path)
    if what == VANISHED:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if isinstance(what, str):
        raise NotAFileError(errno.ENOENT, what, path)
    check_kind(path, what)
    return _status(path, what)


def check_kind(path: str, status: os.stat_result) -> None:
    """Check that a path is a file.

    Raises:
        NotAFileError: It is something else.
    """
    if not stat.S_ISREG(status.st_mode):
        raise NotAFileError(errno.ENOENT, _other_kind(status), path)


class _Glob:
    """Expands a glob without following cycles of links, unlike Python's own.

    Args:
        pattern: The whole path.
        skip: Called for each skipped path.
    """

    def __init__(self, pattern: str, skip: Callable[[str, str], None]) -> None:
        self._skip = skip
        parts = pattern.split("/")
        literal = next((place for place in range(len(parts)) if _is_glob(parts[: place + 1])), len(parts))
        self._root = "/".join(parts[:literal])
        self._parts = parts[literal:]
        self._pattern = pattern

    def matches(self) -> Iterator[tuple[str, _Folders]]:
        """Yield the matching files and folders, each with the folders above it; files below a folder match, too."""
        if not self._parts or not os.path.isdir(self._root or "/"):  # noqa: PTH112
            return iter(())
        return self._expand(self._root, self._parts, frozenset())

    def _expand(self, folder: str, parts: list[str], above: _Folders) -> Iterator[tuple[str, _Folders]]:
        part, rest = parts[0], parts[1:]
        if part == "..":  # no listing has it; and after a step up, the folders that led down here are no cycle
            up, above = f"{folder}/..", frozenset[tuple[int, int]]()
            yield from self._expand(up, rest, above) if rest else [(up, above)]
            return
        inside = _enter(folder or "/", self._skip, above)
        if inside is None:
            return
        names, within = inside
        if part == "**":
            if not rest:
                yield folder, above
                return
            yield from self._expand(folder, rest, above)
            wanted = [name for name in names if os.path.isdir(f"{folder}/{name}")]  # noqa: PTH112
        else:
            wanted = [name for name in names if fnmatch.fnmatchcase(name, part)]
        for name in wanted:
            path = f"{folder}/{name}"
            if is_passed_over(path, self._pattern):
                continue
            if part == "**":
                yield from self._expand(path, parts, within)
            elif not rest:
                yield path, within
            elif os.path.isdir(path):  # noqa: PTH112
                yield from self._expand(path, rest, within)


def _is_glob(parts: list[str]) -> bool:
    """Tell whether the last part of a path is a glob; a name that exists is none, whatever characters it has."""
    return any(sign in parts[-1] for sign in MAGIC) and not os.path.lexists("/".join(parts))


def _below(path: str, skip: Callable[[str, str], None], above: _Folders) -> Iterator[FileStatus]:
    """Yield the files below a path; ``above`` are the folders that led to it."""
    what = _look(path)
    if isinstance(what, str):
        skip(path, what)
    elif stat.S_ISREG(what.st_mode):
        yield _status(path, what)
    elif (inside := _enter(path, skip, above)) is not None:
        names, within = inside
        for name in names:
            if not is_hidden(name):
                yield from _below(os.path.join(path, name), skip, within)  # noqa: PTH118


def _enter(folder: str, skip: Callable[[str, str], None], above: _Folders) -> tuple[list[str], _Folders] | None:
    """Return the names in a folder, and the folders that led to them; None if the folder is skipped."""
    try:
        status = os.stat(folder)  # noqa: PTH116
        if (identity := (status.st_dev, status.st_ino)) in above:
            skip(folder, _ROUND)
            return None
        return os.listdir(folder), above | {identity}  # noqa: PTH208 - names are all that is wanted
    except (FileNotFoundError, NotADirectoryError):
        skip(folder, VANISHED)
        return None


def _look(path: str) -> os.stat_result | str:
    """Return the status of a file or folder, or the reason why a path is skipped."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        try:
            return f"it is a link to {os.readlink(path)}, which is not there"  # noqa: PTH115
        except OSError:
            return VANISHED
    except NotADirectoryError:  # the folder that it was in has become a file
        return VANISHED
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "it is a link that leads to itself"
        raise
    return status if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) else _other_kind(status)


def _status(path: str, status: os.stat_result) -> FileStatus:
    return FileStatus(path, status.st_size, status.st_mtime_ns // 1_000_000, inode=status.st_ino)


def _other_kind(status: os.stat_result) -> str:
    return f"it is {_OTHER_KINDS.get(stat.S_IFMT(status.st_mode), 'something else')}, and no file"


def _by_path(status: FileStatus) -> str:
    return status.path
