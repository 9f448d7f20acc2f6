"""A job with every kind of state under keys of every type, and the roads by which its state leaves and comes back."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from tests.unit.savepoints.jobs import SEEN, OwnValue

from penstock._engine.protocol.keys import normal_key
from penstock.common import Row, WatermarkStrategy
from penstock.common.time import Time
from penstock.datastream import CheckpointedFunction, MapFunction
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.datastream.time_domain import TimeDomain
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.savepoint import ListItem, Savepoint, SavepointWriter, StateRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.datastream import StreamExecutionEnvironment

NUMBERS = 2_000
WINDOW = 500
FAR = 10**12


class Colour(Enum):
    RED = 1
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1001


class Right(Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    left: int
    right: str


@dataclass(frozen=True)
class Point:
    x: int
    tags: tuple[str, ...]
    note: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Place:
    point: Point
    colour: Colour
    at: datetime


#: One key of each type, by what it is called. No two are one key.
KEYS: dict[str, Any] = {
    "int": 7,
    "large-int": 1 << 70,
    "str": "7",
    "bytes": b"\x00ab",
    "bool": True,
    "none": None,
    "float": 1.5,
    "decimal": Decimal("10.10"),
    "fraction": Fraction(1, 3),
    "complex": 1 + 2j,
    "uuid": UUID(int=5),
    "enum": Colour.RED,
    "int-enum": Level.LOW,
    "flags": Right.READ | Right.WRITE,
    "date": date(2026, 1, 2),
    "datetime": datetime(2026, 1, 2, 3, 4, 5, 678),  # noqa: DTZ001
    "moment": datetime(2026, 1, 2, 3, 4, 5, 678, timezone(timedelta(hours=2))),
    "time": time(3, 4, 5),
    "timedelta": timedelta(days=1, microseconds=3),
    "tuple": (1, "x"),
    "empty-tuple": (),
    "nested-tuple": ((1, ("x", None)), 2.5),
    "tuple-of-enum": (Colour.BLUE, UUID(int=6)),
    "named-tuple": Pair(8, "y"),
    "dataclass": Point(1, ("a",), "kept"),
    "nested-dataclass": Place(Point(2, ()), Colour.RED, datetime(2026, 5, 6, tzinfo=UTC)),
    "row": Row(1, "positional"),
    "named-row": Row(b=1, a="x"),
    "frozenset": frozenset({1, 2}),
}
_KEYS = list(KEYS.values())
NAMES = list(KEYS)
NAME_OF = {normal_key(key): name for name, key in KEYS.items()}


def key_of(number: int) -> Any:
    return _KEYS[number % len(_KEYS)]


def name_of(number: int) -> str:
    return NAMES[number % len(NAMES)]


def see(kind: str, number: int, *what: Any) -> None:
    SEEN.append((kind, name_of(number), what))


# ----------------------------------------------------------------------------------------------------------- the job


class Values(KeyedProcessFunction):
    """Keyed state of each kind and the timers of both clocks; those of event time tell of it at the end."""

    def open(self, runtime_context: Any) -> None:
        self.first = runtime_context.get_state(ValueStateDescriptor("first"))
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))
        self.some = runtime_context.get_list_state(ListStateDescriptor("some"))
        self.places = runtime_context.get_map_state(MapStateDescriptor("places"))
        self.last = runtime_context.get_reducing_state(ReducingStateDescriptor("last", max))
        self.sums = runtime_context.get_aggregating_state(AggregatingStateDescriptor("sums", Sums()))

    def process_element(self, value: int, ctx: Any) -> Any:
        if self.first.value() is None:
            self.first.update(value)
            ctx.timer_service().register_processing_time_timer(FAR * 10)
        self.total.update((self.total.value() or 0) + value)
        if value % 5 == 0:
            self.some.add(value)
        self.places.put(key_of(value), None if value % 2 else value)
        self.last.add(value)
        self.sums.add(value)
        ctx.timer_service().register_event_time_timer(FAR + value % 7)
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        number, key = self.first.value(), ctx.get_current_key()
        see("event-timers", number, timestamp, type(key), key)
        see("value", number, self.total.value())
        see("list", number, self.some.get())
        see("map", number, [(type(place), place, value) for place, value in self.places.items()])
        see("reducing", number, self.last.get())
        see("aggregating", number, self.sums.get())


def reduced(left: tuple[int, int] | None, right: tuple[int, int]) -> tuple[int, int] | None:
    """Add up, or forget all at times."""
    if right[1] % 11 == 0:
        return None
    return right if left is None else (left[0], left[1] + right[1])


class Sums(AggregateFunction):
    """A sum and a count, or None at times."""

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: int, accumulator: Any) -> Any:
        if value % 11 == 0:
            return None
        number, total, count = accumulator or (value, 0, 0)
        return number, total + value, count + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, a: Any, b: Any) -> Any:
        raise NotImplementedError


class Told(ProcessWindowFunction):
    """Tells what a window of a key holds."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        found = list(elements)
        SEEN.append((self.kind, NAME_OF[normal_key(key)], (context.window().start, type(key), key, repr(found))))
        yield len(found)


