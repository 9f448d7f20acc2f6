"""Operators of two connected streams: as for one stream, with one method of the function for each input.

Both inputs see the watermark of the subtask, the smaller one of the two inputs' watermarks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.functions.process import KeyedProcessOperator, ProcessOperator
from penstock._engine.operators.functions.stateless import FlatMapOperator, FunctionOperator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.operators.base import Output


class CoMapOperator(FunctionOperator):
    """Emits one record for each record, or none where the function returns None."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "map1")
        self.calls = function.map1, function.map2

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        call, cursor = self.calls[input_index], self.iterate(batch.records)
        results, shape = self.loops.map(call, cursor, copies=not self.object_reuse)
        kept = [result is not None for result in results]
        if all(kept):
            return ((None, RowBatch(results, batch.timestamps, batch.watermarks, shape)),)
        return ((None, batch.keeping(kept, results)),)


class CoFlatMapOperator(FlatMapOperator):
    """Emits any number of records for each record; None means none."""

    def __init__(self, function: Any) -> None:
        FunctionOperator.__init__(self, function, "flat_map1")
        self.calls = function.flat_map1, function.flat_map2

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        self.call = self.calls[input_index]
        return super().process(batch, input_index)


class CoProcessOperator(ProcessOperator):
    """A CoProcessFunction on streams that do not both have a key."""

    methods: ClassVar = ("process_element1", "process_element2")


class KeyedCoProcessOperator(KeyedProcessOperator):
    """A KeyedCoProcessFunction: keyed state and timers that both inputs share."""

    methods: ClassVar = ("process_element1", "process_element2")

    def __init__(self, function: Any, key_selector1: Any, key_selector2: Any) -> None:
        super().__init__(function, key_selector1, key_selector2)
