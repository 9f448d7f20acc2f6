"""The sort of partitions: all records of a subtask, or of each key, in the order of a field or of a key selector.

It is stable, and holds no more than its configured memory: see `external_sort`. Timestamps stay with their records.

Source of the rules: FLIP-380; Flink's ``SortPartitionOperator`` and ``KeyedSortPartitionOperator``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from penstock._engine.operators.base import NOTHING
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.operators.keyed import KeyedOperator
from penstock._engine.operators.sorting.external_sort import ExternalSorter
from penstock._engine.operators.sorting.sort_keys import VALUES, SortKeys, refuse_incomparable
from penstock._engine.operators.sorting.spilling import PartitionSorter
from penstock._engine.protocol.keys import NormalKey, encode_normal
from penstock.common.batch_options import SORT_KEYED_PARTITION_MEMORY, SORT_PARTITION_MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from penstock._engine.operators.base import EpochContext, Output
    from penstock.common.order import Order


class _Sorting(PartitionSorter):
    """Sorts the records that a subclass adds, and emits them at the end of the input."""

    sorter: ExternalSorter | None = None

    def __init__(self, field: Any, order: Order, *, nulls_first: bool) -> None:
        super().__init__()
        self.keys = SortKeys(field, order, nulls_first=nulls_first)

    def new_sorter(self, memory_bytes: int, directory: Path) -> ExternalSorter:
        return ExternalSorter(memory_bytes, directory, encode=self.encode, descending=self.keys.is_descending)

    def open_functions(self, epoch: EpochContext) -> None:
        if not isinstance(self.keys.field, (int, str)):
            self.open_function(self.keys.field, EngineRuntimeContext(self.context), epoch)
        super().open_functions(epoch)

    @abstractmethod
    def encode(self, key: Any) -> Any:
        """Return the place of a key of the sorter."""

    @abstractmethod
    def add(self, sorter: ExternalSorter, batch: RowBatch, keys: list[Any]) -> None:
        """Add records with the keys by which they are sorted."""

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        assert self.sorter is not None
        if batch.records:
            keys = self.keys.of(batch.records, self.iterate, self.context.operator_name)
            try:
                self.add(self.sorter, batch, keys)
            except TypeError as error:
                refuse_incomparable(
                    self.context.operator_name, [*self.sorter.some_ranks(), *self.keys.ranks(keys)], error
                )
                raise
        return NOTHING

    def in_order(self) -> Iterator[Output]:
        assert self.sorter is not None
        try:
            for part in self.sorter.parts():
                yield None, RowBatch(part.records, part.stamps)
        except TypeError as error:
            refuse_incomparable(self.context.operator_name, self.sorter.some_ranks(), error)
            raise


class SortPartitionOperator(_Sorting):
    """Sorts all records of the subtask."""

    memory = SORT_PARTITION_MEMORY

    def encode(self, key: int) -> int:
        return key

    def add(self, sorter: ExternalSorter, batch: RowBatch, keys: list[Any]) -> None:
        for group, places in self.keys.split(keys):
            if places is None:
                sorter.add_all(group, batch.records, batch.timestamps, self.keys.ranks(keys))
                continue
            records = [batch.records[at] for at in places]
            stamps = None if batch.timestamps is None else [batch.timestamps[at] for at in places]
            ranks = self.keys.ranks([keys[at] for at in places]) if group == VALUES else [0] * len(places)
            sorter.add_all(group, records, stamps, ranks)


class KeyedSortPartitionOperator(_Sorting, KeyedOperator):
    """Sorts the records of each key; the records of a key follow one another."""

    memory = SORT_KEYED_PARTITION_MEMORY

    def __init__(self, field: Any, order: Order, key_selector: Any, *, nulls_first: bool) -> None:
        KeyedOperator.__init__(self, key_selector)
        self.keys = SortKeys(field, order, nulls_first=nulls_first)

    def encode(self, key: tuple[NormalKey, int]) -> tuple[bytes, int]:
        return encode_normal(key[0]), key[1]

    def add(self, sorter: ExternalSorter, batch: RowBatch, keys: list[Any]) -> None:
        _, normals = self.keys_of(batch.records)
        groups, ranks = [VALUES] * len(keys), list(self.keys.ranks(keys))
        for group, places in self.keys.split(keys):
            if group != VALUES:
                for at in range(len(keys)) if places is None else places:
                    groups[at], ranks[at] = group, 0
        sorter.add(list(zip(normals, groups, strict=True)), batch.records, batch.timestamps, 0, ranks)
