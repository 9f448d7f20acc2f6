"""The directories for small files of a user's jobs and commands that no cleaner may delete: entries, notes, logs."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from penstock._engine.storage.ownership import why_exposed, why_not_own
from penstock.errors import LocalDirectoryError


def user_state_directory() -> Path:
    """Return the directory for files of this user's jobs and commands; it need not exist.

    It is ``penstock`` below ``XDG_STATE_HOME`` or ``~/.local/state``. Where there is no home, or this user may not
    write there, as in many containers, it is a directory below the temporary one.

    Raises:
        LocalDirectoryError: That directory belongs to another user.
    """
    usual = _usual()
    return usual if usual is not None and _can_be_written(usual) else _fallback()


def is_usual(directory: Path) -> bool:
    """Tell whether a directory is the usual directory for a user's state, which no cleaner deletes by age."""
    usual = _usual()
    return usual is not None and directory.is_relative_to(usual)


def make_private(directory: Path) -> None:
    """Make a directory that only this user can enter, with its parents.

    Raises:
        OSError: It cannot be made.
    """
    for one in reversed([directory, *directory.parents]):
        if not one.exists():
            one.mkdir(mode=0o700, exist_ok=True)


def _usual() -> Path | None:
    given = os.environ.get("XDG_STATE_HOME")
    if given and Path(given).is_absolute():  # by the specification, relative paths are ignored
        return Path(given) / "penstock"
    try:
        home = Path.home()
    except RuntimeError:  # no HOME and no entry for the user, as in containers with arbitrary user ids
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "penstock"
    return home / ".local" / "state" / "penstock"


def _can_be_written(path: Path) -> bool:
    """Tell whether a directory can be written to, or made; nothing is changed."""
    there = next(one for one in (path, *path.parents) if one.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _fallback() -> Path:
    user = os.environ.get("USERNAME", "user") if sys.platform == "win32" else str(os.geteuid())
    path = Path(tempfile.gettempdir()) / f"penstock-state-{user}"
    try:
        reason = why_exposed(path.parent) or why_not_own(path)
    except OSError:
        return path
    if reason is not None:
        raise LocalDirectoryError(str(path), f"{reason}; set XDG_STATE_HOME to a directory of your own")
    return path
