"""What leaves a function is its receiver's own: every kind of operator, source and side output against pure functions.

Each cell runs one job with two halves. In one of them a function keeps and changes what it has given out, changes its
input, sends one object several times, or has a sibling that changes the records of the same stream. In the other half
all functions make their records anew. Both halves must give the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.runtime.jobs import Job, Program, same

from penstock.common.types import Row
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.datastream.connectors.datagen import DataGeneratorSource
from penstock.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.state import MapStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.datastream import DataStream

SIDE = OutputTag("side")
LATE = OutputTag("late")
RULES = MapStateDescriptor("rules")
NUMBERS = list(range(7))


# ------------------------------------------------------------------------------------------------------------- records


@dataclass
class Item:
    number: int
    text: str = "x"


class Form:
    """A type of records that hold a number: makes one, reads the number, and changes it in place."""

    def make(self, number: int) -> Any:
        return {"number": number, "text": "x"}

    def read(self, record: Any) -> int:
        return record["number"]

    def put(self, record: Any, number: int) -> None:
        record["number"] = number


class Lists(Form):
    def make(self, number: int) -> Any:
        return [number, "x"]

    def read(self, record: Any) -> int:
        return record[0]

    def put(self, record: Any, number: int) -> None:
        record[0] = number


class Rows(Form):
    def make(self, number: int) -> Any:
        return Row(number=number, text="x")


class DataClasses(Form):
    def make(self, number: int) -> Any:
        return Item(number)

    def read(self, record: Any) -> int:
        return record.number

    def put(self, record: Any, number: int) -> None:
        record.number = number


class Buffers(Form):
    def make(self, number: int) -> Any:
        return "x", bytearray(b"%d" % number)

    def read(self, record: Any) -> int:
        return int(record[1])

    def put(self, record: Any, number: int) -> None:
        record[1][:] = b"%d" % number


class Nested(Form):
    def make(self, number: int) -> Any:
        return {"text": "x", "items": [{"number": number}]}

    def read(self, record: Any) -> int:
        return record["items"][0]["number"]

    def put(self, record: Any, number: int) -> None:
        record["items"][0]["number"] = number


FORMS = {
    "dict": Form(),
    "list": Lists(),
    "row": Rows(),
    "dataclass": DataClasses(),
    "buffer-in-tuple": Buffers(),
    "nested": Nested(),
}


class Giver:
    """Makes the records that a function gives for one that it gets.

    Args:
        form: The type of the records.
        habit: "reuses", "mutates", "repeats" or "sibling"; the last one asks nothing of the function itself.
        pure: Give the same records, each made anew.
    """

    def __init__(self, form: Form, habit: str, *, pure: bool) -> None:
        self.form = form
        self.habit = habit
        self.pure = pure
        self.kept: Any = None

    def numbered(self, number: int) -> Any:
        """Return a record with a number."""
        if self.pure or self.habit in ("sibling", "mutates"):
            return self.form.make(number)
        if self.kept is None:
            self.kept = self.form.make(number)
        self.form.put(self.kept, number)
        return self.kept

    def one(self, record: Any) -> Any:
        """Return one record for one."""
        number = 7 if self.habit == "repeats" else self.form.read(record) + 100
        if self.habit == "mutates" and not self.pure:
            self.form.put(record, number)
            return record
        return self.numbered(number)

    def many(self, record: Any) -> Any:
        """Yield two records for one."""
        number = self.form.read(record)
        for more in (100, 100) if self.habit == "repeats" else (100, 200):
            if self.habit == "mutates" and not self.pure:
                self.form.put(record, number + more)
                yield record
            else:
                yield self.numbered(number + more)

    def to_both(self, record: Any) -> Any:
        """Yield two records for one to the main output, and the same ones to the side output."""
        for given in self.many(record):
            yield given
            yield SIDE, given


# ----------------------------------------------------------------------------------------------------------- functions


class Gives:
    def __init__(self, giver: Giver) -> None:
        self.giver = giver


class Map(Gives, MapFunction):
    def map(self, value: Any) -> Any:
        return self.giver.one(value)


class Filter(Gives, FilterFunction):
    """Changes the record before, or this one."""

    def filter(self, value: Any) -> bool:
        giver = self.giver
        if giver.habit == "mutates":
            giver.form.put(value, giver.form.read(value) + 100)
        elif giver.kept is not None:
            giver.form.put(giver.kept, -1)
        giver.kept = value if giver.habit == "reuses" and not giver.pure else None
        return True


class FlatMap(Gives, FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        return self.giver.many(value)


class Process(Gives, ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.giver.to_both(value)

    def finish(self) -> Any:
        for number in (1, 1, 2):
            yield self.giver.numbered(number)


class KeyedProcess(Gives, KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(10_000)
        return self.giver.to_both(value)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        for number in (1, 1, 2):
            yield self.giver.numbered(number)
            yield SIDE, self.giver.numbered(number)


class Reduce(Gives, ReduceFunction):
    """Gives the greater number and one more."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        form = self.giver.form
        number = max(form.read(value1), form.read(value2)) + 1
        if self.giver.habit == "mutates" and not self.giver.pure:
            form.put(value1, number)
            return value1
        return self.giver.numbered(number)


