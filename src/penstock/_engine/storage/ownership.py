"""Checks the owners of local files: Penstock neither unpickles nor removes files that others can change.

In a directory that others can write to, such as the temporary one, a name may be another user's link. So the checks
look at each level itself, and never at the target of a link.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.common.file_modes import others_can_write

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROOT: Final = 0
#: The directory of a user below a temporary one; see `levels_of_user`.
_USERS_OWN: Final = re.compile(r"penstock-\w+")


def user_path(base: Path | None = None) -> Path:
    """Return the directory of this process's user below `base`, by default below its temporary directory; not made.

    Raises:
        OSError: There is no usable temporary directory.
    """
    user = os.environ.get("USERNAME", "user") if sys.platform == "win32" else str(os.geteuid())
    return (base or Path(tempfile.gettempdir())) / f"penstock-{user}"


def why_not_own(path: Path) -> str | None:
    """Return why others may control a directory, as a clause; None if only this user can.

    Raises:
        OSError: It cannot be looked at.
    """
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return "it is a link or a file, not a directory"
    if sys.platform == "win32":  # pragma: no cover - rights are not told by modes there
        return None
    if status.st_uid != os.geteuid():
        return f"it belongs to user {status.st_uid}, not to user {os.geteuid()}"
    return "other users can write to it" if others_can_write(status) else None


def why_not_trusted(path: Path) -> str | None:
    """Return why others can change a file or directory, as a clause; None if only this user and root can.

    Raises:
        OSError: It cannot be looked at.
    """
    return why_not_trusted_by(path.lstat())


def why_not_trusted_by(status: os.stat_result) -> str | None:
    """Return why others can change what has a status, as a clause; None if only this user and root can."""
    if stat.S_ISLNK(status.st_mode):
        return "it is a link"
    if sys.platform == "win32":  # pragma: no cover - rights are not told by modes there
        return None
    if status.st_uid not in {os.geteuid(), _ROOT}:
        return f"it belongs to user {status.st_uid}"
    return "other users can write to it" if others_can_write(status) else None


def first_not_trusted(seen: Mapping[str, os.stat_result], above: str = "") -> tuple[str, str] | None:
    """Return the first level that others can change, and why; None where there is none.

    Args:
        seen: What `FileStorage.find` has seen of a file.
        above: Levels up to this one do not count.
    """
    begin = f"{above}/" if above else ""
    levels = (
        (level, why_not_trusted_by(status)) for level, status in seen.items() if level and level.startswith(begin)
    )
    return next(((level, reason) for level, reason in levels if reason is not None), None)


def why_exchangeable(status: os.stat_result) -> str | None:
    """Return why others can exchange what is in a directory of a status, as a clause; None where they cannot."""
    if sys.platform == "win32":  # pragma: no cover - rights are not told by modes there
        return None
    if status.st_uid not in {os.geteuid(), _ROOT}:
        return f"it belongs to user {status.st_uid}, who can exchange what is in it"
    is_kept = status.st_mode & stat.S_ISVTX
    return None if is_kept or not others_can_write(status) else "others can exchange what is in it (no sticky bit)"


def why_exposed(directory: Path) -> str | None:
    """Return why others can exchange what is made in a directory, a clause; None where they cannot.

    Whoever may write to a directory may rename what is in it, whoever owns that, unless the sticky bit keeps it. A
    group that may write has been named on purpose.

    Raises:
        OSError: It cannot be looked at.
    """
    if sys.platform == "win32":  # pragma: no cover - rights are not told by modes there
        return None
    place = directory.resolve()
    for level in (place, *place.parents):
        mode = stat.S_IMODE(level.stat().st_mode) if level.exists() else 0
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"every user can exchange what is in {level} (mode {mode:04o}, no sticky bit): chmod +t {level}"
    return None


def foreign_link(path: str) -> str | None:
    """Return a clause if a path is another user's link; None for any other path."""
    if sys.platform == "win32" or not os.path.islink(path):  # noqa: PTH114 - it may be a URL
        return None
    owner = os.lstat(path).st_uid
    return None if owner in {os.geteuid(), _ROOT} else f"it is a link of user {owner}"


def levels_of_user(path: Path) -> list[Path]:
    """Return the levels of a path, from the directory that Penstock made for this user down to the path.

    Example:
        >>> from pathlib import Path
        >>> [level.as_posix() for level in levels_of_user(Path("/tmp/penstock-7/state/run"))]
        ['/tmp/penstock-7', '/tmp/penstock-7/state', '/tmp/penstock-7/state/run']
    """
    levels = [path, *path.parents]
    own = next((place for place, level in enumerate(levels) if _USERS_OWN.fullmatch(level.name)), 0)
    return levels[own::-1]
