"""The base of keyed operators: the keyed state, and the keys of a batch."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.operators.user_functions import UserFunctionOperator
from penstock._engine.protocol.control import OperatorAck
from penstock._engine.protocol.keys import NormalKey, encode_key, normal_key
from penstock._engine.protocol.rows import NO_TIMESTAMP
from penstock._engine.state.key_kinds import KeyKinds
from penstock.common.copies import any_may_change, copy_if_mutable
from penstock.common.user_values import short_repr
from penstock.errors import MissingTimestampError, UnstableKeyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.operators.base import EpochContext, OperatorContext
    from penstock._engine.state.keyed_state import KeyedState

_log = logging.getLogger(__name__)

_OTHER_KEYS: Final = (
    "The restored state has keys like %s, and this run begins with keys of another kind, like %s: they find none. "
    "Where the key selector has changed by mistake, start again from the checkpoint with the former one."
)
_QUICK: Final = frozenset({str, int})
_PLAIN_KEYS: Final = ({str}, {int}, {str, int})


def refuse_unstable_key(select: Callable[[Any], Any], record: Any, operator: str) -> None:
    """Ask for the key of a record twice.

    Args:
        select: Returns the key of a record.
        record: The record, the first one of a batch: to ask twice for each would take too long.
        operator: The name of the operator that gets the records.

    Raises:
        UnstableKeyError: The keys are not equal.
    """
    first = copy_if_mutable(select(record))
    again = select(record)
    if type(first) is type(again) in _QUICK and first == again:
        return
    if encode_key(first) != encode_key(again):
        raise UnstableKeyError(operator, short_repr(record), (short_repr(first), short_repr(again)))


class KeyedOperator(UserFunctionOperator):
    """An operator with keyed state and the key selector of each of its inputs."""

    def __init__(self, *key_selectors: Any) -> None:
        super().__init__()
        self.key_selectors = key_selectors
        #: By input.
        self.selects: list[Callable[[Any], Any]] = [getattr(select, "get_key", select) for select in key_selectors]
        self.store: KeyedState
        self._key_kinds: KeyKinds | None = None

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.store = context.keyed_state()
        for selector in {id(selector): selector for selector in self.key_selectors}.values():
            self.functions.open(selector, EngineRuntimeContext(context, counts=False))

    def missing_timestamp(self, records: list[Any], stamps: list[int]) -> MissingTimestampError:
        """Return the error for records of which at least one has no timestamp; that one is in hand then."""
        record = records[stamps.index(NO_TIMESTAMP)]
        next(self.iterate([record]))
        return MissingTimestampError(self.context.operator_name, short_repr(record))

    def begin_epoch(self, epoch: EpochContext) -> None:
        self.store.catch_up(epoch.restore.lineage)
        if self._key_kinds is None:
            self._key_kinds = KeyKinds(self.store)
        super().begin_epoch(epoch)

    def free_memory(self) -> None:
        self.store.free_memory()

    def snapshot(self, epoch: EpochContext, *, finished: bool) -> OperatorAck:
        operator_state = self.save_operator_state(epoch)
        differing = self._key_kinds and self._key_kinds.differing()
        if differing:
            _log.warning(_OTHER_KEYS, *map(short_repr, differing))
        return OperatorAck(keyed_state=self.context.save_keyed_state(self.store, epoch), operator_state=operator_state)

    def keys_of(self, records: list[Any], input_index: int = 0) -> tuple[list[Any], list[NormalKey]]:
        """Return the keys of records and their normal keys; one list twice where each key is its own normal key."""
        select = self.selects[input_index]
        keys = [select(record) for record in self.iterate(records)]  # not map(): it takes a StopIteration for the end
        if set(map(type, keys)) in _PLAIN_KEYS:
            return keys, keys
        if any_may_change(keys):  # a key may be a part of its record, or one object for all of them
            keys = [copy_if_mutable(select(record)) for record in self.iterate(records)]
        normals = [normal_key(key) for key, _ in zip(keys, self.iterate(records), strict=True)]
        return keys, normals
