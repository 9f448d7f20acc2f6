"""Combines records before the shuffle of a reduce in batch mode: a sender sends one partial result for many records.

Partial results travel with the key of their records, because the key of a partial result may be another one. Records
with timestamps are not combined: timestamps order the records of a key over all senders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock._engine.operators.base import NOTHING
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.operators.keyed import KeyedOperator
from penstock._engine.operators.loops import Loops
from penstock._engine.state.table import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._engine.operators.base import EpochContext, Output

#: The number of partial results that a sender holds.
_MOST_KEYS: Final = 1 << 16


class CombineOperator(KeyedOperator):
    """Folds the records of a subtask by key, in their order, into pairs of key and partial result."""

    def __init__(self, function: Any, key_selector: Any) -> None:
        super().__init__(key_selector)
        self.function = function
        self.call = getattr(function, "reduce", function)
        self._loops = Loops()
        #: The partial results, and those keys that are not their own normal key, by normal key.
        self._partials: dict[Any, Any] = {}
        self._keys: dict[Any, Any] = {}

    def open_functions(self, epoch: EpochContext) -> None:
        self.open_function(self.function, EngineRuntimeContext(self.context), epoch)

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        if not batch.records:
            return ((None, batch),)
        keys, normals = self.keys_of(batch.records)
        if batch.timestamps is not None:
            return self._passed_on(keys, batch)
        state = self._partials, _absent
        self._loops.fold(self.call, self.iterate(batch.records), normals, state)
        if keys is not normals:
            self._keys.update(zip(normals, keys, strict=True))
        return self._taken() if len(self._partials) >= _MOST_KEYS else NOTHING

    def _passed_on(self, keys: list[Any], batch: RowBatch) -> Iterator[Output]:
        yield from self._taken()
        yield None, RowBatch(list(zip(keys, batch.records, strict=True)), batch.timestamps, batch.watermarks)

    def _taken(self) -> Iterator[Output]:
        """Yield the partial results so far."""
        partials, self._partials = self._partials, {}
        keys, self._keys = self._keys, {}
        if partials:
            yield None, RowBatch([(keys.get(normal, normal), partial) for normal, partial in partials.items()])

    def prepare_snapshot(self) -> Iterable[Output]:
        return self._taken()

    def end_input(self, input_index: int) -> Iterable[Output]:
        yield from self._taken()
        yield from super().end_input(input_index)

    def finish(self) -> Iterable[Output]:
        yield from self._taken()
        yield from super().finish()


def _absent(key: Any) -> Any:
    del key
    return ABSENT
