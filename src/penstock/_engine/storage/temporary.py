"""Checkpoint storage of a job without a checkpoint directory: a temporary directory that is deleted with the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.storage.local import LocalStorage
from penstock.errors import TemporaryCheckpointsError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path

    from penstock._engine.storage.scratch import ScratchDirectory


class TemporaryStorage(LocalStorage):
    """The storage as the driver uses it: a directory that a cleaner has deleted is an error, and never made again.

    Args:
        scratch: The directory.
    """

    def __init__(self, scratch: ScratchDirectory) -> None:
        super().__init__(scratch.path)
        self._scratch = scratch

    def find(
        self, path: str, *, at_most: int | None = None, seen: dict[str, os.stat_result] | None = None
    ) -> bytes | None:
        """Return the bytes of a file, None when there is none; a file of more bytes than `at_most` is not read."""
        data = super().find(path, at_most=at_most, seen=seen)
        if data is None:
            self._require()
        return data

    def _publish(self, path: str, fill: Callable[[int], None], move: Callable[[Path, Path], None]) -> None:
        self._require()
        super()._publish(path, fill, move)

    def remove(self) -> None:
        """Delete the directory; the job has ended."""
        self._scratch.remove()

    def _require(self) -> None:
        if not self._scratch.is_there:
            raise TemporaryCheckpointsError(str(self._scratch.path))
