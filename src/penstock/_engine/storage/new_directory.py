"""Checks the paths of new local directories for links, and removes new directories that remain empty."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from penstock.common.paths import scheme_of
from penstock.errors import CheckpointStorageError


def check_no_links(path: str, below: str) -> None:
    """Refuse a path that leads through a link, which another user may have put there to lead elsewhere.

    Args:
        path: An absolute path, or the URL of an object store, which has no links.
        below: The parts up to this path are trusted, and may be links.

    Raises:
        CheckpointStorageError: A part of the path is a link.
    """
    if scheme_of(path):
        return
    trusted, place = Path(below), Path(path)
    for part in (place, *place.parents):
        if part == trusted or trusted.is_relative_to(part):
            return
        if part.is_symlink():
            reason = "it leads through a link; give the path that the link leads to"
            raise CheckpointStorageError(path, reason)


def first_missing(path: str) -> Path | None:
    """Return the topmost missing directory of a path; None if none is missing."""
    if scheme_of(path):
        return None
    missing = None
    for part in (Path(path), *Path(path).parents):
        if os.path.lexists(part):  # False for invalid names, too
            break
        missing = part
    return missing


def remove_empty(top: Path) -> None:
    """Remove a directory and its subdirectories, as far as they are empty."""
    for folder, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
