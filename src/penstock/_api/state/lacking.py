"""What PyFlink has of state and this version does not: the errors that say so, on the driver and in tasks alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._api.state.descriptors import StateDescriptor

#: The calls of a runtime context that ask for keyed state, and those of them that are not there yet.
KEYED_STATE_CALLS: Final = frozenset(
    {"get_state", "get_list_state", "get_map_state", "get_reducing_state", "get_aggregating_state"}
)
LATER_STATE_CALLS: Final = KEYED_STATE_CALLS - {"get_state", "get_list_state"}


def later_state(call: str) -> UnsupportedOperationError:
    """Return the error about a kind of keyed state that is not there yet."""
    reason = "this kind of state comes with a later version; keep a Python object in a ValueState until then"
    return UnsupportedOperationError(call, reason)


def needs_key(call: str) -> UnsupportedOperationError:
    """Return the error about keyed state of a function that sees records of all keys."""
    return UnsupportedOperationError(call, "keyed state belongs to the records of one key; use it after key_by")


def time_to_live(what: str) -> UnsupportedOperationError:
    """Return the error about values that are to expire: here they would silently stay for ever."""
    reason = "this version keeps values until they are cleared; clear them in on_timer, without enable_time_to_live"
    return UnsupportedOperationError(what, reason)


def refuse_time_to_live(descriptor: StateDescriptor) -> None:
    """Raise for a state whose values are to expire."""
    if descriptor.ttl_config is not None and descriptor.ttl_config.is_enabled():
        raise time_to_live(f"A time to live of the state {descriptor.get_name()!r}")