class CoMap(Gives, CoMapFunction):
    def map1(self, value: Any) -> Any:
        return self.giver.one(value)

    def map2(self, value: Any) -> Any:
        return self.giver.one(value)


class CoFlatMap(Gives, CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return self.giver.many(value)

    def flat_map2(self, value: Any) -> Any:
        return self.giver.many(value)


class CoProcess(Gives, CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return self.giver.to_both(value)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return self.giver.to_both(value)


class KeyedCoProcess(Gives, KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return self.giver.to_both(value)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return self.giver.to_both(value)


class Broadcast(Gives, BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.giver.to_both(value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(RULES).put(self.giver.form.read(value), value)
        return self.giver.to_both(value)


class KeyedBroadcast(Gives, KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.giver.to_both(value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return self.giver.to_both(value)


class Aggregate(Gives, AggregateFunction):
    """Keeps the greatest number."""

    def create_accumulator(self) -> Any:
        return self.giver.form.make(0)

    def add(self, value: Any, accumulator: Any) -> Any:
        form = self.giver.form
        return form.make(max(form.read(value), form.read(accumulator)))

    def get_result(self, accumulator: Any) -> Any:
        return self.giver.one(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise NotImplementedError


class Apply(Gives, WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        for value in inputs:
            yield from self.giver.to_both(value)


class ProcessWindow(Gives, ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        for value in elements:
            yield from self.giver.to_both(value)


# ------------------------------------------------------------------------------------------------------------ programs


class Numbered(TimestampAssigner):
    """The number is the timestamp, too."""

    def __init__(self, form: Form) -> None:
        self.form = form

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return self.form.read(value)


class Half:
    """One half of a job: its stream of records, each made anew, and the function of the operator that is looked at."""

    def __init__(self, program: Program, form: Form, habit: str, *, pure: bool, over_an_edge: bool) -> None:
        self.program = program
        self.form = form
        self.habit = habit
        self.pure = pure
        self.over_an_edge = over_an_edge
        self.giver = Giver(form, habit, pure=pure)
        self.name = "pure" if pure else "given"
        self._sources = 0

    def records(self) -> DataStream:
        """Return a stream of records, for the operator that is looked at; a sibling may change all of them."""
        self._sources += 1
        form = self.form
        made = self.program.source(NUMBERS, name=f"{self.name}-{self._sources}").map(form.make)
        stamps = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Numbered(form))
        stream = made.assign_timestamps_and_watermarks(stamps)
        self.wreck(stream)
        return stream.rebalance() if self.over_an_edge else stream

    def keyed(self) -> Any:
        form = self.form
        return self.records().key_by(lambda record: form.read(record) % 3)

    def windows(self) -> Any:
        return self.keyed().window(TumblingEventTimeWindows.of(4))

    def wreck(self, stream: DataStream) -> None:
        """Have a sibling that changes the records of a stream before others get them."""
        if self.habit == "sibling" and not self.pure:
            form = self.form
            stream.map(lambda record: form.put(record, -1))
            stream.rebalance().map(lambda record: form.put(record, -2))

    def collect(self, stream: DataStream, *sides: OutputTag) -> None:
        """Have what comes out of an operator, by way of a consumer that stands behind one that changes it."""
        for number, output in enumerate([stream, *(stream.get_side_output(tag) for tag in sides)]):
            self.wreck(output)
            behind = output.rebalance() if self.over_an_edge else output
            self.program.collect(behind.map(lambda record: record), f"{self.name}-{number}")


def reused(form: Form, habit: str, *, pure: bool) -> Callable[[int], Any]:
    giver = Giver(form, habit, pure=pure)
    return lambda index: giver.numbered(7 if habit == "repeats" else index)


def generated(half: Half) -> None:
    source = DataGeneratorSource(reused(half.form, half.habit, pure=half.pure), 7)
    half.collect(half.program.env.from_source(source, WatermarkStrategy.no_watermarks(), half.name))


def listed(half: Half) -> None:
    record = half.form.make(5)
    items = [half.form.make(5) for _ in range(3)] if half.pure else [record] * 3
    half.collect(half.program.source(items, name=f"{half.name}-source"))


def filtered(half: Half) -> None:
    stream = half.records()
    if half.habit == "mutates" and half.pure:
        form = half.form
        half.collect(stream.map(lambda record: form.make(form.read(record) + 100)))
    else:
        half.collect(stream.filter(Filter(half.giver)))


def united(half: Half) -> None:
    stream = half.records().map(Map(half.giver))
    half.collect(stream.union(stream))


OPERATORS: dict[str, Callable[[Half], None]] = {
    "map": lambda half: half.collect(half.records().map(Map(half.giver))),
    "filter": filtered,
    "flat_map": lambda half: half.collect(half.records().flat_map(FlatMap(half.giver))),
    "map-of-keyed": lambda half: half.collect(half.keyed().map(Map(half.giver))),
    "flat_map-of-keyed": lambda half: half.collect(half.keyed().flat_map(FlatMap(half.giver))),
    "process": lambda half: half.collect(half.records().process(Process(half.giver)), SIDE),
    "keyed-process": lambda half: half.collect(half.keyed().process(KeyedProcess(half.giver)), SIDE),
    "reduce": lambda half: half.collect(half.keyed().reduce(Reduce(half.giver))),
    "co_map": lambda half: half.collect(half.records().connect(half.records()).map(CoMap(half.giver))),
    "co_flat_map": lambda half: half.collect(half.records().connect(half.records()).flat_map(CoFlatMap(half.giver))),
    "co_process": lambda half: half.collect(
        half.records().connect(half.records()).process(CoProcess(half.giver)), SIDE
    ),
    "keyed-co_process": lambda half: half.collect(
        half.keyed().connect(half.keyed()).process(KeyedCoProcess(half.giver)), SIDE
    ),
    "broadcast": lambda half: half.collect(
        half.records().connect(half.records().broadcast(RULES)).process(Broadcast(half.giver)), SIDE
    ),
    "keyed-broadcast": lambda half: half.collect(
        half.keyed().connect(half.records().broadcast(RULES)).process(KeyedBroadcast(half.giver)), SIDE
    ),
    "window-reduce": lambda half: half.collect(half.windows().reduce(Reduce(half.giver))),
    "window-aggregate": lambda half: half.collect(half.windows().aggregate(Aggregate(half.giver))),
    "window-apply": lambda half: half.collect(half.windows().apply(Apply(half.giver)), SIDE),
    "window-process": lambda half: half.collect(half.windows().process(ProcessWindow(half.giver)), SIDE),
    "window-with-lateness": lambda half: half.collect(
        half.windows().allowed_lateness(100).process(ProcessWindow(half.giver)), SIDE
    ),
    "union": united,
}
SOURCES: dict[str, Callable[[Half], None]] = {"datagen": generated, "list": listed}
HABITS = ("reuses", "mutates", "repeats", "sibling")


def outputs_of_both(
    operator: Callable[[Half], None], form: Form, habit: str, place: Path, *, over_an_edge: bool, reuse: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    program = Program(place, parallelism=2)
    for pure in (False, True):
        operator(Half(program, form, habit, pure=pure, over_an_edge=over_an_edge))
    job = Job(program.graph(), place, configuration={"pipeline.object-reuse": "true"} if reuse else {})
    outputs = job.run()
    halves = ("given", "pure")
    given, pure = ({name: out for name, out in outputs.items() if name.startswith(half)} for half in halves)
    assert given
    assert pure
    return {name.removeprefix("given"): out for name, out in given.items()}, {
        name.removeprefix("pure"): out for name, out in pure.items()
    }


def assert_same(given: dict[str, Any], pure: dict[str, Any]) -> None:
    assert given.keys() == pure.keys()
    for name, records in pure.items():
        assert same(given[name], records), (sorted(map(repr, given[name])), sorted(map(repr, records)))


@pytest.mark.parametrize("over_an_edge", [False, True], ids=["chained", "over-an-edge"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_records_are_the_receivers_own(
    operator: str, habit: str, form: str, over_an_edge: bool, tmp_path: Path
) -> None:
    assert_same(*outputs_of_both(OPERATORS[operator], FORMS[form], habit, tmp_path, over_an_edge=over_an_edge))


@pytest.mark.parametrize("over_an_edge", [False, True], ids=["chained", "over-an-edge"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("habit", ["reuses", "repeats", "sibling"])
@pytest.mark.parametrize("source", SOURCES)
def test_records_of_sources_are_the_receivers_own(
    source: str, habit: str, form: str, over_an_edge: bool, tmp_path: Path
) -> None:
    assert_same(*outputs_of_both(SOURCES[source], FORMS[form], habit, tmp_path, over_an_edge=over_an_edge))
