"""Operators of whole partitions: all records of a subtask, from the first one to the end of its input.

`MapPartitionOperator` reads its input itself, so its function starts at the first record and gets the next one when it
asks for it: there is neither a second thread nor a queue. The others fold each batch as it comes.

Source of the rules: FLIP-380; Flink's ``MapPartitionOperator``, ``PartitionReduceOperator`` and
``PartitionAggregateOperator``.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import reduce
from itertools import chain, islice
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._api.functions.wrong_results import refuse_no_records
from penstock._engine.operators.base import NOTHING, ReadingOperator
from penstock._engine.operators.batch import RowBatch, watermark_only
from penstock._engine.operators.columnar.map_batches import MapBatchesOperator
from penstock._engine.operators.columnar.record_columns import column_batches
from penstock._engine.operators.columns import ColumnBatch
from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.operators.functions.stateless import FunctionOperator
from penstock._engine.operators.keyed import KeyedOperator
from penstock._engine.operators.loops import Loops
from penstock._engine.operators.sorting.sorted_input import SortedInputOperator
from penstock._engine.protocol.rows import MAX_WATERMARK
from penstock._engine.state.files import pickles
from penstock._engine.state.table import ABSENT
from penstock.common.copies import copy_if_mutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock._engine.operators.base import EpochContext, OperatorContext, Output
    from penstock._engine.operators.batch import Batch
    from penstock._engine.operators.sorting.external_sort import Part
    from penstock.common.typeinfo import TypeInformation

#: Results that are passed on together: at most so many, and about so many bytes.
_RESULTS: Final = 2048
_RESULT_BYTES: Final = 1 << 20
#: The results of the first batch, whose size tells how many the next one may have.
_FIRST_RESULTS: Final = 16


class ResultBatches:
    """What functions of partitions have made, on its way to the next operator."""

    def __init__(self) -> None:
        self._loops = Loops()
        self._count = _FIRST_RESULTS
        self._running: Any = None

    def batches(self, function: Any, results: Iterable[Any] | None, *, copies: bool) -> Iterator[Output]:
        """Yield results in batches; a function that yields runs meanwhile.

        Args:
            function: The function.
            results: What it has returned.
            copies: Whether results that may change are copied.
        """
        if results is None:
            return
        refuse_no_records(function, results)
        self._running = results
        rest = iter(results)
        while True:
            records, shape = self._loops.map(_itself, islice(rest, self._count), copies=copies)
            if not records:
                break
            self._count = _results_together(records[-1])
            yield None, RowBatch(records, shape=shape)
        self._running = None

    def close(self) -> None:
        """End a function that has yielded and was not asked for the rest."""
        running, self._running = self._running, None
        if isinstance(running, GeneratorType):
            cast("GeneratorType[Any, Any, Any]", running).close()


class MapPartitionOperator(FunctionOperator, ReadingOperator):
    """Calls a function once, with an iterator over all records of the subtask."""

    yields = True
    takes_columns = True

    def __init__(self, function: Any) -> None:
        super().__init__(function, "map_partition")
        self._results = ResultBatches()

    def read_all(self, batches: Iterator[Batch]) -> Iterator[Output]:
        values = chain.from_iterable(self.iterate(rows.records) for batch in batches for rows in _rows_of(batch))
        yield from self._results.batches(self.function, self.call(values), copies=not self.object_reuse)
        for _ in batches:  # what the function has left unread
            pass

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        return ((None, batch),)

    def close(self) -> None:
        try:
            self._results.close()
        finally:
            super().close()


class MapPartitionBatchesOperator(MapBatchesOperator, ReadingOperator):
    """Calls a function once, with an iterator over all batches of columns of the subtask."""

    method = "map_partition"
    yields = True

    def read_all(self, batches: Iterator[Batch]) -> Iterator[Output]:
        yield from self.mapped(columns for batch in batches if len(batch) for columns in self._frames_of(batch))
        for _ in batches:
            pass

    def _frames_of(self, batch: Batch) -> Iterator[Any]:
        batches = (batch,) if isinstance(batch, ColumnBatch) else column_batches(batch.rows(), self.given)
        return (self.frames.given(each.columns) for each in batches)

    def mapped(self, frames: Iterator[Any]) -> Iterator[Output]:
        """Yield what the function makes of the batches of a partition."""
        result = self.call(frames)
        try:
            for columns in map(self.held, self.frames.taken(result)):
                yield None, ColumnBatch(columns, self.layout)
        finally:
            if isinstance(result, GeneratorType):
                cast("GeneratorType[Any, Any, Any]", result).close()

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        return ((None, batch),)


class _FoldOperator(FunctionOperator):
    """Folds all records of the subtask into one result, which it emits at the end of the input."""

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        if batch.records:
            self.fold(self.iterate(batch.records))
        return NOTHING

    @abstractmethod
    def fold(self, records: Iterable[Any]) -> None:
        """Fold some more records."""

    @abstractmethod
    def results(self) -> list[Any]:
        """Return the result of all records, if there is one."""

    def end_input(self, input_index: int) -> Iterator[Output]:
        self.iterate([])
        yield None, RowBatch([copy_if_mutable(result) for result in self.results()])
        yield None, watermark_only(MAX_WATERMARK)
        yield from super().end_input(input_index)


class ReducePartitionOperator(_FoldOperator):
    """Reduces the records of the subtask in their order; there is no result of no record."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "reduce")
        self._result: Any = ABSENT

    def fold(self, records: Iterable[Any]) -> None:
        held = () if self._result is ABSENT else (self._result,)
        self._result = reduce(self.call, chain(held, records))

    def results(self) -> list[Any]:
        return [] if self._result is ABSENT else [self._result]


