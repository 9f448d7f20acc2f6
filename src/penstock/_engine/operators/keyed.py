"""What keyed operators share: the store, the keys of a batch, and the copies that keep emitted values apart from state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from penstock._engine.operators.base import EpochContext, Operator, OperatorContext
from penstock._engine.protocol.control import OperatorAck
from penstock._engine.protocol.keys import NormalKey, normal_key
from penstock._engine.state.keyed_store import KeyedStore

#: Types whose values nobody can change in place.
_IMMUTABLE: Final = frozenset(
    (type(None), bool, int, float, complex, str, bytes, date, datetime, time, timedelta, Decimal, frozenset, range)
)
_PLAIN_KEYS: Final = ({str}, {int}, {str, int})


def may_change(value: Any) -> bool:
    """Return whether somebody could change a value in place."""
    kind = value.__class__
    if kind is tuple:
        return any(map(may_change, value))
    return kind not in _IMMUTABLE


def separate(value: Any) -> Any:
    """Return a value that later changes in place do not reach; the same one where nothing can change."""
    return copy.deepcopy(value) if may_change(value) else value


def normal_keys(keys: list[Any]) -> list[NormalKey]:
    """Return the normal keys of a batch; keys that are all str or int stand for themselves."""
    if set(map(type, keys)) in _PLAIN_KEYS:
        return keys
    return list(map(normal_key, keys))


class KeyedOperator(Operator):
    """An operator with a keyed store and the key selector of its input."""

    def __init__(self, key_selector: Any) -> None:
        super().__init__()
        self.select: Callable[[Any], Any] = getattr(key_selector, "get_key", key_selector)
        self.store: KeyedStore

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.store = context.keyed_store()

    def begin_epoch(self, epoch: EpochContext) -> None:
        self.store.catch_up(epoch.restore.lineage)

    def snapshot(self, epoch: EpochContext, *, finished: bool) -> OperatorAck:
        return OperatorAck(keyed_state=self.context.save_keyed_state(self.store, epoch))

    def close(self) -> None:
        self.store.close()

    def keys_of(self, records: list[Any]) -> list[Any]:
        """Return the keys of a batch, remembering the record in hand while the selector runs."""
        return list(map(self.select, self.iterate(records)))


def stamped(values: Sequence[Any], timestamps: Sequence[int] | None) -> Iterable[tuple[Any, int | None]]:
    """Pair values with their timestamps."""
    return zip(values, timestamps or [None] * len(values), strict=True)
