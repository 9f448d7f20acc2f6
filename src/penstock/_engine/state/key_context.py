"""The current key: the key of the record, the timer or the window that a function is called for."""

from __future__ import annotations

from typing import Any, NoReturn

from penstock.errors import UnsupportedOperationError


class KeyContext:
    """The current key, at first none; the operator sets it before it calls the user's function."""

    __slots__ = ("key", "normal")

    #: The key as the user's selector returned it, or as a timer kept it.
    key: Any
    #: The normal key. State of windows of single keys has a context of its own, where this is the `Composite` of key
    #: and window.
    normal: Any

    def leave(self) -> None:
        """Unset the current key: reading it raises until the next key is set."""
        self.key = self.normal = b""
        del self.key, self.normal

    def __getattr__(self, name: str) -> NoReturn:  # runs for an empty slot
        operation = "Keyed state or a timer without a current key"
        reason = (
            "records and timers have a key; open(), snapshot_state(), finish(), end_input() and close() have none; in "
            "process_broadcast_element, use the context's apply_to_keyed_state, which reaches the state of all keys"
        )
        raise UnsupportedOperationError(operation, reason)
