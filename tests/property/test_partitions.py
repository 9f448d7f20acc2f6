"""Full window partitions beside plain Python: sorted(), functools.reduce and loops, on random records and orders."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._engine.operators.partitions.column_sort import ColumnSorter
from penstock._engine.operators.partitions.partitions import MapPartitionOperator, ReducePartitionOperator
from penstock._engine.operators.partitions.sort_partition import KeyedSortPartitionOperator, SortPartitionOperator
from penstock._engine.operators.sorting.external_sort import ExternalSorter
from penstock.common import Order
from penstock.testing import OperatorHarness

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NAN = float("nan")
NUMBERS = st.integers(-5, 5) | st.floats(-2, 2)
VALUES = st.one_of(NUMBERS, st.none(), st.just(NAN))
ORDERS = st.sampled_from(Order)
PARTS = st.lists(st.lists(st.tuples(VALUES, st.integers(0, 3)), max_size=20), max_size=12)


def place(key: Any, nulls_first: bool) -> int:
    found = 2 if key is None else 1 if key != key else 0  # noqa: PLR0124 - only NaN differs from itself
    return -found if nulls_first else found


def expected(records: list[Any], order: Order, nulls_first: bool) -> list[Any]:
    """Return records sorted by their first field, as the documentation says."""
    plain = [record for record in records if not place(record[0], nulls_first)]
    plain.sort(key=itemgetter(0), reverse=order is Order.DESCENDING)
    nulls = {at: [record for record in records if place(record[0], nulls_first) == at] for at in (-2, -1, 1, 2)}
    return [*nulls[-2], *nulls[-1], *plain, *nulls[1], *nulls[2]]


def numbered(parts: list[list[Any]]) -> list[list[Any]]:
    """Return records with their position, so that the order of equal ones shows."""
    position = iter(range(1 << 20))
    return [[(*record, next(position)) for record in part] for part in parts]


def run(operator: Any, parts: list[list[Any]]) -> list[Any]:
    with OperatorHarness(operator) as harness:
        for part in parts:
            harness.process_elements(part)
        harness.end_input()
        return harness.values()


def small(monkeypatch: pytest.MonkeyPatch, memory: int) -> None:
    """Let sorts have little memory and few runs."""
    made = ExternalSorter.__init__

    def init(sorter: ExternalSorter, _: int, directory: Path, *, encode: Any, descending: bool) -> None:
        made(sorter, memory, directory, 3, encode=encode, descending=descending)

    monkeypatch.setattr(ExternalSorter, "__init__", init)


@given(parts=PARTS, order=ORDERS, nulls_first=st.booleans(), memory=st.sampled_from([1, 4_000, 1 << 30]))
@settings(max_examples=60, deadline=None)
def test_sort_partition_is_sorted(parts: Any, order: Order, nulls_first: bool, memory: int) -> None:
    import pytest

    parts = numbered(parts)
    records = sum(parts, [])  # noqa: RUF017 - few
    with pytest.MonkeyPatch.context() as patch:
        small(patch, memory)
        found = run(SortPartitionOperator(0, order, nulls_first=nulls_first), parts)
        assert list(map(str, found)) == list(map(str, expected(records, order, nulls_first)))
        by_tuple = run(SortPartitionOperator(lambda r: (r[0],), order, nulls_first=nulls_first), parts)
        assert list(map(str, by_tuple)) == list(map(str, found))
        keyed = run(KeyedSortPartitionOperator(0, order, itemgetter(1), nulls_first=nulls_first), parts)
    for key in range(4):
        of_key = [record for record in records if record[1] == key]
        assert list(map(str, (r for r in keyed if r[1] == key))) == list(map(str, expected(of_key, order, nulls_first)))
    keys = [record[1] for record in keyed]
    assert sum(one != after for one, after in pairwise(keys)) == max(0, len(set(keys)) - 1)


@given(parts=PARTS, order=ORDERS, nulls_first=st.booleans(), memory=st.sampled_from([1, 3_000, 1 << 30]))
@settings(max_examples=60, deadline=None)
def test_sorted_columns_are_sorted_rows(
    tmp_path_factory: pytest.TempPathFactory, parts: Any, order: Order, nulls_first: bool, memory: int
) -> None:
    parts = [part for part in numbered(parts) if part]
    sorter = ColumnSorter(
        [("k", order)], memory, tmp_path_factory.mktemp("sorts"), nulls_first=nulls_first, most_runs=3
    )
    floats: list[Any] = []
    for part in parts:
        records = [(None if key is None else float(key), group, at) for key, group, at in part]
        floats += records
        columns = [pa.array(column, kind) for column, kind in zip(zip(*records, strict=True), KINDS, strict=True)]
        sorter.add(pa.record_batch(columns, ["k", "group", "at"]))
    found = [tuple(row.values()) for batch in sorter.batches() for row in batch.to_pylist()]
    sorter.close()
    assert list(map(str, found)) == list(map(str, expected(floats, order, nulls_first)))


KINDS = (pa.float64(), pa.int64(), pa.int64())


@given(
    rows=st.lists(st.lists(st.tuples(st.integers(-3, 3), st.text("ab", max_size=2)), max_size=300), max_size=8),
    orders=st.tuples(ORDERS, ORDERS),
    only_numbers=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_columns_sort_by_several_of_them_and_equal_rows_keep_their_order(
    tmp_path_factory: pytest.TempPathFactory, rows: Any, orders: tuple[Order, Order], only_numbers: bool
) -> None:
    parts = [part for part in numbered(rows) if part]
    by = [("n", orders[0]), ("t", orders[1])][: 1 if only_numbers else 2]
    sorter = ColumnSorter(by, 2_000, tmp_path_factory.mktemp("sorts"), nulls_first=False, most_runs=3)
    for part in parts:
        sorter.add(pa.table(dict(zip("nta", map(list, zip(*part, strict=True)), strict=True))).to_batches()[0])
    found = [tuple(row.values()) for batch in sorter.batches() for row in batch.to_pylist()]
    sorter.close()
    records = sum(parts, [])  # noqa: RUF017
    for at, (_, order) in reversed(list(enumerate(by))):
        records = sorted(records, key=itemgetter(at), reverse=order is Order.DESCENDING)
    assert found == records


@given(parts=st.lists(st.lists(st.text("abc", max_size=2), max_size=6), max_size=6))
@settings(max_examples=40, deadline=None)
def test_reduce_and_map_partition_are_a_fold_and_a_loop(parts: list[list[str]]) -> None:
    records = [record for part in parts for record in part]
    reduced = run(ReducePartitionOperator(lambda a, b: f"({a}{b})"), parts)
    assert reduced == ([reduce(lambda a, b: f"({a}{b})", records)] if records else [])
    mapped = run(MapPartitionOperator(lambda values: ((at, value) for at, value in enumerate(values))), parts)
    assert mapped == list(enumerate(records))
