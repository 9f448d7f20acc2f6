"""The staged files of the file sink, found without the sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._connectors.files.opening import filesystem_of
from penstock._connectors.files.staging import list_segments

if TYPE_CHECKING:
    from pathlib import Path


def lose_staged(folder: Path | str) -> None:
    """Delete all that is staged below a folder, as a cleaner of temporary files does."""
    for segment in list(list_segments(str(folder))):
        filesystem_of(segment.path).delete(segment.path)
