"""Makes a class data archive after a run that listed its classes.

A program of its own, started by ``class_data`` with the standard library alone: it outlives its driver, takes what
processor time others leave, and prints nothing. It must import nothing of Penstock.

Usage: archive_maker.py DIRECTORY JAVA CLASS_LIST, with the class path as its input.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ARCHIVE, CLASS_PATH, STAMP = "classes.jsa", "class-path", "stamp.json"
FAILURE, LIST = "failure", "loaded-"
_DRAFT, _LOCK, _OUTPUT = "draft.jsa", "lock", "output"
#: Making one takes a minute of processor time, of which a busy machine leaves little.
_TIMEOUT_S = 2 * 3600
#: Lists of this age are leftovers of killed runs.
_OLD_S = 2 * 86_400
#: An archive has a third of this size; the draft and the old archive exist at the same time.
_FREE_BYTES = 600 << 20
#: Archives that no JVM has used for this time are removed when another one is made, as after an upgrade.
_UNUSED_S = 30 * 86_400
#: Java's exit code after an error of its own; with any other code it was killed.
_ERROR = 1
#: The mode bits of a file's type and of access by others, and their expected values.
_TYPE_AND_OTHERS, _PRIVATE_FILE = 0o170077, 0o100000


def make(directory: Path, java: str, class_list: str, class_path: str) -> None:
    """Make the archive, unless another process does so or has done so; a failure is noted in the directory.

    Args:
        directory: The directory of the archive, which belongs to this user alone.
        java: The Java to make it for.
        class_list: The file in there with the names of the classes.
        class_path: The class path.
    """
    import fcntl

    with (directory / _LOCK).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            (directory / class_list).unlink(missing_ok=True)
            return
        try:
            if not is_whole(directory) and (directory / class_list).is_file():
                _make(directory, java, class_list, class_path)
                _remove_unused(directory)
        except InterruptedError:
            pass  # the next run tries again
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            _write(directory / FAILURE, str(error))
        finally:
            old = [path for path in directory.glob(f"{LIST}*") if path.stat().st_mtime < time.time() - _OLD_S]
            for left in (*old, *(directory / name for name in (class_list, _DRAFT, _OUTPUT))):
                left.unlink(missing_ok=True)


def is_whole(directory: Path) -> bool:
    """Return whether the archive exists, only its user can write to it, and it is unchanged since it was made."""
    try:
        return json.loads((directory / STAMP).read_text(encoding="utf-8")) == _stamps(directory)
    except (OSError, ValueError):
        return False


def _stamps(directory: Path) -> list[list[int]]:
    return [_stamp(directory / ARCHIVE), _stamp(directory / CLASS_PATH)]


def _stamp(path: Path) -> list[int]:
    status = path.lstat()
    if status.st_mode & _TYPE_AND_OTHERS != _PRIVATE_FILE or status.st_uid != os.geteuid():
        msg = f"{path} is not a file that belongs to this user alone"
        raise PermissionError(msg)
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _make(directory: Path, java: str, class_list: str, class_path: str) -> None:
    if shutil.disk_usage(directory).free < _FREE_BYTES:
        return  # no failure to remember: the next run may find room
    # Spark names a jar twice, and Java 21 uses no archive where it finds an entry again: runs get this class path, too.
    once = os.pathsep.join(dict.fromkeys(class_path.split(os.pathsep)))
    escaped = once.replace("\\", "\\\\").replace('"', '\\"')
    _write(directory / CLASS_PATH, f'-cp "{escaped}"\n')  # it may be too long for an argument
    (directory / CLASS_PATH).chmod(0o600)
    draft = directory / _DRAFT
    draft.unlink(missing_ok=True)
    _run(directory, java, "-Xshare:dump", f"-XX:SharedClassListFile={class_list}", f"-XX:SharedArchiveFile={_DRAFT}")
    draft.chmod(0o600)
    _run(directory, java, "-Xshare:on", f"-XX:SharedArchiveFile={_DRAFT}", "-version")  # fails if it cannot be used
    with draft.open("rb") as written:
        os.fsync(written.fileno())
    draft.replace(directory / ARCHIVE)
    _write(directory / STAMP, json.dumps(_stamps(directory)))
    (directory / FAILURE).unlink(missing_ok=True)


def _run(directory: Path, java: str, *options: str) -> None:
    output = directory / _OUTPUT
    with output.open("wb") as printed:
        done = subprocess.run(
            [java, f"@{CLASS_PATH}", *options],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            timeout=_TIMEOUT_S,
            check=False,
        )
    if done.returncode not in (0, _ERROR):
        raise InterruptedError
    if done.returncode != 0:
        printed = [line.strip() for line in output.read_text(errors="replace").splitlines()]
        first = next((place for place, line in enumerate(printed) if "rror" in line), -1)
        # The reason may follow in the next lines.
        raise ValueError(" ".join(printed[first:][:3]) or "Java said nothing")


def _remove_unused(directory: Path) -> None:
    for other in directory.parent.glob("classes-*"):
        if other != directory and other.stat().st_mtime < time.time() - _UNUSED_S:
            shutil.rmtree(other, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


if __name__ == "__main__":
    os.umask(0o077)
    os.nice(19)
    make(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.stdin.read())
