"""Value state over a pane: one row per key, with as few calls between user and dict as possible.

Only `ExpiringValueState` looks at stamps: a state without a time to live does not pay for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.state.kinds import ValueState, ValueStateDescriptor
from penstock._engine.state.kinds.kind import StateKind, StateScope
from penstock._engine.state.kinds.typed import typed_value
from penstock._engine.state.row_lives import RowLives
from penstock._engine.state.table import ABSENT, MISSING

if TYPE_CHECKING:
    from penstock._engine.state.key_context import KeyContext
    from penstock._engine.state.rows import Namespace
    from penstock._engine.state.table import Table


class ValueKind(StateKind[ValueStateDescriptor]):
    """One value per key."""

    name = "value"
    can_expire = True
    descriptor = ValueStateDescriptor

    def state(self, descriptor: ValueStateDescriptor, scope: StateScope) -> ValueState[Any]:
        return typed_value(value_in(scope), descriptor, scope.operator)


class StoredValueState(ValueState[Any]):
    """One value per key.

    Args:
        table: The table of the values.
        context: Holds the current key.
        namespace: The namespace of the pane; one other than () is valid for the running epoch only.
    """

    __slots__ = ("_context", "_dirty", "_hot", "_load", "_remember")

    def __init__(self, table: Table, context: KeyContext, namespace: Namespace = ()) -> None:
        pane = table.pane(namespace)
        self._context = context
        # These stay the same objects for the life of the store.
        self._hot = pane.hot
        self._dirty = pane.dirty
        self._load = pane.load
        self._remember = pane.remember

    def value(self) -> Any:
        """Return the value, None when there is none."""
        normal = self._context.normal
        value = self._hot.get(normal, MISSING)
        if value is MISSING:  # an exception would take longer than all the rest
            value = self._load(normal)
        return None if value is ABSENT else value

    def row(self) -> Any:
        """Return the value, ABSENT when there is none; `keep` may have stored None."""
        normal = self._context.normal
        value = self._hot.get(normal, MISSING)
        return self._load(normal) if value is MISSING else value

    #: Return the value to add to: ABSENT also for an expired value that functions may still see.
    held = row

    def keep(self, value: Any) -> None:
        """Set the value; None is stored as a value."""
        self.update(value)
        if value is None:
            self._hot[self._context.normal] = None

    def update(self, value: Any) -> None:
        """Set the value; None deletes it."""
        context = self._context
        normal = context.normal
        self._hot[normal] = ABSENT if value is None else value
        # A key of type str or int is its own normal key; the key of a row is kept with its first write in an epoch.
        if context.key is not normal and normal not in self._dirty:
            self._remember(normal, context.key)
        self._dirty.add(normal)

    def clear(self) -> None:
        """Delete the value."""
        normal = self._context.normal
        self._hot[normal] = ABSENT
        self._dirty.add(normal)


class ExpiringValueState(StoredValueState):
    """One value per key, with a time to live."""

    __slots__ = ("_lives",)

    def __init__(self, table: Table, context: KeyContext, namespace: Namespace = ()) -> None:
        super().__init__(table, context, namespace)
        self._lives = RowLives(table.pane(namespace))

    def value(self) -> Any:
        value = self.row()
        return None if value is ABSENT else value

    def row(self) -> Any:
        value = super().row()
        return value if value is ABSENT else self._lives.read(self._context.normal, value)

    def held(self) -> Any:
        value = super().row()
        return ABSENT if value is not ABSENT and self._lives.is_over(self._context.normal) else value

    def keep(self, value: Any) -> None:
        super().keep(value)
        self._lives.written(self._context.normal)

    def update(self, value: Any) -> None:
        super().update(value)
        if value is None:
            self._lives.cleared(self._context.normal)
        else:
            self._lives.written(self._context.normal)

    def clear(self) -> None:
        super().clear()
        self._lives.cleared(self._context.normal)


def value_in(scope: StateScope) -> StoredValueState:
    """Return the value state of a scope, with or without a time to live."""
    if scope.expires:
        return ExpiringValueState(scope.table, scope.key, scope.namespace)
    return lasting_value_in(scope)


def lasting_value_in(scope: StateScope) -> StoredValueState:
    """Return the value state of a scope whose values do not expire, or whose kind handles expiry itself."""
    return StoredValueState(scope.table, scope.key, scope.namespace)
