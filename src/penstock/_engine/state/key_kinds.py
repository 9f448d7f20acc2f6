"""Tells when the keys that a start begins with are of another kind than those that have state.

Equal keys have equal encodings, so a key of another kind finds nothing: where a key selector gives texts in place of
numbers, all counts start fresh. Declared types are compared before the start; of all others only the keys can tell.
"""

from __future__ import annotations

from itertools import islice
from numbers import Number
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._engine.protocol.key_values import key_value
from penstock._engine.state.rows import key_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.keyed_state import KeyedState
    from penstock._engine.state.rows import Address

#: So many keys of each side are looked at: a stream may have keys of several kinds.
_SAMPLE: Final = 100


class KeyKinds:
    """Compares the keys of the state that one subtask has restored with the first ones that it writes.

    Args:
        store: The state, before its first epoch.
    """

    def __init__(self, store: KeyedState) -> None:
        self._store = store
        panes = (pane for table in store.tables for pane in table.panes.values())
        self._restored = _kinds(address for pane in panes for address, _ in islice(pane.items(), _SAMPLE))

    def differing(self) -> tuple[Any, Any] | None:
        """Return a restored key and one of another kind that was written, where no written one is of a restored kind.

        Called at the end of each epoch; it answers at the first one that has written keys.
        """
        if not self._restored:
            return None
        panes = (pane for table in self._store.tables for pane in table.panes.values())
        written = _kinds(address for pane in panes for address in pane.dirty)
        if not written:
            return None
        restored, self._restored = self._restored, {}
        if restored.keys() & written.keys():
            return None
        return next(iter(restored.values())), next(iter(written.values()))


def _kinds(addresses: Iterable[Address]) -> dict[str, Any]:
    """Return the kinds of some keys, each with a key of it."""
    return dict(map(_kind_of, map(key_at, islice(addresses, _SAMPLE))))


def _kind_of(normal: NormalKey) -> tuple[str, Any]:
    try:
        key = key_value(normal)
    except (ImportError, AttributeError):  # the class of an enum or a dataclass has gone
        key = normal
    return _kind(key), key


def _kind(key: Any) -> str:
    if isinstance(key, Number):
        return "number"
    if isinstance(key, tuple):
        return f"({', '.join(map(_kind, cast('tuple[Any, ...]', key)))})"
    return type(key).__qualname__
