"""The current key: the key of the record, the timer or the window that a function is called for."""

from __future__ import annotations

from typing import Any, NoReturn

from penstock.errors import UnsupportedOperationError


class KeyContext:
    """The current key; the operator sets it before it calls the user's function."""

    __slots__ = ("key", "normal")

    def __init__(self) -> None:
        #: The key as the user's selector gave it, or as it was kept with a timer.
        self.key: Any = None
        #: The normal key. State that is kept by windows of single keys has a context of its own, with the `Composite`
        #: of key and window in this place.
        self.normal: Any = b""

    def leave(self) -> None:
        """Unset the current key: asking for it raises until the next one is set."""
        self.key = self.normal = b""
        del self.key, self.normal

    def __getattr__(self, name: str) -> NoReturn:  # of a slot that is empty
        operation = "Keyed state or a timer where there is no current key"
        reason = (
            "records and timers have a key, finish() and end_input() have none; in process_broadcast_element, "
            "apply_to_keyed_state of the context reaches the state of all keys"
        )
        raise UnsupportedOperationError(operation, reason)
