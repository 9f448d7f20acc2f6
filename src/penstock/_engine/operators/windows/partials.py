"""Windows whose input is combined before the shuffle of a batch job: one accumulator of a sender for many records.

`CombineWindowOperator` runs in the senders. It folds the records of a key in a window, or in the slice that sliding
windows share, and sends accumulators with a timestamp of that window or slice. The operator that receives them is the
one of all other windows, with a function that merges where the program's one adds: `Accumulators` or `Partials`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.functions.basic import AggregateFunction
from penstock._api.functions.held import method_and_type
from penstock._api.functions.wrapping import WrappingFunction
from penstock._api.windows.time_windows import AlignedWindows
from penstock._engine.operators.functions.combine import CombineOperator, absent
from penstock._engine.operators.windows.slices import Slices
from penstock._engine.protocol.rows import MAX_WATERMARK, NO_TIMESTAMP
from penstock.common.copies import copy_if_mutable

if TYPE_CHECKING:
    from penstock._engine.operators.batch import RowBatch


class CombineWindowOperator(CombineOperator):
    """Folds the records of a subtask by key and window, in their order.

    Args:
        key_selector: The key selector of the stream.
        assigner: Assigns windows to a record.
        function: The function.
        aggregates: Whether it is an AggregateFunction; else it reduces.
    """

    def __init__(self, key_selector: Any, assigner: Any, function: Any, *, aggregates: bool) -> None:
        super().__init__(function, key_selector)
        self._aggregates = aggregates
        #: None where all records of a key are in one window.
        self._slices = Slices(assigner) if isinstance(assigner, AlignedWindows) else None
        #: Records after it are in windows that never end, and are dropped one by one.
        self._last = MAX_WATERMARK if self._slices is None else MAX_WATERMARK - assigner.size_ms

    def combines(self, batch: RowBatch) -> bool:
        if self._slices is not None and min(stamps := batch.stamps()) == NO_TIMESTAMP:
            raise self.missing_timestamp(batch.records, stamps)
        return batch.timestamps is None or (self._aggregates and max(batch.timestamps) <= self._last)

    def fold(self, batch: RowBatch, normals: list[Any]) -> None:
        if not self._aggregates:
            super().fold(batch, normals)
            return
        (add, held), create = method_and_type(self.function, "add"), self.function.create_accumulator
        for stamp, places in self._by_slice(batch).items():
            partials = self.partials.setdefault(stamp, {})
            whole = len(places) == len(normals)
            records = batch.records if whole else [batch.records[place] for place in places]
            keys = normals if whole else [normals[place] for place in places]
            self.loops.aggregate(add, self.iterate(records), keys, (partials, absent), create, held=held)

    def _by_slice(self, batch: RowBatch) -> dict[int, range | list[int]]:
        """Return the places of the records of each window or slice, by the timestamp that stands for it."""
        everything = range(len(batch.records))
        if self._slices is None:
            return {NO_TIMESTAMP: everything}
        of, stamps = self._slices.of, batch.stamps()
        _, end = of(min(stamps))
        if max(stamps) < end:
            return {end - 1: everything}
        found: dict[int, list[int]] = {}
        for place, stamp in enumerate(stamps):
            found.setdefault(of(stamp)[1] - 1, []).append(place)
        return {**found}

    def alone(self, record: Any) -> Any:
        return (
            self.function.add(record, copy_if_mutable(self.function.create_accumulator()))
            if self._aggregates
            else record
        )


class Partials(WrappingFunction[Any], AggregateFunction[Any, Any, Any]):
    """Makes one partial result of those that senders have made; what it keeps is a tuple of it, at first empty."""

    def create_accumulator(self) -> Any:
        return ()

    def add(self, value: Any, accumulator: Any) -> Any:
        return self.merge(accumulator, value[1:])

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (self._joined(*acc_a, *acc_b),) if acc_a else acc_b

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0]

    def _joined(self, one: Any, other: Any) -> Any:
        """Return the partial result of what two were made of."""
        return getattr(self.function, "reduce", self.function)(one, other)


class Accumulators(Partials):
    """The same for an AggregateFunction."""

    def get_result(self, accumulator: Any) -> Any:
        return self.function.get_result(accumulator[0])

    def _joined(self, one: Any, other: Any) -> Any:
        return self.function.merge(one, other)
