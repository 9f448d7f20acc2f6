"""The rolling reduce of a keyed stream: each record is folded into its key's value, and the new value goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._engine.operators.batch import Batch
from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.operators.keyed import KeyedOperator
from penstock._engine.state.table import ABSENT, Pane
from penstock.common.copies import IMMUTABLE, may_change, own

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.operators.base import EpochContext, OperatorContext, Output


class ReduceOperator(KeyedOperator):
    """One value per key; emits it after each record, as STREAMING does in Flink."""

    def __init__(self, function: Any, key_selector: Any) -> None:
        super().__init__(key_selector)
        self.function = function
        self.call = getattr(function, "reduce", function)
        self.pane: Pane

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.pane = self.store.table("reduce", kind="value").pane()

    def open_functions(self, epoch: EpochContext) -> None:
        self.open_function(self.function, EngineRuntimeContext(self.context), epoch)

    def process(self, batch: Batch, input_index: int) -> Iterable[Output]:
        _, keys = self.keys_of(batch.records)
        reduced = self._reduce(batch.records, keys)
        self.pane.dirty.update(keys)
        return ((None, Batch(reduced, batch.timestamps, batch.watermarks)),)

    def _reduce(self, records: list[Any], keys: list[Any]) -> list[Any]:
        hot, load, call = self.pane.hot, self.pane.load, self.call
        reduced: list[Any] = []
        append = reduced.append
        for key, value in zip(keys, self.iterate(records), strict=True):
            try:
                before = hot[key]
            except KeyError:
                before = load(key)
            after = value if before is ABSENT else call(before, value)
            if type(after) in IMMUTABLE or not may_change(after):
                hot[key] = after
                append(after)
            else:
                self._keep_apart(key, after, reduced)
        return reduced

    def _keep_apart(self, key: Any, after: Any, reduced: list[Any]) -> None:
        """Keep one copy of a value that may change, and put out another.

        A function may fold into its first argument, and return one object for all keys. The state is apart from what
        was put out in every case; objects that are reused are the function's.
        """
        self.pane.hot[key] = own(after)
        reduced.append(after if self.object_reuse else own(after))
