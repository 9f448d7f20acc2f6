"""The files of DataFrames that one run of a job writes for its sources."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock._engine.storage.opening import open_storage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.storage.checkpoint_storage import FileStorage


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Where a run writes; tasks get a copy.

    Attributes:
        url: The checkpoint storage.
        prefix: What the paths below it begin with: the job's directory, and the run.
        options: Of the storage.
    """

    url: str
    prefix: str
    options: Mapping[str, str] = field(repr=False)

    def open(self) -> FileStorage:
        """Open the storage."""
        return open_storage(self.url, self.options)
