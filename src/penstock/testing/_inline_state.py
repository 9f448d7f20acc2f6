"""State whose data is inside its handle, so that no file is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock._engine.operators.base import EpochContext
    from penstock._engine.protocol.state_handle import StateHandle
    from penstock._engine.state.keyed_state import KeyedState


def saved_state(store: KeyedState, epoch: EpochContext) -> tuple[StateHandle, ...]:
    """Return the handles of all keyed state, or of what has changed behind the others; they have the data in them."""
    place = epoch.checkpoint_id, epoch.token
    if epoch.full_snapshot:
        return tuple(store.describe(data, "snapshot", *place, None) for data in store.snapshot(*place))
    delta = store.delta(*place)
    return epoch.restore.lineage + (() if delta is None else (store.describe(delta, "delta", *place, None),))


def inline_data(handle: StateHandle) -> bytes:
    """Return the data that a handle has in it."""
    assert handle.inline is not None
    return handle.inline
