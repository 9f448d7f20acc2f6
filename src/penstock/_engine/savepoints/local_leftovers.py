"""Directories on the local disk whose process is dead: Spark's, temporary checkpoints, and keyed state.

Keyed state there is a cache of checkpoints: a job that lost it restores from those.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._engine.savepoints.reading import SCRATCH
from penstock._engine.state.environment import is_in_use
from penstock._engine.storage.scratch import LOCK, is_dead

if TYPE_CHECKING:
    from collections.abc import Iterator


def dead_local_directories(oldest_ms: int) -> Iterator[tuple[Path, int, str, int]]:
    """Iterate (path, bytes, why it is dead, when it was last changed) of this user's directories on this machine.

    Args:
        oldest_ms: Files that were changed after this time are ignored.
    """
    for path, reason in _candidates():
        size, modified_ms = _size_and_time(path)
        if modified_ms <= oldest_ms and is_dead_directory(path):
            yield path, size, reason, modified_ms


def is_dead_directory(path: Path) -> bool:
    """Tell whether no process uses a directory that `dead_local_directories` found."""
    if _is_state(path):
        if (path / LOCK).is_file() and not is_dead(path):
            return False  # its driver lives, and may have no epoch at work
        return not any(map(is_in_use, path.resolve().rglob("version-*")))
    return is_dead(path)


def _candidates() -> Iterator[tuple[Path, str]]:
    if sys.platform == "win32":
        return  # without flock a dead owner looks like a living one
    temporary = Path(tempfile.gettempdir())
    for prefix in ("penstock-checkpoints-", SCRATCH):
        for path in sorted(temporary.glob(f"{prefix}*")):
            if path.is_dir() and path.stat().st_uid == os.geteuid():
                yield path, "the process that made it has ended"
    # `spark.directories` makes these; listing must not make or change anything.
    own = temporary / f"penstock-{os.geteuid()}"
    for path in sorted(own.glob("spark-*")):
        yield path, "the process that started Spark there has ended"
    for path in sorted((own / "state").glob("*")):
        if path.is_dir():
            yield path, "no process uses it, and checkpoints have all that is in it"


def _is_state(path: Path) -> bool:
    return path.parent.name == "state"


def _size_and_time(path: Path) -> tuple[int, int]:
    size, newest_ns = 0, path.stat().st_mtime_ns
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                status = Path(folder, name).stat()
                size += status.st_blocks * 512  # maps of the local store are sparse
                newest_ns = max(newest_ns, status.st_mtime_ns)
    return size, newest_ns // 1_000_000
