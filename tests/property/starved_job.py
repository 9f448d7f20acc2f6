"""A job of all kinds of keyed state, under keys of four types, that tells by what it puts out what it has lost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.lifecycle.sink import published, write
from tests.property.starved_parts import PARTS, STRIDE, key_of

from penstock.common import Time, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import AggregateFunction, KeyedProcessFunction, ProcessWindowFunction
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from penstock.datastream import StreamExecutionEnvironment

#: Longer than all records take.
LONG_MS = 10**9


class Folded:
    """Adds up; a rolling reduce and the reduce of a window."""

    def __call__(self, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
        return left[0], left[1] + right[1]


class Counted(KeyedProcessFunction):
    """Counts in a value and in a list; a timer behind all records tells of both."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        self.numbers.add(value[0])
        ctx.timer_service().register_event_time_timer(LONG_MS)
        yield "process", value[0], self.count.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        [number] = set(self.numbers.get())
        assert ctx.get_current_key() == key_of((number, 1))
        yield "timer", number, self.count.value(), len(self.numbers.get())


class Size(AggregateFunction):
    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        return [*accumulator, value[0]]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0], len(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return [*acc_a, *acc_b]


class Fired(ProcessWindowFunction):
    """Tells of a window, of its key, and how often the key has seen one fire."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        times = context.global_state().get_state(ValueStateDescriptor("times"))
        times.update((times.value() or 0) + 1)
        [(number, count)] = elements
        assert key == key_of((number, count)), (key, number)
        yield "window", number, context.window().start, count, times.value()


class OwnTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value


def program(env: StreamExecutionEnvironment, out: Path, keys: int, rounds: int, parts: Iterable[str] = ()) -> None:
    """Add the job: each key comes once in each round; parts are named by `starved_parts.PARTS`.

    Sinks are vertices of their own at any parallelism: a start refuses a vertex of which a part has finished.
    """
    stamps = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnTime())
    source = env.from_source(NumberSequenceSource(0, keys * rounds - 1), stamps, "numbers").uid("numbers")
    records = source.map(lambda number: (number * STRIDE % keys, 1)).uid("records")
    for part in parts:
        PARTS[part].add(source, out / part, keys)
    if parts:
        return
    keyed = records.key_by(key_of)
    reduced = keyed.reduce(Folded()).uid("reduce").map(lambda pair: ("reduce", *pair)).uid("reduced")
    counted = keyed.process(Counted()).uid("process")
    whole = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(LONG_MS))).reduce(Folded()).uid("whole")
    # Each window takes its late records, whatever the order in which splits are read.
    short = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(2 * keys))).allowed_lateness(LONG_MS)
    fired = short.aggregate(Size(), Fired()).uid("windows")
    tagged = whole.map(lambda pair: ("whole", *pair)).uid("tagged")
    for name, stream in (("reduced", reduced), ("counted", counted), ("whole", tagged), ("windows", fired)):
        write(stream, out / name).disable_chaining()


def check(out: Path, keys: int, rounds: int, parts: Iterable[str] = ()) -> None:
    """Compare what came out with what a dict would have given."""
    for part in parts:
        assert published(out / part) == PARTS[part].expected(keys, rounds), part
    if parts:
        return
    numbers, counts = range(keys), range(1, rounds + 1)
    assert published(out / "reduced") == Counter(("reduce", number, count) for number in numbers for count in counts)
    assert published(out / "counted") == Counter(
        [("process", number, count) for number in numbers for count in counts]
        + [("timer", number, rounds, rounds) for number in numbers]
    )
    assert published(out / "whole") == Counter(("whole", number, rounds) for number in numbers)
    check_windows(published(out / "windows"), keys, rounds)


def check_windows(fired: Counter[Any], keys: int, rounds: int) -> None:
    """Each firing has got a record more than the one before, and the last one has them all."""
    inside: Counter[tuple[int, int]] = Counter()
    for number in range(keys * rounds):
        inside[number * STRIDE % keys, number // (2 * keys) * 2 * keys] += 1
    firings = Counter((number, start, count) for _, number, start, count, _ in fired.elements())
    assert set(firings.values()) == {1}
    last = Counter[tuple[int, int]]()
    for number, start, count in firings:
        last[number, start] = max(last[number, start], count)
    assert last == inside
    times = Counter((number, time) for _, number, _, _, time in fired.elements())
    of_key = Counter(number for _, number, _, _, _ in fired.elements())
    assert times == Counter((number, time + 1) for number, most in of_key.items() for time in range(most))
