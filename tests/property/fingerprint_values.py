"""Values of every kind that a function may capture, made from recipes: the same again, or a changed one.

`main` reads recipes, one a line, and prints the digest of each.
"""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import fractions
import functools
import itertools
import json
import operator
import pathlib
import random
import re
import sys
import types
import uuid
import zoneinfo
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from penstock._engine.graph.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

#: A kind with its number, or a container with the recipes of its parts.
Recipe = list[Any]

_ZONES = ("Europe/Berlin", "Asia/Tokyo", "America/Lima")
_BEGIN = datetime.datetime(2026, 1, 1)  # noqa: DTZ001 - naive values are a kind of their own


class Pair(NamedTuple):
    left: int
    right: object = None


@dataclass
class Frozen:
    number: int
    names: set[str] = field(default_factory=lambda: {"b", "a"})


class Slotted:
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def method(self) -> int:
        return self.number


class Holder:
    def __init__(self, held: object) -> None:
        self.held = held


class Texts(set[str]):
    pass


def _words(number: int) -> list[str]:
    return [f"word {each}" for each in range(number + 8)]


def _made_function(number: int) -> Any:
    return lambda text: (text, number)


def _made_class(number: int) -> Any:
    class Made:
        LIMIT = decimal.Decimal(number)

        def map(self, text: str) -> object:
            return text, self.LIMIT

    return Made()


def _made_by_methods(number: int) -> Any:
    class Made:
        def map(self, text: str) -> object:
            return text, number

    return Made


def _written(number: int) -> Any:
    names: dict[str, Any] = {"__name__": "__main__", "LIMIT": datetime.timedelta(number)}
    exec("def again(n):\n  return again(n) or LIMIT", names)
    return names["again"]


def _enumerated(number: int) -> Any:
    return Enum("Made", {"FIRST": number, "SECOND": -1}).FIRST  # type: ignore[attr-defined]


def _circle(number: int) -> Any:
    left, right = Holder(None), Holder(number)
    left.held, right.__dict__["other"] = [right], (left,)
    return left


def _deep(number: int) -> Any:
    value: Any = number
    for _ in range(3000):
        value = [value]
    return value


def _made_module(number: int) -> Any:
    module = types.ModuleType("made")
    module.__dict__["LIMIT"] = decimal.Decimal(number)
    return module


def _attributed(number: int) -> Any:
    function = _made_function(0)
    function.limit = decimal.Decimal(number)
    return function


