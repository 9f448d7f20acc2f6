"""Accumulators by themselves: what they come to does not depend on who took which value."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import accumulators
from penstock.common.accumulators import (
    Accumulator,
    AverageAccumulator,
    DoubleCounter,
    Histogram,
    IntCounter,
    ListAccumulator,
    Maximum,
    Minimum,
)

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS: dict[type[Accumulator[Any, Any]], Callable[[list[int]], Any]] = {
    IntCounter: sum,
    DoubleCounter: sum,
    AverageAccumulator: lambda values: sum(values) / len(values) if values else 0.0,
    Histogram: lambda values: {value: values.count(value) for value in sorted(set(values))},
    ListAccumulator: sorted,
    Minimum: lambda values: min(values, default=None),
    Maximum: lambda values: max(values, default=None),
}
VALUES = st.lists(st.lists(st.integers(-50, 50), max_size=6), min_size=1, max_size=5)


def taking(kind: type[Accumulator[Any, Any]], values: list[int]) -> Accumulator[Any, Any]:
    made = kind()
    for value in values:
        made.add(value)
    return made


def value_of(accumulator: Accumulator[Any, Any]) -> Any:
    value = accumulator.get_local_value()
    return sorted(value) if isinstance(accumulator, ListAccumulator) else value


def test_every_kind_is_looked_at() -> None:
    assert {kind.__name__ for kind in KINDS} == set(accumulators.__all__) - {"Accumulator"}


@pytest.mark.parametrize("kind", KINDS)
@given(parts=VALUES, data=st.data())
def test_any_split_merged_in_any_order_comes_to_the_same(
    kind: type[Accumulator[Any, Any]], parts: list[list[int]], data: st.DataObject
) -> None:
    left = [taking(kind, part) for part in parts]
    while len(left) > 1:
        into = left.pop(data.draw(st.integers(0, len(left) - 1)))
        other = left.pop(data.draw(st.integers(0, len(left) - 1)))
        before = value_of(other)
        into.merge(pickle.loads(pickle.dumps(other)))
        assert value_of(other) == before
        left.append(into)
    assert value_of(left[0]) == KINDS[kind]([value for part in parts for value in part])


@pytest.mark.parametrize("kind", KINDS)
@given(values=st.lists(st.integers(), max_size=5))
def test_an_emptied_one_is_as_good_as_new(kind: type[Accumulator[Any, Any]], values: list[int]) -> None:
    used = taking(kind, values)
    used.reset_local()
    assert value_of(used) == value_of(kind())
    full = taking(kind, values)
    full.merge(used)
    used.merge(full)
    assert value_of(full) == value_of(used) == value_of(taking(kind, values))


@pytest.mark.parametrize("kind", [Histogram, ListAccumulator])
def test_a_value_that_was_given_out_stays_as_it_was(kind: type[Accumulator[Any, Any]]) -> None:
    one = taking(kind, [1, 2])
    value, copy = one.get_local_value(), taking(kind, [1, 2]).get_local_value()
    one.add(3)
    one.reset_local()
    assert value == copy


def test_smallest_and_largest_take_whatever_can_be_compared() -> None:
    lowest, highest = Minimum[str](), Maximum[tuple[int, str]]()
    for word in ("to", "be"):
        lowest.add(word)
        highest.add((len(word), word))
    assert (lowest.get_local_value(), highest.get_local_value()) == ("be", (2, "to"))
    assert repr(lowest) == "<Minimum 'be'>"
