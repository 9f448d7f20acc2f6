"""Harnesses whose keyed state has room for almost nothing: what is not being changed is read from the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._engine.state.keyed_store import KeyedStore
from penstock.testing._inline_state import inline_data
from penstock.testing.harness import OperatorHarness
from penstock.testing.two_inputs import TwoInputHarness

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.state.memory_store import MemoryStore


def starved(harness: type[OperatorHarness], directory: Path) -> type[Any]:
    """Return a class of harnesses that keep their state there."""
    places = iter(range(1_000))

    class Starved(harness):  # type: ignore[misc, valid-type]
        def _keyed_store(self) -> MemoryStore:
            place = directory / f"state-{next(places)}"
            return KeyedStore(place, self._key_groups, self._max_parallelism, inline_data, memory_bytes=1)

    return Starved


__all__ = ["OperatorHarness", "TwoInputHarness", "starved"]
