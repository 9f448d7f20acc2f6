"""Who may read and write a file beside its owner, by its mode; and a warning where that gives a secret away."""

from __future__ import annotations

import logging
import os
import stat
import sys
from functools import cache

_log = logging.getLogger("penstock")

_ROOT = 0


def others_can_write(status: os.stat_result) -> bool:
    """Return whether anyone but the owner can write; a group with one user does not count."""
    return _others_can(status, stat.S_IWOTH, stat.S_IWGRP)


def others_can_read(status: os.stat_result) -> bool:
    """Return whether users can read that nobody has named.

    The group of a file of root's is named on purpose: that is how services get their certificates.
    """
    return _others_can(status, stat.S_IROTH, 0 if status.st_uid == _ROOT else stat.S_IRGRP)


def warn_of_readers(path: str, secret: str) -> None:
    """Log a warning, once for each file, where other users of this machine can read it.

    Args:
        path: The file; none is no reason to warn.
        secret: What is secret in it, for the message.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - a link leads to what is read
    except OSError:
        return
    if sys.platform != "win32" and others_can_read(status):
        _warn(path, secret, stat.S_IMODE(status.st_mode))


@cache
def _warn(path: str, secret: str, mode: int) -> None:
    _log.warning(
        "Other users of this machine can read %s, which holds %s (mode %04o): chmod 600 %s", path, secret, mode, path
    )


def _others_can(status: os.stat_result, all_bits: int, group_bits: int) -> bool:
    if status.st_mode & all_bits:
        return True
    return bool(status.st_mode & group_bits) and not _is_group_of_one(status.st_gid, status.st_uid)


@cache
def _is_group_of_one(group: int, user: int) -> bool:
    """Tell whether a group is that of one user, as many systems make one for each, with a mask of 002."""
    if sys.platform == "win32":  # pragma: no cover
        return True
    import grp
    import pwd

    try:
        name, members = pwd.getpwuid(user).pw_name, grp.getgrgid(group)
    except KeyError:  # users of containers have numbers alone
        return group == user
    return members.gr_name == name and set(members.gr_mem) <= {name}
