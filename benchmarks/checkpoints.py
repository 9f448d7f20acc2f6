"""The files of keyed state, written as a subtask does, with the driver's rule for their chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.coordinator.checkpoints.snapshots import needs_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.protocol.state_handle import Lineage
    from penstock._engine.state.keyed_state import KeyedState


def end_epoch(store: KeyedState, number: int, lineage: Lineage, put: Callable[[str, bytes], object]) -> Lineage:
    """Write what an epoch changed, or a snapshot where it is due; return the new lineage.

    Args:
        store: The subtask's store, whose epoch ends.
        number: The checkpoint, and the attempt.
        lineage: The lineage up to now.
        put: Writes a file, given its name.
    """
    if needs_snapshot(lineage):
        return write_snapshot(store, number, f"snapshot-{number}", put)
    data = store.delta(number, number)
    if data is None:
        return lineage
    put(f"delta-{number}", data)
    return (*lineage, store.describe(data, "delta", number, number, f"delta-{number}"))


def write_snapshot(
    store: KeyedState, checkpoint_id: int, name: str, put: Callable[[str, bytes], object], token: int | None = None
) -> Lineage:
    """Write the files of a snapshot; return their handles.

    Args:
        store: The store.
        checkpoint_id: The checkpoint.
        name: What the names of the files begin with.
        put: Writes a file, given its name.
        token: The attempt; the number of the checkpoint where left out.
    """
    token, files = checkpoint_id if token is None else token, []
    for number, data in enumerate(store.snapshot(checkpoint_id, token)):
        put(f"{name}.{number}", data)
        files.append(store.describe(data, "snapshot", checkpoint_id, token, f"{name}.{number}"))
    return tuple(files)
