"""The rolling reduce of a keyed stream: each record is reduced into its key's value, and the new value is emitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock._api.functions.basic import Function
from penstock._api.functions.wrapping import unwrapped
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.operators.keyed import KeyedOperator
from penstock._engine.operators.loops import Loops
from penstock._engine.state.key_context import KeyContext
from penstock.common.copies import copy_if_mutable
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._engine.operators.base import EpochContext, OperatorContext, Output
    from penstock._engine.state.table import Pane, Table


#: The state that holds the value of each key.
_VALUES: Final = "reduce"


def may_have_state(function: Any) -> bool:
    """Tell whether a function has an ``open`` of its own, which may get keyed state.

    Args:
        function: The function, which may be wrapped by one that holds a declared type.
    """
    function = unwrapped(function)
    return isinstance(function, Function) and type(function).open is not Function.open


class ReduceOperator(KeyedOperator):
    """Keeps one value per key, and emits it after each record, as Flink's STREAMING mode does."""

    def __init__(self, function: Any, key_selector: Any) -> None:
        super().__init__(key_selector)
        self.function = function
        self.call = getattr(function, "reduce", function)
        self.key = KeyContext()
        self.sets_key = may_have_state(function)
        self._loops = Loops()
        self.pane: Pane

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.pane = self.store.table(_VALUES, kind="value", keep_keys=True).pane()

    def open_functions(self, epoch: EpochContext) -> None:
        self.open_function(self.function, _ReduceContext(self.context, store=self.store, key=self.key), epoch)

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        keys, normals = self.keys_of(batch.records)
        state = self.pane.hot, self.pane.load
        records: Iterable[Any] = self.iterate(batch.records)
        if self.sets_key:
            records = self._each_with_key(records, keys, normals)
        reduced, shape = self._loops.reduce(self.call, records, normals, state, self._store_copy)
        if self.sets_key:
            self.key.leave()
        self.pane.dirty.update(normals)
        if normals is not keys:
            for normal, key in zip(normals, keys, strict=True):
                self.pane.remember(normal, key)
        return ((None, RowBatch(reduced, batch.timestamps, batch.watermarks, shape)),)

    def _each_with_key(self, records: Iterable[Any], keys: list[Any], normals: list[Any]) -> Iterator[Any]:
        """Yield records; while one is in hand, the current key is its own."""
        for record, key, normal in zip(records, keys, normals, strict=True):
            self.key.key, self.key.normal = key, normal
            yield record

    def _store_copy(self, key: Any, after: Any) -> Any:
        """Keep one copy of a value that may change, and return another.

        A function may change its first argument, and return one object for all keys. So the state is always a separate
        copy; with object reuse, the returned object itself is emitted.
        """
        self.pane.hot[key] = copy_if_mutable(after)
        return after if self.object_reuse else copy_if_mutable(after)


class _ReduceContext(EngineRuntimeContext):
    """Leaves the state of the operator itself to it."""

    def _table(self, name: str, kind: str) -> Table:
        if name == _VALUES:
            operation = f"A state named {name!r} of a ReduceFunction"
            raise UnsupportedOperationError(
                operation, "the operator keeps its results by that name; choose another one"
            )
        return super()._table(name, kind)
