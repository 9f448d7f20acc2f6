"""Local disks."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import shutil
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from penstock._connectors.files.filesystem import FileStatus, NotAFileError, bytes_of, lines_in, pass_over
from penstock._connectors.files.growing import is_copy
from penstock._connectors.files.walking import check_kind, find_files, status_of
from penstock._files.disk import alone_in, link, make_directories, sync_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_BUFFER_BYTES = 1024 * 1024


class LocalFileSystem:
    """The local file system."""

    status_is_cheap = True

    def find(self, path: str, skip: Callable[[str, str], None] = pass_over) -> list[FileStatus]:
        """Return the files of a path; an existing path is no glob, whatever its name."""
        return find_files(str(_local(path)), skip)

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading."""
        local = str(_local(path))
        try:  # opening a pipe would wait for its other end
            descriptor = os.open(local, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except OSError:
            status_of(local)  # knows more about links and sockets
            raise
        try:
            check_kind(path, os.fstat(descriptor))
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise

    def open_again(self, found: FileStatus) -> BinaryIO:
        """Open a growing file by its inode, under its current name in the folder."""
        asked = _local(found.path)
        try:
            stream = self.open(str(asked))
        except FileNotFoundError:
            if found.inode is None:
                raise
        else:
            if found.inode in {None, os.fstat(stream.fileno()).st_ino} or is_copy(stream, found):
                return stream
            stream.close()
        for name in _names_of(asked.parent, found.inode):
            with contextlib.suppress(OSError):  # it is renamed or deleted while we look
                stream = self.open(name)
                if os.fstat(stream.fileno()).st_ino == found.inode:
                    return stream
                stream.close()
        raise NotAFileError(errno.ENOENT, "no file of its folder is the one that it was", found.path)

    def create(self, path: str) -> BinaryIO:
        """Open a new file for writing."""
        local = _local(path)
        _make_folder(local)
        return local.open("xb", buffering=_BUFFER_BYTES)

    def finish(self, path: str, stream: BinaryIO) -> None:
        """Close a file, and make its bytes and its name durable."""
        with stream:
            stream.flush()
            os.fsync(stream.fileno())
        sync_directory(_local(path).parent)

    def park(self, stream: BinaryIO) -> int:
        """Close the file; the kernel has its bytes."""
        stream.close()
        return 0

    def unpark(self, path: str, stream: BinaryIO, size: int) -> BinaryIO:
        """Open the file again."""
        del stream
        again = _local(path).open("r+b", buffering=_BUFFER_BYTES)
        if again.seek(0, os.SEEK_END) != size:
            again.close()
            raise OSError(
                errno.EIO, f"something else has changed it: it does not have the {size} bytes that were written"
            )
        return again

    def case_collision(self, folder: str) -> str | None:
        """Look for a folder whose name differs in case, on a file system that ignores case."""
        asked = _local(folder)
        if not asked.exists():
            return None
        other = asked.with_name(asked.name.swapcase())
        if other.name == asked.name or not other.exists() or not other.samefile(asked):
            return None
        names = _names_in(asked.parent)
        if asked.name in names:
            return None
        return next((str(asked.with_name(name)) for name in names if name.casefold() == asked.name.casefold()), None)

    def publish(self, staged: Sequence[str], target: str) -> bool:
        """Link a single file, or concatenate several; the target's name appears last and atomically."""
        final = _local(target)
        sources = [_local(path) for path in staged]
        published: bool | None = False
        joins = len(sources) > 1
        if not final.exists():
            try:
                published = None if joins else link(sources[0], final)
                if published is None:
                    joins, published = True, _name_once(_concatenate(sources, final), final)
            except FileNotFoundError:
                # Another committer was faster: it deletes the staged files once the target stands.
                published = False
        # Also after an earlier try named it, which may not have synced it; the staged files are deleted next.
        if final.exists():
            sync_directory(final.parent)
        if joins:
            for left_over in final.parent.glob(f"{glob.escape(_joined_prefix(final))}*"):
                left_over.unlink(missing_ok=True)
        return bool(published)

    def duplicate(self, path: str, target: str) -> bool:
        """Give a file a second name, because staged files are never changed."""
        final = _local(target)
        _make_folder(final)
        if link(_local(path), final) is None:
            return False
        sync_directory(final.parent)
        return True

    def status(self, path: str) -> FileStatus:
        """Return how a file is now."""
        return replace(status_of(str(_local(path))), path=path)

    def size_of(self, path: str) -> int | None:
        """Return the length of a file in bytes, None when it is not there."""
        try:
            return _local(path).stat().st_size
        except FileNotFoundError:
            return None

    def delete(self, path: str) -> None:
        """Delete a file, if it is there; where its folder is another file now, it is not."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            _local(path).unlink()

    def add_line(self, path: str, line: str) -> None:
        """Append the line."""
        local = _local(path)
        with alone_in(local.parent):
            is_new = not local.exists()
            with local.open("ab") as stream:
                stream.write(f"\n{line}\n".encode())  # whatever a crash has left there does not touch it
        if is_new:
            sync_directory(local.parent)

    def change_lines(self, path: str, change: Callable[[list[str]], list[str]]) -> None:
        """Write another file, and rename it."""
        local = _local(path)
        new = local.with_name(f"{local.stem}.new{local.suffix}")
        with alone_in(local.parent):
            lines = change(lines_in(local.read_bytes()) if local.exists() else [])
            with new.open("wb") as stream:
                stream.write(bytes_of(lines))
                stream.flush()
                os.fsync(stream.fileno())
            new.replace(local)
        sync_directory(local.parent)

    def lines_of(self, path: str) -> list[str]:
        """Read the file."""
        try:
            return lines_in(_local(path).read_bytes())
        except OSError:
            return []

    def folders_above(self, folder: str) -> list[str]:
        """Return the folder and its parents."""
        asked = _local(folder)
        return [*map(str, (asked, *asked.parents))]

    def notes(self, folder: str, ending: str) -> dict[str, list[str]]:
        """Read the files."""
        found = sorted(_local(folder).glob(f".*{glob.escape(ending)}"))
        return {path.name: self.lines_of(str(path)) for path in found}

    def hidden_files(self, folder: str) -> Iterator[FileStatus]:
        """List the files below a folder whose names begin with a dot."""
        for path in sorted(_local(folder).rglob(".*")):
            try:
                stat = path.stat()
            except FileNotFoundError:  # deleted while we look
                continue
            if path.is_file():
                yield FileStatus(str(path), stat.st_size, stat.st_mtime_ns // 1_000_000)


def _names_of(folder: Path, inode: int | None) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.inode() == inode]
    except OSError:
        return []


def _names_in(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


def _joined_prefix(final: Path) -> str:
    return f".{final.name}.joined-"


def _concatenate(sources: list[Path], final: Path) -> Path:
    # The random part distinguishes two drivers that commit the same part at the same time.
    joined = final.with_name(f"{_joined_prefix(final)}{uuid.uuid4().hex}")
    try:
        with joined.open("xb") as out:
            for source in sources:
                with source.open("rb") as part:
                    shutil.copyfileobj(part, out, 1024 * 1024)
            out.flush()
            os.fsync(out.fileno())
    except OSError:  # on a full disk it would block the next try
        joined.unlink(missing_ok=True)
        raise
    return joined


def _name_once(joined: Path, target: Path) -> bool:
    """Give a joined file its final name unless it is taken."""
    linked = link(joined, target)
    if linked is not None:
        return linked
    # Final names are unique, so only another try at this file can interfere.
    if target.exists():
        return False
    joined.rename(target)
    return True


def _make_folder(file: Path) -> None:
    if not file.parent.is_dir():
        make_directories(file.parent)


def _local(path: str) -> Path:
    return Path(path)