KINDS: dict[str, Callable[[int], Any]] = {
    "int": int,
    "large int": lambda n: 10**6000 + n,
    "float": float,
    "complex": lambda n: complex(-0.0, n),
    "text": lambda n: f"\ud800{n}",
    "bytes": lambda n: b"a" * n,
    "bytearray": lambda n: bytearray(b"a" * n),
    "memoryview": lambda n: memoryview(b"a" * n),
    "decimal": lambda n: decimal.Decimal(n) / 7,
    "decimal's scale": lambda n: decimal.Decimal("1." + "0" * n),
    "context": lambda n: decimal.Context(prec=n + 1),
    "fraction": lambda n: fractions.Fraction(n, 7),
    "timedelta": lambda n: datetime.timedelta(milliseconds=n),
    "date": lambda n: datetime.date(2026, 1, 1) + datetime.timedelta(n),
    "datetime": lambda n: _BEGIN + datetime.timedelta(microseconds=n),
    "aware": lambda n: _BEGIN.replace(tzinfo=datetime.timezone(datetime.timedelta(minutes=n))),
    "zoned": lambda n: _BEGIN.replace(tzinfo=zoneinfo.ZoneInfo(_ZONES[n % 3])),
    "time": lambda n: datetime.time(1, n),
    "zone": lambda n: zoneinfo.ZoneInfo(_ZONES[n % 3]),
    "uuid": lambda n: uuid.UUID(int=n),
    "path": lambda n: pathlib.PurePosixPath(f"/{n}"),
    "pattern": lambda n: re.compile(f"a{n}"),
    "flags": lambda n: re.compile("a", (re.IGNORECASE, re.DOTALL, re.MULTILINE)[n % 3]),
    "range": range,
    "slice": slice,
    "array": lambda n: array.array("i", [n]),
    "deque": lambda n: collections.deque([1, n], maxlen=5),
    "bounded deque": lambda n: collections.deque([1], maxlen=n + 1),
    "counter": lambda n: collections.Counter(dict.fromkeys(set(_words(1)), n)),
    "defaultdict": lambda n: collections.defaultdict(list, {"a": [n]}),
    "ordered": lambda n: collections.OrderedDict([("a", 1), ("b", n)]),
    "order": lambda n: collections.OrderedDict([(each % 3, 1) for each in range(n % 3, n % 3 + 3)]),
    "chain map": lambda n: collections.ChainMap({"a": n}, {"b": 1}),
    "proxy": lambda n: types.MappingProxyType({"a": n}),
    "namespace": lambda n: types.SimpleNamespace(limit=n),
    "itemgetter": operator.itemgetter,
    "attrgetter": lambda n: operator.attrgetter(f"a{n}"),
    "methodcaller": lambda n: operator.methodcaller("get", n),
    "partial": lambda n: functools.partial(max, n),
    "bound": lambda n: {"a": n}.get,
    "bound method": lambda n: Slotted(n).method,
    "repeat": itertools.repeat,
    "random": random.Random,
    "array of numbers": np.arange,
    "columns": lambda n: np.arange(12).reshape(3, 4)[:, n % 4],
    "number": np.int32,
    "kind of numbers": lambda n: np.dtype(("i4", "i8", "f8")[n % 3]),
    "nanoseconds": lambda n: np.datetime64(n, "ns"),
    "objects": lambda n: np.array([n, {"a"}], dtype=object),
    "frame": lambda n: pd.DataFrame({"a": [1, n], "b": ["x", None]}),
    "timestamp": lambda n: pd.Timestamp(n, tz="UTC"),
    "scalar": pa.scalar,
    "table": lambda n: pa.table({"a": [n, None]}),
    "schema": lambda n: pa.schema([(f"a{n}", pa.int64())]),
    "texts": lambda n: set(_words(n)),
    "fixed texts": lambda n: frozenset(_words(n)),
    "own set": lambda n: Texts(_words(n)),
    "things": lambda n: {_made_function(each) for each in range(n, n + 4)},
    "mapped": lambda n: {word: len(word) for word in set(_words(n))},
    "mapped things": lambda n: {word: Frozen(n) for word in set(_words(2))},
    "pair": Pair,
    "dataclass": Frozen,
    "slots": Slotted,
    "lambda": _made_function,
    "class": _made_class,
    "class by methods": _made_by_methods,
    "global": _written,
    "cached": lambda n: functools.lru_cache(_made_function(n)),
    "attributed": _attributed,
    "made module": _made_module,
    "long texts": lambda n: {f"{each}": "x" * (each + 250) for each in range(n, n + 10)},
    "long rows": lambda n: {(each, (n,) * (each + 60)) for each in range(10)},
    "moments": lambda n: [_BEGIN.replace(tzinfo=zoneinfo.ZoneInfo(_ZONES[n % 3]))],
    "member": _enumerated,
    "circle": _circle,
    "deep": _deep,
    "long": lambda n: [*range(70_000), n],
    "many": lambda n: [Slotted(each) for each in range(3000)] + [Slotted(n)],
}
CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "values": lambda parts: dict(enumerate(parts)),
    "object": Holder,
    "closure": lambda parts: lambda: parts,
    "default": lambda parts: functools.partial(print, *parts),
}


def made(recipe: Recipe) -> Any:
    kind, rest = recipe
    return CONTAINERS[kind]([made(part) for part in rest]) if kind in CONTAINERS else KINDS[kind](rest)


def changed(recipe: Recipe, choose: Callable[[int], int]) -> Recipe:
    """Return a recipe with one number that is another."""
    kind, rest = recipe
    if kind not in CONTAINERS:
        return [kind, rest + 1]
    at = choose(len(rest))
    return [kind, [changed(part, choose) if index == at else part for index, part in enumerate(rest)]]


def digest(recipe: Recipe) -> str:
    return fingerprint({"function": made(recipe)})


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(f"{digest(json.loads(line))}\n")
