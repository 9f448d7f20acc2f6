"""Finds directories of dead processes on the local disk: Spark's, temporary checkpoints, cached streams, keyed state.

Keyed state on the local disk is a cache of checkpoints; a job without it restores from checkpoints.

All users can write to the temporary directory, so a name of ours in it may be another user's link to any directory. So
each level is checked before it is entered, and again before a deletion: it must be a directory of this user that others
cannot write to.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.caches.place import TEMPORARY
from penstock._engine.savepoints.chains import read_chains
from penstock._engine.savepoints.reading import SCRATCH
from penstock._engine.savepoints.survey import Leftover, LeftoverKind
from penstock._engine.state.local.environment import is_in_use
from penstock._engine.storage.executor_directory import executors_of_host
from penstock._engine.storage.local_state import has_living_executor
from penstock._engine.storage.opening import open_storage
from penstock._engine.storage.ownership import levels_of_user, user_path, why_not_own
from penstock._engine.storage.scratch import LOCK, MODULES, is_dead
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock._engine.savepoints.chains import JobChain
    from penstock._engine.savepoints.search import Search

#: What the names of temporary checkpoint directories begin with.
_CHECKPOINTS: Final = "penstock-checkpoints-"
#: The name that `LocalStateDirectory` gives to the directory of a run.
_RUN: Final = re.compile(r"[0-9a-f]{32}")


def leftover_directories(search: Search) -> Iterator[Leftover]:
    """Iterate this user's directories on this machine that no process uses.

    Paths that are named like directories of ours, and fail that check, are noted as unclear.
    """
    for path, reason in _candidates(search) if search.places.local else ():
        size, modified_ms = _size_and_time(path)
        if modified_ms <= search.oldest_ms and is_dead_directory(path):
            yield Leftover(LeftoverKind.LOCAL_DIRECTORY, str(path), size, reason, modified_ms)


def is_dead_directory(path: Path) -> bool:
    """Tell whether no process uses a directory of a name of ours."""
    if why_not_own(path) is not None:
        return False
    if _is_state(path):
        if (path / LOCK).is_file() and (not is_dead(path) or has_living_executor(path)):
            return False  # its driver, a worker or its executor lives, perhaps between two epochs
        place = path.resolve()
        return not any(is_in_use(found) for kind in ("version-*", "epoch-*") for found in place.rglob(kind))
    return is_dead(path)


def remove_local_directory(leftover: Leftover, _: Mapping[str, str]) -> str | None:
    """Remove a directory unless it was taken into use since; return why it could not be removed, else None."""
    path = Path(leftover.path)
    for level in levels_of_user(path):
        reason = why_not_own(level)
        if reason is not None:
            return f"{level}: {reason}"
    if not is_dead_directory(path):
        return "a process uses it now"
    shutil.rmtree(path)  # rmtree follows no links
    return None


def _candidates(search: Search) -> Iterator[tuple[Path, str]]:
    if sys.platform == "win32":
        return  # without flock a dead owner cannot be told from a live one
    temporary = Path(tempfile.gettempdir())
    for prefix in (_CHECKPOINTS, TEMPORARY, SCRATCH, MODULES):
        for path in sorted(temporary.glob(f"{prefix}*")):
            if _is_own(path):  # else another user's, or a file
                yield path, f"the process that made it has ended ({_whose(path)})"
    # `spark.directories` makes these; listing must not make or change anything.
    own = user_path()
    for path in _own_below(own, search):
        if path.name.startswith("spark-"):
            yield path, f"the process that started Spark there has ended ({_whose(path)})"
    for directory in (own, *map(user_path, executors_of_host())):
        for path in _own_below(directory / "state", search) if _is_own(directory) else ():
            if _RUN.fullmatch(path.name):
                yield path, f"no process uses it, and checkpoints have all that is in it (run {path.name})"


def _whose(path: Path) -> str:
    """Return whose a directory is: the jobs that have checkpoints in it, or the user."""
    names = sorted({chain.newest.job_name for chain in _chains_in(path) if chain.newest is not None})
    if names:
        return f"of job {' and '.join(map(repr, names))}"
    return f"of user {path.lstat().st_uid}"


def _chains_in(path: Path) -> list[JobChain]:
    if not path.name.startswith(_CHECKPOINTS):
        return []
    try:
        return read_chains(open_storage(str(path)))
    except PenstockError:
        return []


def _own_below(directory: Path, search: Search) -> list[Path]:
    """Return the subdirectories of a directory of this user, without excluded ones; none for other directories."""
    try:
        reason = why_not_own(directory)
        if reason is None:
            return sorted(filter(_is_own, directory.iterdir()))
    except FileNotFoundError:
        return []
    except OSError as error:
        reason = error.strerror or str(error)
    search.note_unclear(str(directory), f"{reason}, so nothing in it was looked at")
    return []


def _is_own(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return why_not_own(path) is None
    return False


def _is_state(path: Path) -> bool:
    return path.parent.name == "state"


def _size_and_time(path: Path) -> tuple[int, int]:
    size, newest_ns = 0, path.lstat().st_mtime_ns
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                status = Path(folder, name).lstat()
                size += status.st_blocks * 512  # maps of the local store are sparse
                newest_ns = max(newest_ns, status.st_mtime_ns)
    return size, newest_ns // 1_000_000
