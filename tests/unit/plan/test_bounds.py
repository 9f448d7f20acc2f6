"""Receivers are divided among fewer subtasks by their bytes: each is read once, and the shares are near the mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._engine.plan.bounds import balanced_bounds, one_each, receivers_of, subtasks_of


@st.composite
def divisions(draw: st.DrawFn) -> tuple[list[int], int]:
    size = st.one_of(st.integers(0, 3), st.integers(0, 1 << 40))
    sizes = draw(st.lists(size, min_size=1, max_size=40))
    return sizes, draw(st.integers(1, len(sizes)))


@pytest.mark.behaviour(159)
@given(divisions())
def test_each_receiver_is_read_once_and_no_share_is_further_from_the_mean_than_the_largest_receiver_is_big(
    division: tuple[list[int], int],
) -> None:
    sizes, subtasks = division
    bounds = balanced_bounds(sizes, subtasks)
    assert subtasks_of(bounds) == subtasks
    read = [receivers_of(bounds, subtask) for subtask in range(subtasks)]
    assert [receiver for part in read for receiver in part] == list(range(len(sizes)))
    assert all(read)
    mean = sum(sizes) / subtasks
    for part in read:
        assert abs(sum(sizes[receiver] for receiver in part) - mean) <= max(sizes)


def test_receivers_of_which_nothing_is_known_are_divided_by_their_number() -> None:
    assert balanced_bounds([0] * 8, 4) == (0, 2, 4, 6, 8)
    assert balanced_bounds([0] * 3, 3) == one_each(3)
    assert list(receivers_of(None, 5)) == [5]
