"""Functions, and savepoints read as tables, see the user's own keys, and not equal ones of other types."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Flag, IntEnum, StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
from hypothesis import given, settings
from tests.kit.asking import Process, timer
from tests.kit.cells import cells
from tests.property.test_keys import keys as drawn_keys

from penstock._engine.protocol.key_values import gives_back, key_value
from penstock._engine.protocol.keys import normal_key
from penstock.common import Row, RowKind
from penstock.datastream import KeyedBroadcastProcessFunction, KeyedProcessFunction
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.testing import OperatorHarness, TwoInputHarness

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


Pair = namedtuple("Pair", "a b")


class Level(IntEnum):
    LOW = 4


class Name(StrEnum):
    FIRST = "first"


class Rights(Flag):
    READ = 1
    WRITE = 2


class Text(str):
    __slots__ = ()


@dataclass(frozen=True)
class Noted:
    number: int
    note: str = field(default="", compare=False)


def deleted(row: Row) -> Row:
    row.set_row_kind(RowKind.DELETE)
    return row


#: No two are equal.
KEYS = [
    *("plain", 7, b"bytes", None, 1.5, ("a", 8), date(2026, 1, 2), timedelta(hours=3)),
    *(True, 2.0, -3.0, Decimal("1.10"), Decimal("9.00"), Fraction(1, 3), complex(2, 5)),
    *(Pair(1, 2), ("a", Pair(3, 4)), ("b", Decimal("2.50")), ("c", True), frozenset({10.0, "x"})),
    *(Level.LOW, Name.FIRST, Rights.READ | Rights.WRITE, Text("mine"), np.int64(11), np.float32(0.5)),
    *(Noted(5, "not compared"), Row(1, "a"), Row(a=1, b="x"), deleted(Row(6, "b"))),
    *(
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2))),
        datetime(2026, 7, 1, tzinfo=ZoneInfo("Europe/Berlin")),
    ),
    *(datetime(2026, 1, 3, tzinfo=UTC), time(10, 30, tzinfo=UTC), time(11, tzinfo=timezone(timedelta(hours=1)))),
    *(datetime(2026, 3, 29, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")), datetime(2026, 10, 25, 1, fold=1)),  # noqa: DTZ001
]


def shown(values: Any) -> list[str]:
    """Return what tells values of different types, zones and kinds apart, in no order."""
    return sorted(f"{type(value).__name__} {value!r}" for value in values)


VALUE, HELD = ValueStateDescriptor("value"), MapStateDescriptor("map")


def writes(key: Any) -> tuple[Any, Callable[[dict[str, Any], Any], None]]:
    """Put a key into a value state, as a key and a map's key into a map state, and into timers."""

    def write(states: dict[str, Any], ctx: Any) -> None:
        states["value"].update(1)
        states["map"].put(key, 1)
        timer(5, "event")(states, ctx)

    return key, write


@cells("on_disk", (False, True))
def test_each_key_comes_back_from_memory_and_disk_and_from_each_checkpoint_as_it_was(
    on_disk: bool, tmp_path: Path
) -> None:
    found: dict[str, list[Any]] = {}

    def note(key: Any, state: Any, name: str) -> None:
        found.setdefault(name, []).append(key)
        if name == "map":
            found.setdefault("map keys", []).extend(state.keys())

    first, again = (
        Process([VALUE, HELD], tmp_path / str(number), memory_bytes=1) if on_disk else Process([VALUE, HELD])
        for number in range(2)
    )
    first.begin([])
    first.at_each([writes(key) for key in KEYS])
    for _ in range(3):  # from the running epoch, from memory or the disk, from a checkpoint
        found.clear()
        first.everywhere({VALUE: note, HELD: note})
        assert {name: shown(keys) for name, keys in found.items()} == dict.fromkeys(
            ("value", "map", "map keys"), shown(KEYS)
        )
        taken = first.end()
        first, again = again, first
        first.begin([taken])
    assert shown(key for _, key in first.advance(5)) == shown(KEYS)


@cells("key", (True, 2.0, Decimal(-3), Level.LOW, Text("mine")))
def test_timer_alone_in_its_file_has_the_key_that_the_program_used(key: Any) -> None:
    first, again = Process([VALUE]), Process([VALUE])
    first.begin([])
    first.at_each([(key, timer(5, "event"))])
    again.begin([first.end()])
    assert shown(key for _, key in again.advance(5)) == shown([key])


@settings(max_examples=200)
@given(drawn_keys)
def test_a_key_is_kept_unless_its_encoding_gives_it_back(key: Any) -> None:
    back = key_value(normal_key(key))
    assert back == key
    assert not gives_back(key) or repr(back) == repr(key)


class Before(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self._state = runtime_context.get_state(ValueStateDescriptor("s"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self._state.update(1)


class After(KeyedBroadcastProcessFunction):
    def open(self, runtime_context: Any) -> None:
        runtime_context.get_state(ValueStateDescriptor("s"))

    def process_element(self, value: Any, ctx: Any) -> None:
        pass

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        seen: list[Any] = []
        ctx.apply_to_keyed_state(ValueStateDescriptor("s"), lambda key, _: seen.append(key))
        yield seen


def test_a_function_of_another_kind_sees_the_keys_that_the_one_before_it_used() -> None:
    with OperatorHarness.for_keyed_process(Before(), lambda value: value) as before:
        before.process_elements(KEYS)
        snapshot = before.snapshot()
    after = TwoInputHarness.for_keyed_broadcast_process(After(), lambda value: value, MapStateDescriptor("b"))
    after.restore(snapshot)
    with after:
        after.process_element2(0)
        assert shown(after.values()[0]) == shown(KEYS)


def test_a_time_that_a_clock_skips_is_a_key_of_its_own() -> None:
    zone = ZoneInfo("Europe/Berlin")
    skipped, real = (datetime(2026, 3, 29, hour, 30, tzinfo=zone) for hour in (2, 3))
    assert skipped != real
    with OperatorHarness.for_reduce(lambda a, b: (a[0], a[1] + b[1]), lambda pair: pair[0]) as harness:
        harness.process_elements([(skipped, 1), (real, 1)])
        assert [count for _, count in harness.values()] == [1, 1]