class Items(MapFunction, CheckpointedFunction):
    """Keys in a list and in a union list."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.own = store.get_list_state(ListStateDescriptor("own"))
        self.shared = store.get_union_list_state(ListStateDescriptor("shared"))

    def open(self, runtime_context: Any) -> None:
        begun = ("", "", runtime_context.get_index_of_this_subtask())
        if begun in SEEN:  # once for each subtask: functions are made anew for each epoch
            return
        SEEN.append(begun)
        for kind, state in (("operator-list", self.own), ("union-list", self.shared)):
            for number, item in list(state):
                see(kind, number, type(item), item)

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: int) -> int:
        if value < len(_KEYS):
            self.own.add((value, key_of(value)))
            self.shared.add((value, key_of(value)))
        return value


LIMITS = MapStateDescriptor("limits")


class Limits(KeyedBroadcastProcessFunction):
    """A map of all keys; the last records tell of it."""

    def process_element(self, value: int, ctx: Any) -> None:
        if value >= NUMBERS - len(_KEYS):
            limits = dict(ctx.get_broadcast_state(LIMITS).items())
            number, key = limits[key_of(value)]
            see("broadcast", value, number, type(key), key)

    def process_broadcast_element(self, value: int, ctx: Any) -> None:
        ctx.get_broadcast_state(LIMITS).put(key_of(value), (value, key_of(value)))


def program(env: StreamExecutionEnvironment) -> None:
    """Add the job."""
    stamps = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnValue())
    source = env.from_source(NumberSequenceSource(0, NUMBERS - 1), stamps, "numbers").uid("numbers")
    source = source.set_parallelism(1)
    source.map(Items()).uid("items").print()
    source.key_by(key_of).process(Values()).uid("values").print()
    pairs = source.map(lambda value: (value, value)).uid("pairs").set_parallelism(1)
    told = pairs.key_by(lambda pair: key_of(pair[0])).reduce(reduced).uid("reduced").map(lambda pair: pair)
    told.uid("told").map(lambda pair: None if pair is None else see("reduce", pair[0], pair[1])).uid("seen").print()
    keyed = source.key_by(key_of)
    large = TumblingEventTimeWindows.of(Time.milliseconds(FAR))
    windows = keyed.window(large)
    windows.aggregate(Sums(), Told("window-aggregate")).uid("aggregate").print()
    sums = pairs.key_by(lambda pair: key_of(pair[0])).window(large)
    sums.reduce(reduced, Told("window-reduce")).uid("windowed").print()
    small = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW))).allowed_lateness(FAR)
    small.process(Told("window-elements")).uid("elements").print()
    limits = env.from_source(NumberSequenceSource(0, len(_KEYS) - 1), WatermarkStrategy.no_watermarks(), "limits")
    both = keyed.connect(limits.uid("limit-numbers").set_parallelism(1).broadcast(LIMITS))
    both.process(Limits()).uid("limits").print()


def observed() -> dict[tuple[str, str], list[str]]:
    """Return what functions saw by kind of state and type of key, in the order of their texts."""
    return _sorted((kind, name, repr(what)) for kind, name, what in SEEN if kind)


def _sorted(seen: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for kind, name, what in seen:
        found[kind, name].append(what)
    return {place: sorted(texts) for place, texts in found.items()}


# ---------------------------------------------------------------------------------------------------------- the roads


def all_keyed(savepoint: Savepoint) -> list[tuple[str, str]]:
    """Return uid and name of all keyed states."""
    return [
        (operator.uid, state.name)
        for operator in savepoint.operators
        for state in operator.keyed_states
        if state.kind != "timers"
    ]


def stored(path: str) -> dict[tuple[str, str], list[str]]:
    """Return all that a savepoint holds, by state and type of key."""
    savepoint = Savepoint.open(path, classes=None)
    found: list[tuple[str, str, str]] = []
    for uid, state in all_keyed(savepoint):
        found += [(f"{uid}/{state}", _name(entry), _text(entry)) for entry in savepoint.keyed_state(uid, state)]
    for domain in TimeDomain:
        found += [(domain.name, _name(entry), _text(entry)) for entry in savepoint.timers("values", domain)]
    for name in ("own", "shared"):
        found += [(name, _name(entry), _text(entry)) for entry in savepoint.list_state("items", name)]
    found += [("limits", _name(entry), _text(entry)) for entry in savepoint.broadcast_state("limits", "limits")]
    return _sorted(found)


def _name(entry: Any) -> str:
    return name_of(entry.value[0]) if isinstance(entry, ListItem) else NAME_OF[normal_key(entry.key)]


def _text(entry: Any) -> str:
    return f"{type(getattr(entry, 'key', None))} {entry!r}"


def by_type(rows: StateRows[Any]) -> list[StateRows[Any]]:
    """Return rows apart by the type of their keys: a column of a data frame has one type."""
    parts: dict[str, list[Any]] = defaultdict(list)
    for entry in rows:
        parts[_name(entry)].append(entry)
    return [StateRows((partial(list, part),), rows.shape) for part in parts.values()]


def as_arrow(rows: StateRows[Any]) -> list[Any]:
    return [batch for part in by_type(rows) for batch in part.to_arrow().to_batches()]


def as_pandas(rows: StateRows[Any]) -> Any:
    return rows.to_pandas()


ROADS: dict[str, Callable[[StateRows[Any]], Any]] = {
    "python": lambda rows: rows,
    "pandas": as_pandas,
    "arrow": as_arrow,
}


def rewritten(path: str, target: str, road: Callable[[StateRows[Any]], Any]) -> str:
    """Write a savepoint anew in which each state has come by a road."""
    savepoint, writer = Savepoint.open(path, classes=None), SavepointWriter.from_existing(path, classes=None)
    for uid, state in all_keyed(savepoint):
        writer.set_keyed_state(uid, state, road(savepoint.keyed_state(uid, state)))
    for domain in TimeDomain:
        writer.set_timers("values", road(savepoint.timers("values", domain)), domain)
    writer.set_list_state("items", "own", road(savepoint.list_state("items", "own")))
    writer.set_union_list_state("items", "shared", road(savepoint.list_state("items", "shared")))
    writer.set_broadcast_state("limits", "limits", road(savepoint.broadcast_state("limits", "limits")))
    return writer.write(target)
