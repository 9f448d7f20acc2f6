"""Keyed operators in batch mode: their input is sorted by key, and one key at a time has state.

The operator itself is that of streaming mode. At the end of its input it gets the records of one key after the other.
After the last record of a key the watermark passes all times, so that the key's timers fire and its windows close; then
its state is dropped. No operator downstream sees a watermark before the end.

Source of the rules: Flink's ``BatchExecutionInternalTimeService`` and ``MultiInputSortingDataInput``. Unlike Flink's,
an event-time timer that is set while the timers of a key fire does fire, as it does at the end of a stream: a program
gives the same results in both modes.
"""

from __future__ import annotations

import logging
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.operators.base import NOTHING, Operator
from penstock._engine.operators.batch import BatchBuilder, RowBatch, watermark_only
from penstock._engine.operators.first_error import FirstError
from penstock._engine.operators.sorting.external_sort import PART_RECORDS, ExternalSorter
from penstock._engine.operators.sorting.spilling import sort_directory
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock.common.batch_options import SORTED_INPUTS_MEMORY
from penstock.common.configuration import Configuration
from penstock.common.copies import copy_if_mutable
from penstock.common.redaction import hiding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._engine.operators.base import EpochContext, OperatorContext, Output
    from penstock._engine.operators.functions.reduce import ReduceOperator
    from penstock._engine.operators.keyed import KeyedOperator
    from penstock._engine.operators.sorting.external_sort import Part

_log = hiding(logging.getLogger(__name__))

_BY_KEY: Final = attrgetter("key")


class SortedInputOperator(Operator):
    """Passes its records to a keyed operator key by key, at the end of the input.

    Args:
        operator: The operator.
        broadcast_input: The input whose records are passed on unsorted; None without one.
    """

    def __init__(self, operator: KeyedOperator, broadcast_input: int | None = None) -> None:
        super().__init__()
        self.operator = operator
        self.parts_tagged = operator.parts_tagged
        self._broadcast_input = broadcast_input
        self._sorter: ExternalSorter | None = None
        self._ended: list[int] = []
        self._has_warned = False

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        memory_bytes = Configuration.from_dict(context.configuration).get(SORTED_INPUTS_MEMORY)
        self._sorter = ExternalSorter(memory_bytes, sort_directory(context))
        self.operator.open(context)

    def begin_epoch(self, epoch: EpochContext) -> None:
        self.operator.begin_epoch(epoch)

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        if input_index == self._broadcast_input:
            return _without_watermarks(self.operator.process(RowBatch(batch.records, batch.timestamps), input_index))
        if batch.records:
            self._sort(batch, input_index)
        return NOTHING

    def _sort(self, batch: RowBatch, input_index: int) -> None:
        _, normals = self.operator.keys_of(batch.records, input_index)
        self.sorter.add(normals, batch.records, batch.timestamps, input_index)

    @property
    def sorter(self) -> ExternalSorter:
        """The records so far."""
        assert self._sorter is not None
        return self._sorter

    def end_input(self, input_index: int) -> Iterable[Output]:
        """Note the end of an input; the operator's `end_input` follows after its records."""
        self._ended.append(input_index)
        return NOTHING

    def finish(self) -> Iterator[Output]:
        """Process all keys, and then the end of the input."""
        merged = _MergedOutput()
        for _, parts in groupby(FirstError(self.sorter.parts()), key=_BY_KEY):
            for outputs in self.of_key(parts):
                merged.add(outputs)
                if merged.count >= PART_RECORDS:
                    yield from merged.take()
        yield from merged.take()
        yield from self.operator.process(watermark_only(MAX_WATERMARK), 0)
        for input_index in self._ended:
            yield from self.operator.end_input(input_index)
        yield from self.operator.finish()

    def of_key(self, parts: Iterator[Part]) -> Iterator[Iterable[Output]]:
        """Yield the outputs of a key: of its records, and of the end of all times."""
        operator = self.operator
        for part in parts:
            yield operator.process(RowBatch(part.records, part.stamps), part.input_index)
        yield operator.process(watermark_only(MAX_WATERMARK), 0)
        yield operator.fire_left_timers()
        if operator.next_timer_ms() is not None:
            self._warn_of_timers()
        operator.store.clear()
        yield operator.process(watermark_only(MIN_WATERMARK), 0)

    def _warn_of_timers(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            text = (
                "%s (%d): processing-time timers that are set while the timers of a key fire are ignored in batch mode"
            )
            _log.warning(text, self.context.operator_name, self.context.subtask)

    def close(self) -> None:
        try:
            self.operator.close()
        finally:
            if self._sorter is not None:
                self._sorter.close()

    def iterate(self, records: list[Any]) -> Any:
        return self.operator.iterate(records)

    def current_record(self) -> tuple[bool, Any]:
        return self.operator.current_record()


class SortedReduceOperator(SortedInputOperator):
    """The reduce of a keyed stream in batch mode: one result for each key, at its end, with the last timestamp.

    Source: Flink's ``BatchGroupedReduceOperator``.

    Args:
        operator: The reduce of streaming mode.
        takes_pairs: Whether its records are pairs of key and record, from `combine.CombineOperator`.
    """

    operator: ReduceOperator

    def __init__(self, operator: ReduceOperator, *, takes_pairs: bool = False) -> None:
        super().__init__(operator)
        self._takes_pairs = takes_pairs

    def _sort(self, batch: RowBatch, input_index: int) -> None:
        _, normals = self.operator.keys_of(batch.records, input_index)
        records = list(map(itemgetter(1), batch.records)) if self._takes_pairs else batch.records
        self.sorter.add(normals, records, batch.timestamps, input_index)

    def of_key(self, parts: Iterator[Part]) -> Iterator[Iterable[Output]]:
        operator, result = self.operator, None
        call, is_first = getattr(operator.function, "reduce", operator.function), True
        for part in parts:
            operator.key.key = operator.key.normal = part.key
            for record in operator.iterate(part.records):
                result, is_first = (record, False) if is_first else (call(result, record), False)
        operator.key.leave()
        if operator.sets_key:
            operator.store.clear()
        yield ((None, RowBatch([result if self.object_reuse else copy_if_mutable(result)], [MAX_WATERMARK])),)


class _MergedOutput:
    """Puts the outputs of many keys together, without their watermarks."""

    def __init__(self) -> None:
        self._parts: dict[str | None, BatchBuilder] = {}
        self.count = 0

    def add(self, outputs: Iterable[Output]) -> None:
        for tag, batch in outputs:
            rows = batch.rows()
            if rows.records:
                part = self._parts.setdefault(tag, BatchBuilder())
                part.records += rows.records
                part.timestamps += rows.stamps()
                self.count += len(rows)

    def take(self) -> Iterator[Output]:
        parts, self._parts, self.count = self._parts, {}, 0
        for tag, part in parts.items():
            yield tag, part.build()


def _without_watermarks(outputs: Iterable[Output]) -> Iterator[Output]:
    for tag, batch in outputs:
        batch.watermarks = ()
        yield tag, batch
