"""sum, min, max, min_by and max_by: what they make of NaN and None, in whatever order records come."""

from __future__ import annotations

from decimal import Decimal
from functools import reduce
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._builders.aggregations import Max, MaxBy, Min, MinBy, Sum
from penstock._engine.protocol.non_recoverable import is_non_recoverable
from penstock.errors import AggregationError

if TYPE_CHECKING:
    from random import Random


def folded(aggregate: Any, values: list[Any]) -> Any:
    return reduce(aggregate(0).reduce, values)


@pytest.mark.parametrize("nan", [float("nan"), np.float64("nan"), Decimal("NaN")], ids=repr)
@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [(Min, 1), (MinBy, 1), (Max, "NaN"), (MaxBy, "NaN")],
    ids=["min", "min_by", "max", "max_by"],
)
def test_nan_is_greater_than_all_others_in_whatever_order_they_come(aggregate: Any, expected: Any, nan: Any) -> None:
    one, two = type(nan)(1), type(nan)(2)
    for values in permutations([nan, one, two, nan]):
        assert str(folded(aggregate, list(values))).lower() == str(type(nan)(expected)).lower()
    assert str(folded(aggregate, [nan, nan])).lower() == "nan"


@given(st.lists(st.floats() | st.integers(), min_size=1), st.randoms(use_true_random=False))
def test_order_of_records_does_not_matter_for_the_least_and_the_greatest(values: list[Any], random: Random) -> None:
    shuffled = random.sample(values, len(values))
    for aggregate in (Min, Max, MinBy, MaxBy):
        one, other = folded(aggregate, values), folded(aggregate, shuffled)
        assert one == other or (one != one and other != other)  # noqa: PLR0124 - NaN
    if any(value != value for value in values):  # noqa: PLR0124
        assert folded(Max, values) != folded(Max, values)


@pytest.mark.parametrize("pair", [(None, 1), (1, None)], ids=repr)
@pytest.mark.parametrize(
    ("call", "aggregate"), [("sum", Sum), ("min", Min), ("max", Max), ("min_by", MinBy), ("max_by", MaxBy)]
)
def test_none_is_refused_by_every_aggregation(call: str, aggregate: Any, pair: tuple[Any, Any]) -> None:
    with pytest.raises(AggregationError) as caught:
        aggregate(1).reduce(("a", pair[0]), ("a", pair[1]))
    assert str(caught.value).startswith(f"{call}(1) cannot take ")
    assert is_non_recoverable(caught.value)


@pytest.mark.parametrize(
    ("aggregate", "pair"),
    [(Min, ("a", 1)), (Sum, ("a", 1)), (Sum, (Decimal(1), 1.5)), (Max, (np.array([1, 2]), np.array([1, 3])))],
    ids=["min of text and number", "sum of text and number", "sum of Decimal and float", "max of arrays"],
)
def test_values_that_do_not_go_together_are_refused(aggregate: Any, pair: tuple[Any, Any]) -> None:
    with pytest.raises(AggregationError):
        aggregate(1).reduce(("k", pair[0]), ("k", pair[1]))
