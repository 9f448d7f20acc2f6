"""Errors for unsupported requests of state, on the driver and in tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._api.state.kinds import KeyedStateStore
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._api.state.descriptors import StateDescriptor

#: The calls of a runtime context that ask for keyed state.
KEYED_STATE_CALLS: Final = frozenset(name for name in vars(KeyedStateStore) if name.startswith("get_"))


def needs_key(call: str) -> UnsupportedOperationError:
    """Return the error about keyed state of a function that sees records of all keys."""
    return UnsupportedOperationError(call, "keyed state belongs to the records of one key; use it after key_by")


def refuse_time_to_live(descriptor: StateDescriptor) -> None:
    """Raise for operator state with a time to live, which Flink ignores silently."""
    if descriptor.ttl_config is not None and descriptor.ttl_config.is_enabled():
        what = f"A time to live of the state {descriptor.get_name()!r}"
        reason = "state of a key expires; lists and broadcast maps of an operator do not, so take out what is old"
        raise UnsupportedOperationError(what, reason)
