"""When a snapshot replaces a chain of deltas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock._engine.coordinator.checkpoints.snapshots import needs_snapshot
from penstock._engine.protocol.state_handle import StateHandle

if TYPE_CHECKING:
    from penstock._engine.protocol.state_handle import Lineage

MB = 1 << 20


def chain(base: int, deltas: int, size: int = 100) -> Lineage:
    """Return a snapshot of so many bytes, none where it is 0, and deltas after it."""
    snapshot = (StateHandle(1, 1, "snapshot", "snapshot", None, base, 1, 0, (0, 1)),) if base else ()
    return *snapshot, *(
        StateHandle(2 + number, 1, "delta", f"delta-{number}", None, size, 1, 0, (0, 1)) for number in range(deltas)
    )


@pytest.mark.parametrize(("base", "most"), [(0, 16), (1 * MB, 16), (40 * MB, 26), (500 * MB, 128), (1 << 40, 128)])
def test_chains_of_small_deltas_are_longer_the_larger_their_snapshot_is(base: int, most: int) -> None:
    assert not needs_snapshot(chain(base, most - 1))
    assert needs_snapshot(chain(base, most))


def test_deltas_with_half_the_bytes_of_their_snapshot_are_replaced() -> None:
    assert not needs_snapshot(chain(40 * MB, 2, 10 * MB))
    assert needs_snapshot(chain(40 * MB, 2, 11 * MB))


def test_a_chain_without_a_snapshot_gets_one_by_its_bytes_too() -> None:
    assert not needs_snapshot(chain(0, 2, MB // 2))
    assert needs_snapshot(chain(0, 3, MB // 2))
