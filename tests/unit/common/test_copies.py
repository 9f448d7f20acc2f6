"""What can change in place, and copies of it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from penstock.common import copies
from penstock.common.copies import any_may_change, copy_if_mutable, may_change
from penstock.common.types import Row


@dataclass
class Point:
    x: list[int]


PLAIN = [1, "a", 2.5, None, True, b"x", Decimal(1), (), (1, "a"), (1, ("b", (2, None)))]
CHANGEABLE: list[Any] = [[], {}, {1}, Row(1), Point([]), (1, []), (1, (2, {"a": 1})), bytearray(b"x")]


@pytest.mark.parametrize("value", PLAIN)
def test_what_nobody_can_change_is_given_as_it_is(value: Any) -> None:
    assert not may_change(value)
    assert copy_if_mutable(value) is value


@pytest.mark.parametrize("value", CHANGEABLE)
def test_what_somebody_could_change_is_copied(value: Any) -> None:
    assert may_change(value)
    copy = copy_if_mutable(value)
    assert copy is not value
    assert copy == value


@pytest.mark.parametrize("value", CHANGEABLE)
def test_one_changeable_value_among_plain_ones_is_found(value: Any) -> None:
    assert not any_may_change(PLAIN)
    assert any_may_change([*PLAIN, value, *PLAIN])


def test_a_copy_is_a_copy_all_the_way_down() -> None:
    value = ("a", Point([1]))
    copy = copy_if_mutable(value)
    value[1].x.append(2)
    assert copy[1].x == [1]


def test_classes_that_pickle_cannot_name_are_copied_too() -> None:
    @dataclass
    class Local:
        items: list[int]

    value = Local([1])
    copy = copy_if_mutable(value)
    value.items.append(2)
    assert copy.items == [1]


def test_what_cannot_be_copied_says_so() -> None:
    with pytest.raises(TypeError):
        copy_if_mutable([threading.Lock()])


def test_values_of_more_types_than_are_remembered_are_copied_where_they_may_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copies, "_MOST_KEPT", 8)
    kinds: list[Any] = [type(f"Point{number}", (Point,), {}) for number in range(20)]
    for value in [kind([1]) for kind in kinds] * 2 + CHANGEABLE:
        held = copy_if_mutable((value,))[0]
        assert held is not value
        assert type(held) is type(value)
        assert vars(held) == vars(value) if isinstance(value, Point) else held == value
        assert any_may_change([*PLAIN, value])
        assert not any_may_change(PLAIN)
        assert all(copy_if_mutable(plain) is plain for plain in PLAIN)
