"""The staged files of sinks, found without the sink, and folders that a host does not share."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock._connectors.files.opening import filesystem_of
from penstock._connectors.files.staging import list_segments

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def lose_staged(folder: Path | str) -> None:
    """Delete all that is staged below a folder, as a cleaner of temporary files does."""
    for segment in list(list_segments(str(folder))):
        filesystem_of(segment.path).delete(segment.path)


@contextmanager
def elsewhere(folder: Path) -> Iterator[None]:
    """Let a folder be on another host meanwhile; in its place there is one of this host, with a file of somebody else.

    What is made there meanwhile is on this one.
    """
    away = folder.rename(folder.with_name(f"{folder.name}-elsewhere"))
    folder.mkdir()
    (folder / "of-somebody-else.txt").touch()
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        away.rename(folder)
