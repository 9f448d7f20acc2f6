"""What the ``for_`` methods of harnesses take beside the function: the arguments of the classes, by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class SubtaskSettings(TypedDict, total=False):
    """See :class:`~penstock.testing.harness.OperatorHarness`."""

    subtask_index: int
    parallelism: int
    max_parallelism: int
    state_memory_bytes: int | None
    state_directory: Path | None
    batch_mode: bool
    configuration: Mapping[str, str] | None
