"""Full window partitions beside plain Python: sorted(), functools.reduce and loops, on random records and orders."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._engine.operators.sorting.spilling import SpillFiles
from penstock.common import Order
from penstock.testing import OperatorHarness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

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


@pytest.fixture(autouse=True, scope="module")
def _few_runs() -> Iterator[None]:
    """Let sorts merge what they have on the disk when it has three parts."""
    made = SpillFiles.__init__

    def init(files: SpillFiles, directory: Path, _: int) -> None:
        made(files, directory, 3)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SpillFiles, "__init__", init)
        yield


def run(program: Callable[[Any], Any], parts: list[Any], memory: int = 1 << 27) -> list[Any]:
    """Return what a piece of a program makes of lists of records, or of batches of columns."""
    keys = "execution.sort-partition.memory", "execution.sort-keyed-partition.memory"
    with OperatorHarness.for_stream(program, configuration=dict.fromkeys(keys, f"{memory} b")) as harness:
        for part in parts:
            (harness.process_batch if isinstance(part, pa.RecordBatch) else harness.process_elements)(part)
        harness.end_input()
        return harness.values()


def together(stream: Any) -> Any:
    return stream.full_window_partition()


def of_keys(stream: Any) -> Any:
    return stream.key_by(itemgetter(1)).full_window_partition()


@given(parts=PARTS, order=ORDERS, nulls_first=st.booleans(), memory=st.sampled_from([1, 4_000, 1 << 30]))
@settings(max_examples=60, deadline=None)
def test_sort_partition_is_sorted(parts: Any, order: Order, nulls_first: bool, memory: int) -> None:
    parts = numbered(parts)
    records = sum(parts, [])  # noqa: RUF017 - few
    found = run(lambda stream: together(stream).sort_partition(0, order, nulls_first), parts, memory)
    assert list(map(str, found)) == list(map(str, expected(records, order, nulls_first)))
    by_tuple = run(lambda stream: together(stream).sort_partition(lambda r: (r[0],), order, nulls_first), parts, memory)
    assert list(map(str, by_tuple)) == list(map(str, found))
    keyed = run(lambda stream: of_keys(stream).sort_partition(0, order, nulls_first), parts, memory)
    for key in range(4):
        of_key = [record for record in records if record[1] == key]
        assert list(map(str, (r for r in keyed if r[1] == key))) == list(map(str, expected(of_key, order, nulls_first)))
    keys = [record[1] for record in keyed]
    assert sum(one != after for one, after in pairwise(keys)) == max(0, len(set(keys)) - 1)


@given(parts=PARTS, order=ORDERS, nulls_first=st.booleans(), memory=st.sampled_from([1, 3_000, 1 << 30]))
@settings(max_examples=60, deadline=None)
def test_sorted_columns_are_sorted_rows(parts: Any, order: Order, nulls_first: bool, memory: int) -> None:
    parts = [part for part in numbered(parts) if part]
    floats: list[Any] = []
    batches: list[Any] = []
    for part in parts:
        records = [(None if key is None else float(key), group, at) for key, group, at in part]
        floats += records
        columns = [pa.array(column, kind) for column, kind in zip(zip(*records, strict=True), KINDS, strict=True)]
        batches.append(pa.record_batch(columns, ["k", "group", "at"]))
    rows = run(lambda stream: together(stream).sort_partition_batches("k", order, nulls_first), batches, memory)
    found = [tuple(row.values()) for row in rows]
    assert list(map(str, found)) == list(map(str, expected(floats, order, nulls_first)))


KINDS = (pa.float64(), pa.int64(), pa.int64())


@given(
    rows=st.lists(st.lists(st.tuples(st.integers(-3, 3), st.text("ab", max_size=2)), max_size=300), max_size=8),
    orders=st.tuples(ORDERS, ORDERS),
    only_numbers=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_columns_sort_by_several_of_them_and_equal_rows_keep_their_order(
    rows: Any, orders: tuple[Order, Order], only_numbers: bool
) -> None:
    parts = [part for part in numbered(rows) if part]
    by = [("n", orders[0]), ("t", orders[1])][: 1 if only_numbers else 2]
    batches = [pa.RecordBatch.from_pydict(dict(zip("nta", zip(*part, strict=True), strict=True))) for part in parts]
    found = [tuple(row.values()) for row in run(lambda s: together(s).sort_partition_batches(by), batches, 2_000)]
    records = sum(parts, [])  # noqa: RUF017
    for at, (_, order) in reversed(list(enumerate(by))):
        records = sorted(records, key=itemgetter(at), reverse=order is Order.DESCENDING)
    assert found == records


@given(parts=st.lists(st.lists(st.text("abc", max_size=2), max_size=6), max_size=6))
@settings(max_examples=40, deadline=None)
def test_reduce_and_map_partition_are_a_fold_and_a_loop(parts: list[list[str]]) -> None:
    records = [record for part in parts for record in part]
    reduced = run(lambda stream: together(stream).reduce(lambda a, b: f"({a}{b})"), parts)
    assert reduced == ([reduce(lambda a, b: f"({a}{b})", records)] if records else [])
    mapped = run(lambda stream: together(stream).map_partition(enumerate), parts)
    assert mapped == list(enumerate(records))
