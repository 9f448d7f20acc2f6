"""Sorted partitions in whole batch jobs: orders, fields, full disks, and keys, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.unit.driver.partitions import (
    ASCENDING,
    DESCENDING,
    SMALL,
    collected,
    partitions,
)
from tests.unit.driver.test_batch_jobs import STAMPED, environment

from penstock.common import Order, Row, Types
from penstock.datastream.functions import (
    KeySelector,
    ProcessFunction,
)
from penstock.errors import (
    FieldError,
    JobExecutionError,
    SortOrderError,
    SortSpillError,
    UnsupportedOperationError,
)
from penstock.testing import ListSource

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.usefixtures("cluster")


class Point(NamedTuple):
    x: int
    name: str


@dataclass
class Item:
    x: int
    name: str


class ByX(KeySelector[Any, Any]):
    def open(self, runtime_context: Any) -> None:
        self.is_open = True

    def get_key(self, value: Any) -> Any:
        assert self.is_open
        return value[0]


KINDS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "tuples": (lambda x, name: (x, name), (0, "f0", lambda pair: pair[0], ByX())),
    "lists": (lambda x, name: [x, name], (0, "f0")),
    "Rows without names": (Row, (0, "f0")),
    "Rows": (lambda x, name: Row(x=x, name=name), (0, "x")),
    "named tuples": (Point, (0, "x", "f0")),
    "dataclasses": (Item, ("x", lambda item: item.x)),
    "dicts": (lambda x, name: {"x": x, "name": name}, ("x",)),
}


@pytest.mark.behaviour(131)
@pytest.mark.behaviour(132)
@pytest.mark.parametrize("kind", KINDS)
def test_sort_partition_by_position_name_or_selector_is_stable_in_both_directions(kind: str) -> None:
    make, fields = KINDS[kind]
    records = [make(number * 7 % 10, f"{number}") for number in range(400)]
    x_of = (lambda record: record["x"]) if kind == "dicts" else getattr_x if kind == "dataclasses" else first_of
    for field in fields:
        for order in Order:
            sorts = environment(1, **SMALL).from_collection(records).full_window_partition()
            expected = sorted(records, key=x_of, reverse=order is DESCENDING)
            assert collected(sorts.sort_partition(field, order)) == expected


def getattr_x(record: Any) -> Any:
    return record.x


def first_of(record: Any) -> Any:
    return record[0]


@pytest.mark.behaviour(131)
def test_a_partition_is_sorted_in_itself_and_the_next_one_sees_that_order() -> None:
    numbers = environment(2).from_collection([5, 3, 9, 1, 3, 7, 2, 8]).rebalance().map(lambda number: number)
    found = partitions(numbers.full_window_partition().sort_partition(lambda number: number, DESCENDING))
    assert [sorted(part, reverse=True) for part in found] == found
    assert [len(part) for part in found] == [4, 4]


NAN = float("nan")


@pytest.mark.behaviour(132)
@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("nulls_first", [False, True])
def test_none_and_nan_have_a_place_whatever_the_direction(order: Order, nulls_first: bool) -> None:
    keys = [2.0, None, 1.0, NAN, None, 3.0, NAN]
    values = sorted([1.0, 2.0, 3.0], reverse=order is DESCENDING)
    expected = [None, None, NAN, NAN, *values] if nulls_first else [*values, NAN, NAN, None, None]
    records = [(key, place) for place, key in enumerate(keys)] * 20
    env = environment(1, **SMALL)
    for field in (0, first_of, lambda record: (record[0], record[1])):
        sorts = env.from_collection(records).full_window_partition().sort_partition(field, order, nulls_first)
        assert list(map(str, dict.fromkeys(str(record[0]) for record in collected(sorts)))) == list(
            dict.fromkeys(map(str, expected))
        )
    batches = env.from_collection([{"k": key, "at": at} for key, at in records]).full_window_partition()
    found = collected(batches.sort_partition_batches("k", order, nulls_first))
    assert list(dict.fromkeys(str(record["k"]) for record in found)) == list(dict.fromkeys(map(str, expected)))


@pytest.mark.behaviour(132)
def test_a_sort_without_room_on_the_disk_ends_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(files: Any) -> Any:
        del files
        raise OSError(28, "No space left on device")

    stream = environment(1, **SMALL).from_collection([{"x": number} for number in range(5000)])
    sorts = stream.full_window_partition()
    monkeypatch.setattr("penstock._engine.operators.sorting.spilling.SpillFiles.new", full)
    for out in (sorts.sort_partition("x", ASCENDING), sorts.sort_partition_batches("x")):
        with pytest.raises(JobExecutionError) as failed:
            collected(out)
        assert isinstance(failed.value.__cause__, SortSpillError)


@pytest.mark.behaviour(132)
def test_errors_of_sorts_name_the_operator_and_the_value() -> None:
    cases: list[tuple[list[Any], Any, type[Exception], str]] = [
        ([(1, 2), (3,)], 1, FieldError, r"\(3,\).*no such field"),
        ([Row(a=1)], "b", FieldError, "'b'.*it has a"),
        ([Item(1, "")], "y", FieldError, "'y'"),
        ([5], 0, FieldError, "neither a tuple, a list nor a Row"),
        ([(1,), [1]], 0, FieldError, r"\[1\].*not one of the tuples"),
        ([("a",), (1,)], 0, SortOrderError, "'a'.* and 1|1 and 'a'"),
        ([(Item(1, ""),), (Item(2, ""),)], 0, SortOrderError, "Item"),
    ]
    for records, field, kind, told in cases:
        for keyed in (False, True):
            stream: Any = environment(1).from_collection(records)
            stream = stream.key_by(lambda _: 0) if keyed else stream
            out = stream.full_window_partition().sort_partition(field, ASCENDING).name("sorts it")
            with pytest.raises(JobExecutionError, match=told) as failed:
                collected(out)
            assert isinstance(failed.value.__cause__, kind)
            assert "'sorts it'" in str(failed.value.__cause__)


@pytest.mark.behaviour(132)
def test_a_field_that_the_declared_type_lacks_is_refused_when_the_program_is_built() -> None:
    pairs, rows = (
        Types.TUPLE([Types.INT(), Types.STRING()]),
        Types.ROW_NAMED(["x", "name"], [Types.INT(), Types.STRING()]),
    )
    cases: list[tuple[Any, list[Any], list[Any]]] = [
        (pairs, [0, 1, "f0", "f1"], [2, "f2"]),
        (rows, [0, 1, "x"], [2, "f0", "y"]),
        (Types.ROW([Types.INT()]), [0, "f0"], [1, "f1"]),
        (Types.INT(), [], [0, "f0"]),
    ]
    for declared, there, missing in cases:
        sorts = environment(1).from_collection([], declared).full_window_partition()
        for field in there:
            sorts.sort_partition(field, ASCENDING)
        for field in missing:
            with pytest.raises(UnsupportedOperationError, match="sort_partition"):
                sorts.sort_partition(field, ASCENDING)


def test_timestamps_stay_with_their_records() -> None:
    stream = environment(1).from_source(ListSource([("a", 3), ("b", 1), ("c", 2)]), STAMPED, "pairs")
    sorts = stream.full_window_partition().sort_partition(0, DESCENDING)
    assert collected(sorts.process(Stamps())) == [("c", 2), ("b", 1), ("a", 3)]


class Stamps(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield value[0], ctx.timestamp()


@pytest.mark.behaviour(134)
@pytest.mark.parametrize("order", Order)
def test_keyed_partitions_are_sorted_key_by_key(order: Order) -> None:
    records = [(number % 5, number * 37 % 101, number) for number in range(500)]
    keyed = environment(2, **SMALL).from_collection(records).key_by(first_of)
    found = collected(keyed.full_window_partition().sort_partition(1, order))
    keys = [key for key, _ in groupby(found, key=first_of)]
    assert sorted(keys) == list(range(5))
    for key in keys:
        of_key = [record for record in records if record[0] == key]
        ordered = sorted(of_key, key=lambda record: record[1], reverse=order is DESCENDING)
        assert [record for record in found if record[0] == key] == ordered
