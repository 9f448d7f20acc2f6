"""Value state over a pane: the shape that all keyed states have, with as little between user and dict as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from penstock._api.state.kinds import ValueState
from penstock._engine.state.table import ABSENT
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.table import Namespace, Table


class KeyContext:
    """The current key; the operator sets it before it calls the user's function."""

    __slots__ = ("key", "normal")

    def __init__(self) -> None:
        #: The key as the user's selector gave it, or as it was kept with a timer.
        self.key: Any = None
        #: The normal key.
        self.normal: NormalKey = b""

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


class StoredValueState(ValueState[Any]):
    """One value per key.

    Args:
        table: Where the values are.
        context: Says for which key.
        namespace: Of which pane; any but () is good for the running epoch only.
    """

    __slots__ = ("_context", "_dirty", "_hot", "_load")

    def __init__(self, table: Table, context: KeyContext, namespace: Namespace = ()) -> None:
        pane = table.pane(namespace)
        self._context = context
        # These stay the same objects as long as the store lives.
        self._hot = pane.hot
        self._dirty = pane.dirty
        self._load = pane.load

    def value(self) -> Any:
        """Return the value, None when there is none."""
        normal = self._context.normal
        try:
            value = self._hot[normal]
        except KeyError:
            value = self._load(normal)
        return None if value is ABSENT else value

    def update(self, value: Any) -> None:
        """Set the value; None takes it away."""
        normal = self._context.normal
        self._hot[normal] = ABSENT if value is None else value
        self._dirty.add(normal)

    def clear(self) -> None:
        """Take the value away."""
        normal = self._context.normal
        self._hot[normal] = ABSENT
        self._dirty.add(normal)


class KeyKeepingValueState(StoredValueState):
    """One value per key in a table that can tell its keys."""

    __slots__ = ("_remember",)

    def __init__(self, table: Table, context: KeyContext) -> None:
        super().__init__(table, context)
        self._remember = table.pane().remember

    def update(self, value: Any) -> None:
        super().update(value)
        self._remember(self._context.normal, self._context.key)
