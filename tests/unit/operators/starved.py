"""Harnesses whose keyed state has room for almost nothing: what is not being changed is read from the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.testing import OperatorHarness, TwoInputHarness

if TYPE_CHECKING:
    from pathlib import Path


def starved(harness: type[OperatorHarness], directory: Path) -> type[Any]:
    """Return a class of harnesses that keep their state there."""
    places = iter(range(1_000))

    class Starved(harness):  # type: ignore[misc, valid-type]
        def __init__(self, operator: Any, **subtask: Any) -> None:
            place = directory / f"state-{next(places)}"
            super().__init__(operator, state_memory_bytes=1, state_directory=place, **subtask)

    return Starved


__all__ = ["OperatorHarness", "TwoInputHarness", "starved"]
