"""What the ``for_`` methods of harnesses take beside the function: the arguments of the classes, by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock._api.output_tag import OutputTag
    from penstock._api.windows.evictors import Evictor
    from penstock._api.windows.triggers import Trigger
    from penstock.testing.clock import ManualClock


class SubtaskSettings(TypedDict, total=False):
    """See :class:`~penstock.testing.harness.OperatorHarness`."""

    subtask_index: int
    parallelism: int
    max_parallelism: int
    state_memory_bytes: int | None
    state_directory: Path | None
    batch_mode: bool
    configuration: Mapping[str, str] | None
    clock: ManualClock | None


class WindowedSettings(SubtaskSettings, total=False):
    """What ``for_window`` takes besides: the settings of a ``WindowedStream``, by the names of its methods."""

    #: In milliseconds.
    allowed_lateness_ms: int
    side_output_late_data: OutputTag | None
    trigger: Trigger[Any, Any] | None
    evictor: Evictor[Any, Any] | None
