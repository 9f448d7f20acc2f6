"""The jobs of the matrix: each has one thing pending at the moment when it is stopped, and a truth for its sinks.

All of them number their records from 0 on. Half of the records come before a gate and the others behind it: it is where
a job stands that is stopped. In a harness the gate is nothing but a number; on Spark the readers wait there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lifecycle.sink import published, write

from penstock.common.time import Time
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.datastream.connectors.base import InputStatus
from penstock.datastream.functions import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing.sources import ListSource, ListSplit, _ListCursor, _ListReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.datastream import DataStream, StreamExecutionEnvironment

#: Records of a subject, and how many of them come before the gate.
RECORDS, GATE = 20, 10
NUMBERS = range(RECORDS)
#: Wider than all timestamps together, which are the numbers.
WINDOW_MS = 1_000


# -------------------------------------------------------------------------------------------------------------- sources


class GatedSource(ListSource):
    """Lists whose readers wait at a number until a file is there."""

    def __init__(self, *lists: Sequence[Any], happened_in: str, gate: Path | None) -> None:
        super().__init__(*lists, happened_in=happened_in)
        self.gate = gate

    def create_reader(self, reader_context: Any) -> _ListReader:
        if self.gate is None:
            return super().create_reader(reader_context)
        return GatedReader(reader_context, self._lists, Path(self._happened_in), 1, self.gate)


class GatedReader(_ListReader):
    def __init__(self, context: Any, lists: list[list[Any]], happened_in: Path, per_poll: int, gate: Path) -> None:
        super().__init__(context, lists, happened_in, per_poll)
        self._gate = gate

    def open_split(self, split: ListSplit) -> _ListCursor:
        items = self._lists[split.number]
        return GatedCursor(split, items, self._happened_in, 1, self._gate)


class GatedCursor(_ListCursor):
    def __init__(self, split: ListSplit, items: list[Any], happened_in: Path, per_poll: int, gate: Path) -> None:
        super().__init__(split, items, happened_in, per_poll)
        self._gate = gate

    def poll_next(self, output: Any) -> InputStatus:
        position = self._split.position
        if position < len(self._items) and self._items[position] >= GATE and not self._gate.exists():
            return InputStatus.NOTHING_AVAILABLE
        return super().poll_next(output)


class OwnNumber(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value


@dataclass(frozen=True)
class Place:
    """What a subject is built in."""

    env: StreamExecutionEnvironment
    #: Has the folders of all sinks.
    folder: Path
    #: When processing-time timers are due.
    due_ms: int = 0
    #: The file that opens the gate; None without a gate.
    gate: Path | None = None

    def numbers(self, *lists: Iterable[int], name: str = "numbers") -> DataStream:
        """Return the numbers of lists, with a subtask for each; timestamps and watermarks are the numbers."""
        source = GatedSource(*map(list, lists), happened_in=str(self.folder), gate=self.gate)
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnNumber())
        return self.env.from_source(source, strategy, name).set_parallelism(len(lists))

    def write(self, stream: DataStream, name: str = "out", writers: int = 1) -> None:
        write(stream, self.folder / name, writers)


def published_in(folder: Path) -> dict[str, Counter[Any]]:
    """Return what the sinks of a subject have published, by their names."""
    return {path.name: published(path) for path in folder.iterdir() if path.is_dir()}


# ------------------------------------------------------------------------------------------------------------- subjects


@dataclass(frozen=True)
class Subject:
    """A job and its truth.

    Args:
        name: What is special about it.
        build: Makes it.
        truth: What its sinks hold in the end, by name of the sink.
        pending: Whether a record can only come of something that is pending at the gate.
        dropped: What of the truth an end of all input drops.
        flat: Makes whole what a drain has split in two.
        ended: Names of the operators of which a subtask has finished before the gate.
        before: How many records come before the gate.
    """

    name: str
    build: Callable[[Place], None]
    truth: dict[str, Counter[Any]]
    pending: Callable[[Any], bool] = lambda record: False
    dropped: Callable[[Any], bool] = lambda record: False
    flat: Callable[[Any], Iterable[Any]] = lambda record: [record]
    ended: frozenset[str] = frozenset()
    before: int = GATE

    def __str__(self) -> str:
        return self.name

    @property
    def has_pending(self) -> bool:
        """Whether anything that is pending at the gate comes out at an end."""
        records = [record for counts in self.truth.values() for record in counts]
        return any(self.pending(record) and not self.dropped(record) for record in records)


def flat(found: dict[str, Counter[Any]], subject: Subject) -> dict[str, Counter[Any]]:
    """Return what sinks hold with everything made whole that a drain may have split."""
    return {
        name: Counter(part for record in counts.elements() for part in subject.flat(record))
        for name, counts in found.items()
    }


def one(records: Iterable[Any]) -> dict[str, Counter[Any]]:
    """Return the truth of a job with one sink."""
    return {"out": Counter(records)}


class Same(MapFunction):
    def map(self, value: Any) -> Any:
        return value


def one_input(place: Place) -> None:
    place.write(place.numbers(NUMBERS).map(Same()).key_by(lambda number: number % 3).map(Same()).set_parallelism(2))


class Both(KeyedCoProcessFunction):
    """Numbers what comes on both inputs."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element1(self, value: int, ctx: Any) -> Iterator[Any]:
        return self.numbered()

    process_element2 = process_element1

    def numbered(self) -> Iterator[int]:
        self.count.update((self.count.value() or 0) + 1)
        yield self.count.value()


SHORT = range(3)


