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
    """Where a run writes, and what it has written; tasks get a copy.

    Attributes:
        url: The checkpoint storage.
        prefix: What the paths below it begin with: the job's directory, and the run.
        options: Of the storage.
        frames: The files that the run has written, by the token of the source: if it starts fresh without a checkpoint,
            it reads the same ones.
    """

    url: str
    prefix: str
    options: Mapping[str, str] = field(repr=False)
    frames: dict[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"], repr=False)

    def open(self) -> FileStorage:
        """Open the storage."""
        return open_storage(self.url, self.options)
