"""Keys that state holds as their encoding alone, and classes that have to be imported for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, Flag
from typing import NamedTuple

import pytest

from penstock._engine.protocol.key_values import key_value
from penstock._engine.protocol.keys import encode_key, normal_key


class Colour(Enum):
    RED = "r"


class Access(Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Place:
    street: str
    number: int
    seen: int = field(default=0, compare=False)

    @dataclass(frozen=True)
    class Inner:
        x: int


class Pair(NamedTuple):
    left: int
    right: str


@pytest.mark.parametrize(
    "key", [Colour.RED, Access.READ | Access.WRITE, Place("a" * 300, 7), Place.Inner(1), (Place("b", 1), Colour.RED)]
)
def test_classes_come_back_by_their_names(key: object) -> None:
    assert key_value(normal_key(key)) == key


def test_named_tuple_comes_back_as_a_tuple_that_is_the_same_key() -> None:
    value = key_value(normal_key(Pair(1, "a")))
    assert value == (1, "a")
    assert encode_key(value) == encode_key(Pair(1, "a"))


@pytest.mark.parametrize(("module", "error"), [("no.such.module", ModuleNotFoundError), ("datetime", AttributeError)])
def test_class_that_is_gone_is_named(module: str, error: type[Exception]) -> None:
    gone = Enum("Gone", {"A": 1}, module=module)
    with pytest.raises(error, match="Gone"):
        key_value(normal_key(gone.A))