def two_inputs(place: Place) -> None:
    short, long = place.numbers(SHORT, name="short"), place.numbers(NUMBERS, name="long")
    keyed = short.key_by(lambda _: "all").connect(long.key_by(lambda _: "all"))
    place.write(keyed.process(Both()).set_parallelism(2))


def three_sinks(place: Place) -> None:
    stream = place.numbers(NUMBERS)
    place.write(stream, "first")
    for level in ("second", "third"):
        stream = stream.key_by(lambda number: number % 3).map(Same()).set_parallelism(2)
        place.write(stream, level)


def partly_finished(place: Place) -> None:
    lists = SHORT, range(len(SHORT), RECORDS)
    place.write(place.numbers(*lists).map(Same()).set_parallelism(2).name("same"), writers=2)


RULES = MapStateDescriptor("rules")


class Ruled(BroadcastProcessFunction):
    """Says which rules hold for a number; the first numbers may come before the rules."""

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        rules = sorted(rule for rule, _ in ctx.get_broadcast_state(RULES).items())
        yield value, tuple(rules) if value >= GATE else None

    def process_broadcast_element(self, value: int, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value, True)


def broadcast_state(place: Place) -> None:
    numbers, rules = place.numbers(NUMBERS), place.numbers(SHORT, name="rules")
    ruled = numbers.rebalance().connect(rules.broadcast(RULES)).process(Ruled())
    place.write(ruled.set_parallelism(2))


class Union(MapFunction, CheckpointedFunction):
    """Adds its numbers to a union list; says whether that held all numbers up to some place, each once."""

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_union_list_state(ListStateDescriptor("numbers"))
        self.seen = sorted(self.state)

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: int) -> Any:
        self.state.add(value)
        is_whole = self.seen == list(range(len(self.seen))) and len(self.seen) <= value
        return value, is_whole and (value < GATE or len(self.seen) > 0)


def union_list(place: Place) -> None:
    place.write(place.numbers(NUMBERS).rebalance().map(Union()).set_parallelism(2))


class EventTimers(KeyedProcessFunction):
    """Each number has a timer behind all timestamps."""

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(WINDOW_MS + value)
        yield "seen", value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "fired", timestamp - WINDOW_MS


def event_timers(place: Place) -> None:
    place.write(place.numbers(NUMBERS).key_by(lambda number: number % 3).process(EventTimers()).set_parallelism(2))


@dataclass
class ProcessingTimers(KeyedProcessFunction):
    """Some numbers have a timer at a time that only the test reaches."""

    due_ms: int

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        if value in SHORT:
            ctx.timer_service().register_processing_time_timer(self.due_ms)
        yield "seen", value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "fired", ctx.get_current_key()


def processing_timers(place: Place) -> None:
    keyed = place.numbers(NUMBERS).key_by(lambda number: number)
    place.write(keyed.process(ProcessingTimers(place.due_ms)).set_parallelism(2))


class Contents(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[int]) -> Iterator[Any]:
        yield tuple(sorted(elements))

    def clear(self, context: Any) -> None:
        pass


def windows(place: Place) -> None:
    keyed = place.numbers(NUMBERS).key_by(lambda number: number % 3)
    window = TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))
    place.write(keyed.window(window).process(Contents()).set_parallelism(2))


def grid(width: int, depth: int) -> Subject:
    """Return a job of so many branches side by side, each with so many levels in a row."""

    def build(place: Place) -> None:
        numbers = place.numbers(NUMBERS)
        for branch in range(width):
            stream = numbers
            for level in range(depth):
                stream = stream.rebalance().map(Same()).name(f"{branch}-{level}")
            place.write(stream, f"out-{branch}")

    return Subject(f"{width} times {depth}", build, {f"out-{branch}": Counter(NUMBERS) for branch in range(width)})


#: A hundred vertices beside each other, thirty levels one below the other.
GRIDS = grid(100, 1), grid(1, 30)

SEEN = [("seen", number) for number in NUMBERS]


def has_fired(record: Any) -> bool:
    return record[0] == "fired"


SUBJECTS = (
    Subject("one input", one_input, one(NUMBERS)),
    Subject(
        "two inputs that end apart",
        two_inputs,
        one(range(1, 1 + RECORDS + len(SHORT))),
        ended=frozenset({"Source: short"}),
        before=GATE + len(SHORT),
    ),
    Subject(
        "two-phase sinks at three levels",
        three_sinks,
        {level: Counter(NUMBERS) for level in ("first", "second", "third")},
    ),
    Subject(
        "partly finished operator",
        partly_finished,
        one(NUMBERS),
        ended=frozenset({"Source: numbers", "same", "Sink: out"}),
    ),
    Subject(
        "broadcast state",
        broadcast_state,
        one((number, tuple(SHORT) if number >= GATE else None) for number in NUMBERS),
        ended=frozenset({"Source: rules"}),
        before=GATE + len(SHORT),
    ),
    Subject("union list state", union_list, one((number, True) for number in NUMBERS)),
    Subject(
        "event timers pending",
        event_timers,
        one([*SEEN, *(("fired", number) for number in NUMBERS)]),
        pending=has_fired,
    ),
    Subject(
        "processing timers pending",
        processing_timers,
        one([*SEEN, *(("fired", number) for number in SHORT)]),
        pending=has_fired,
        dropped=has_fired,
    ),
    Subject(
        "windows open",
        windows,
        one(tuple(range(key, RECORDS, 3)) for key in range(3)),
        pending=lambda record: True,
        flat=lambda record: record,
    ),
)