class AggregatePartitionOperator(_FoldOperator):
    """Adds the records of the subtask to one accumulator; one without records emits the result of an empty one."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "add")
        self._accumulator: Any = ABSENT

    def fold(self, records: Iterable[Any]) -> None:
        add, held = self.call, self._held()
        for record in records:
            held = add(record, held)
        self._accumulator = held

    def _held(self) -> Any:
        return self.function.create_accumulator() if self._accumulator is ABSENT else self._accumulator

    def results(self) -> list[Any]:
        return [self.function.get_result(self._held())]


class KeyedFunctionOperator(KeyedOperator):
    """Opens the function of the partitions of keys, for `PartitionsOfKeysOperator`."""

    def __init__(self, function: Any, key_selector: Any, call: Callable[..., Any]) -> None:
        super().__init__(key_selector)
        self.function = function
        self.call = call

    def open_functions(self, epoch: EpochContext) -> None:
        self.open_function(self.function, EngineRuntimeContext(self.context), epoch, yields=True)

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        return ((None, batch),)


class PartitionsOfKeysOperator(SortedInputOperator):
    """Calls a function once for each key, with an iterator over its records."""

    operator: KeyedFunctionOperator

    def __init__(self, function: Any, key_selector: Any) -> None:
        super().__init__(KeyedFunctionOperator(function, key_selector, getattr(function, "map_partition", function)))
        self._results = ResultBatches()

    def of_key(self, parts: Iterator[Part]) -> Iterator[Iterable[Output]]:
        for output in self.of_partition(parts):
            yield (output,)
        for _ in parts:
            pass

    def of_partition(self, parts: Iterator[Part]) -> Iterator[Output]:
        """Yield the results of a key."""
        values = chain.from_iterable(self.iterate(part.records) for part in parts)
        return self._results.batches(self.operator.function, self.operator.call(values), copies=not self.object_reuse)

    def close(self) -> None:
        try:
            self._results.close()
        finally:
            super().close()


class BatchesOfKeysOperator(PartitionsOfKeysOperator):
    """Calls a function once for each key, with an iterator over batches of columns of its records."""

    def __init__(
        self,
        function: Any,
        key_selector: Any,
        batch_format: str,
        input_type: TypeInformation | None,
        output_type: TypeInformation | None,
    ) -> None:
        super().__init__(function, key_selector)
        self._mapping = MapPartitionBatchesOperator(function, batch_format, input_type, output_type)

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._mapping.context = context

    def of_partition(self, parts: Iterator[Part]) -> Iterator[Output]:
        mapping = self._mapping
        batches = (batch for part in parts for batch in column_batches(RowBatch(part.records), mapping.given))
        return mapping.mapped(mapping.frames.given(batch.columns) for batch in batches)


def _rows_of(batch: Batch) -> Iterator[RowBatch]:
    """Yield a batch as rows, in runs that stay in the processor's cache."""
    if isinstance(batch, ColumnBatch):
        for piece in batch.pieces():
            yield piece.rows()
    else:
        yield batch.rows()


def _results_together(record: Any) -> int:
    """Return how many results such as this one are passed on together."""
    return max(1, min(_RESULTS, _RESULT_BYTES // max(1, len(pickles.dump(record)))))


def _itself(record: Any) -> Any:
    return record
