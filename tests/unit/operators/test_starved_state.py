"""Every keyed operator with every type of key, in a store that has room for almost nothing, beside a plain dict."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import numpy as np
import pytest
from tests.kit.cells import cells
from tests.unit.operators.starved import OperatorHarness, TwoInputHarness, starved

from penstock._engine.protocol.keys import encode_key
from penstock.common.types import Row
from penstock.datastream.functions import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NUMBERS = range(12)
#: Of a record: the number of its key, its value and its time.
Fed = tuple[int, int, int]


class Folded(str):
    """Compares without regard to case, as its class wants; its text is its key all the same."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    def __hash__(self) -> int:
        return hash(self.lower())


class Level(Enum):
    A, B, C, D, E, F, G, H, J, K, L, M = NUMBERS


class Pair(NamedTuple):
    left: int
    right: str


@dataclass(frozen=True)
class Place:
    name: str
    number: int


KEYS: dict[str, Callable[[int], Any]] = {
    "int": lambda number: number,
    "large int": lambda number: 2**70 + number,
    "str": lambda number: f"key {number}",
    "long str": lambda number: f"{number}" * 600,
    "str that compares in its own way": lambda number: Folded("kK"[number % 2] + str(number // 2)),
    "bytes": lambda number: bytes((number, 250)),
    "tuple": lambda number: ("user", (number, None)),
    "long tuple": lambda number: ("user" * 200, number),
    "named tuple": lambda number: Pair(number, "b"),
    "dataclass": lambda number: Place("here", number),
    "enum": Level,
    "row": lambda number: Row(number, "a"),
    "row with names": lambda number: Row(**{"ab"[number % 2]: number // 2, "c": 1}),
    "float": lambda number: number + 0.5,
    "decimal": lambda number: Decimal(number) + Decimal("0.1"),
    "date": lambda number: date(2026, 1, 1 + number),
    "uuid": lambda number: UUID(int=number),
    "set": lambda number: frozenset({number, "a"}),
    "numpy": np.int64,
    "none or tuple": lambda number: (number,) if number else None,
}


def batches(seed: int, per_batch: int = 60) -> list[list[Fed]]:
    """Return batches in which keys come again and again with others between them."""
    choose = random.Random(seed)
    return [
        [(choose.choice(NUMBERS), choose.randrange(9), choose.randrange(30)) for _ in range(per_batch)] for _ in "abc"
    ]


def same(one: Any, other: Any) -> bool:
    """Return whether two keys are one, whatever their classes think of that."""
    return encode_key(one) == encode_key(other)


def run(harness: Any, records: list[Any], timestamp: int | None = None) -> list[Any]:
    """Let in one batch, take a checkpoint, and return what came out."""
    harness.process_elements(records, timestamp)
    harness.snapshot()
    values = harness.values()
    harness.clear_output()
    return values


@cells("key", KEYS)
def test_reduce(tmp_path: Path, key: Callable[[int], Any]) -> None:
    harness = starved(OperatorHarness, tmp_path).for_reduce(lambda a, b: (a[0], a[1] + b[1]), lambda pair: key(pair[0]))
    totals: Counter[int] = Counter()
    for batch in batches(1):
        expected = []
        for number, value, _ in batch:
            totals[number] += value
            expected.append((number, totals[number]))
        assert run(harness, [(number, value) for number, value, _ in batch]) == expected


@cells("key", KEYS)
def test_reduce_of_values_that_change_in_place(tmp_path: Path, key: Callable[[int], Any]) -> None:
    def fold(a: list[int], b: list[int]) -> list[int]:
        a[1] += b[1]
        return a

    harness = starved(OperatorHarness, tmp_path).for_reduce(fold, lambda pair: key(pair[0]))
    totals: Counter[int] = Counter()
    for batch in batches(2):
        expected = []
        for number, value, _ in batch:
            totals[number] += value
            expected.append([number, totals[number]])
        assert run(harness, [[number, value] for number, value, _ in batch]) == expected


class Sum(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + value[1]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Windowed(ProcessWindowFunction):
    """Puts out key, window and sum, and how often it was called for the key, and for the key in this window."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        states = [context.global_state(), context.window_state()]
        counts = [state.get_state(ValueStateDescriptor("calls")) for state in states]
        for count in counts:
            count.update((count.value() or 0) + 1)
        total = sum(element if isinstance(element, int) else element[1] for element in elements)
        yield key, context.window().start, total, *(count.value() for count in counts)

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("calls")).clear()


class Applied(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        yield key, window.start, sum(value for _, value in inputs)


WINDOWS: dict[str, dict[str, Any]] = {
    "reduce": {"reduce": lambda a, b: (a[0], a[1] + b[1]), "function": Windowed()},
    "aggregate": {"aggregate": Sum(), "function": Windowed()},
    "process": {"function": Windowed()},
    "apply": {"function": Applied()},
}


@cells("key", KEYS)
@pytest.mark.parametrize(("kind", "lateness"), [("reduce", 0), ("aggregate", 100), ("process", 100), ("apply", 0)])
def test_windows(tmp_path: Path, key: Callable[[int], Any], kind: str, lateness: int) -> None:
    functions = WINDOWS[kind]
    harness = starved(OperatorHarness, tmp_path).for_window(
        lambda pair: key(pair[0]), TumblingEventTimeWindows(10, 0), allowed_lateness_ms=lateness, **functions
    )
    inside: defaultdict[tuple[int, int], int] = defaultdict(int)
    calls: Counter[int] = Counter()
    for batch in batches(3):
        for start in range(0, 30, 10):
            pairs = [(number, value) for number, value, time in batch if time // 10 * 10 == start]
            for number, value in pairs:
                inside[number, start] += value
            assert run(harness, pairs, timestamp=start) == []
    for start in range(0, 30, 10):
        harness.process_watermark(start + 9)
        harness.snapshot()
        check_fired(
            harness, key, {number: total for (number, at), total in inside.items() if at == start}, start, calls
        )
    if lateness:
        check_late(harness, key, inside, calls)
    harness.end_input()
    assert harness.values() == []


def check_fired(
    harness: Any, key: Callable[[int], Any], totals: dict[int, int], start: int, calls: Counter[int]
) -> None:
    """Each key of a window comes once, as it was given."""
    values = harness.values()
    harness.clear_output()
    calls.update(totals.keys())
    found = {number: value for number in totals for value in values if same(value[0], key(number))}
    assert len(values) == len(totals) == len(found)
    for number, value in found.items():
        assert type(value[0]) is type(key(number))
        assert value[1:] == (start, totals[number], calls[number], 1)[: len(value) - 1]


def check_late(
    harness: Any, key: Callable[[int], Any], inside: dict[tuple[int, int], int], calls: Counter[int]
) -> None:
    """Each late record fires its key's window again, and no other one."""
    seen: Counter[tuple[int, int]] = Counter(inside.keys())
    for batch in batches(4, 3):
        for number, value, time in batch:
            at = number, time // 10 * 10
            inside[at] = inside.get(at, 0) + value
            calls[number] += 1
            seen[at] += 1
            [result] = run(harness, [(number, value)], timestamp=time)
            assert same(result[0], key(number))
            assert result[1:] == (at[1], inside[at], calls[number], seen[at])[: len(result) - 1]


@cells("key", KEYS)
@pytest.mark.parametrize("kind", ["reduce", "aggregate", "process", "apply"])
def test_keys_that_come_late_in_one_batch_reach_the_window_function_as_they_are(
    tmp_path: Path, key: Callable[[int], Any], kind: str
) -> None:
    harness = starved(OperatorHarness, tmp_path).for_window(
        lambda pair: key(pair[0]), TumblingEventTimeWindows(10, 0), allowed_lateness_ms=100, **WINDOWS[kind]
    )
    run(harness, [(number, 1) for number in range(3)], timestamp=0)
    harness.process_watermark(9)
    harness.snapshot()
    harness.clear_output()
    values = run(harness, [(number, 1) for number in NUMBERS], timestamp=0)
    assert [value[2] for value in values] == [2] * 3 + [1] * 9
    for number, value in zip(NUMBERS, values, strict=True):
        assert same(value[0], key(number))
        assert type(value[0]) is type(key(number)) or type(key(number)) in {Folded, np.int64}


class Everything(KeyedProcessFunction):
    """Keeps a sum and a list, and tells of them in timers of both kinds."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))
        self.values = runtime_context.get_list_state(ListStateDescriptor("values"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + value[1])
        self.values.add(value[1])
        ctx.timer_service().register_event_time_timer(10)
        ctx.timer_service().register_processing_time_timer(10)
        yield value[0], self.total.value(), len(self.values.get())

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.total.value(), self.values.get()
        self.values.clear()
        self.total.clear()


class EverythingOfTwo(KeyedCoProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.one = Everything()
        self.one.open(runtime_context)

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return self.one.process_element(value, ctx)

    process_element2 = process_element1

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return self.one.on_timer(timestamp, ctx)


@cells("key", KEYS)
@pytest.mark.parametrize(("inputs", "clock"), [(1, "event"), (2, "processing")])
def test_process_functions_with_state_and_timers(
    tmp_path: Path, key: Callable[[int], Any], clock: str, inputs: int
) -> None:
    def select(pair: Any) -> Any:
        return key(pair[0])

    harness: Any = (
        starved(OperatorHarness, tmp_path).for_keyed_process(Everything(), select)
        if inputs == 1
        else starved(TwoInputHarness, tmp_path).for_keyed_co_process(EverythingOfTwo(), select, select)
    )
    lists: defaultdict[int, list[int]] = defaultdict(list)
    for batch in batches(5):
        expected = []
        for number, value, _ in batch:
            lists[number].append(value)
            expected.append((number, sum(lists[number]), len(lists[number])))
        assert run(harness, [(number, value) for number, value, _ in batch]) == expected
    if clock == "processing":
        harness.set_processing_time(10)
    elif inputs == 1:
        harness.process_watermark(10)
    else:
        harness.process_watermark(10)
        harness.process_watermark2(10)
    harness.snapshot()
    values = harness.values()
    assert len(values) == len(lists)
    for number, listed in lists.items():
        assert [value[1:] for value in values if same(value[0], key(number))] == [(sum(listed), listed)]


RULES = MapStateDescriptor("rules")


class Ruled(KeyedBroadcastProcessFunction):
    """Adds up, and adds a broadcast number to the sums of all keys."""

    TOTAL = ValueStateDescriptor("total")

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(self.TOTAL)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + value[1])
        yield value[0], self.total.value()

    def process_broadcast_element(self, value: int, ctx: Any) -> Iterator[Any]:
        seen: list[Any] = []

        def add(key: Any, state: Any) -> None:
            state.update(state.value() + value)
            seen.append((key, state.value()))

        ctx.apply_to_keyed_state(self.TOTAL, add)
        yield from seen


@cells("key", KEYS)
def test_broadcast_functions_reach_the_state_of_all_keys(tmp_path: Path, key: Callable[[int], Any]) -> None:
    harness = starved(TwoInputHarness, tmp_path).for_keyed_broadcast_process(Ruled(), lambda pair: key(pair[0]), RULES)
    totals: Counter[int] = Counter()
    for batch in batches(6):
        expected = []
        for number, value, _ in batch:
            totals[number] += value
            expected.append((number, totals[number]))
        assert run(harness, [(number, value) for number, value, _ in batch]) == expected
        harness.process_element2(100)
        values = harness.values()
        harness.snapshot()
        harness.clear_output()
        totals.update(dict.fromkeys(totals, 100))
        assert len(values) == len(totals)
        for number, total in totals.items():
            assert [value[1] for value in values if same(value[0], key(number))] == [total]


def test_one_watermark_that_fires_a_great_many_timers_holds_no_more_state_than_there_is_room_for(
    tmp_path: Path,
) -> None:
    harness = starved(OperatorHarness, tmp_path).for_keyed_process(Everything(), lambda pair: pair[0])
    harness.process_elements([(number, 1) for number in range(3_000)])
    harness.snapshot()
    most = 0
    pane = harness._operator.store.table("total").pane()
    on_timer = harness._operator.function.on_timer

    def watched(timestamp: int, ctx: Any) -> Any:
        nonlocal most
        clean = len(pane.hot) - len(pane.dirty)
        most = max(most, clean)
        return on_timer(timestamp, ctx)

    harness._operator.function.on_timer = watched
    harness.process_watermark(10)
    assert len(harness.values()) == 2 * 3_000
    assert most <= 1
