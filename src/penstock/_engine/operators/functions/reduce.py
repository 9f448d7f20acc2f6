"""The rolling reduce of a keyed stream: each record is reduced into its key's value, and the new value is emitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.operators.keyed import KeyedOperator
from penstock._engine.operators.loops import Loops
from penstock.common.copies import copy_if_mutable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.operators.base import EpochContext, OperatorContext, Output
    from penstock._engine.state.table import Pane


class ReduceOperator(KeyedOperator):
    """Keeps one value per key, and emits it after each record, as Flink's STREAMING mode does."""

    def __init__(self, function: Any, key_selector: Any) -> None:
        super().__init__(key_selector)
        self.function = function
        self.call = getattr(function, "reduce", function)
        self._loops = Loops()
        self.pane: Pane

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.pane = self.store.table("reduce", kind="value", keep_keys=True).pane()

    def open_functions(self, epoch: EpochContext) -> None:
        self.open_function(self.function, EngineRuntimeContext(self.context), epoch)

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        keys, normals = self.keys_of(batch.records)
        state = self.pane.hot, self.pane.load
        reduced, shape = self._loops.reduce(self.call, self.iterate(batch.records), normals, state, self._keep_apart)
        self.pane.dirty.update(normals)
        if normals is not keys:
            for normal, key in zip(normals, keys, strict=True):
                self.pane.remember(normal, key)
        return ((None, RowBatch(reduced, batch.timestamps, batch.watermarks, shape)),)

    def _keep_apart(self, key: Any, after: Any) -> Any:
        """Keep one copy of a value that may change, and return another.

        A function may change its first argument, and return one object for all keys. So the state is always a separate
        copy; with object reuse, the returned object itself is emitted.
        """
        self.pane.hot[key] = copy_if_mutable(after)
        return after if self.object_reuse else copy_if_mutable(after)
