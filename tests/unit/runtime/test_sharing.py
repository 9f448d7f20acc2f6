"""What leaves a function is its receiver's own: every kind of operator, source and side output against pure functions.

Each cell runs one job with three parts. In two of them, chained and over edges, a function keeps and changes what it
has given out, changes its input, sends one object several times, or has a sibling that changes the records of the same
stream. In the third part all functions make their records anew. All three must give the same. In ``make test`` two
types of records stand for all of them, others for each operator and habit; ``make campaign`` takes all.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.cells import cells
from tests.kit.epochs import Job, in_order, same
from tests.kit.program import Program
from tests.unit.runtime.sharing import (
    FORMS,
    LATE,
    NUMBERS,
    RULES,
    SIDE,
    Aggregate,
    Apply,
    Broadcast,
    CoFlatMap,
    CoMap,
    CoProcess,
    Filter,
    FlatMap,
    Form,
    Giver,
    Gives,
    KeyedBroadcast,
    KeyedCoProcess,
    KeyedProcess,
    Map,
    Process,
    ProcessWindow,
    Reduce,
)

from penstock.common.time import Time
from penstock.common.types import Row
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.datastream.connectors.reader_base import SplitCursor
from penstock.datastream.functions import (
    AggregateFunction,
    CoFlatMapFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
)
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.datastream import DataStream
    from penstock.datastream.connectors.base import InputStatus, SourceOutput
    from penstock.datastream.functions import RuntimeContext
    from penstock.datastream.output_tag import OutputTag

pytestmark = pytest.mark.sampled(3)


# ------------------------------------------------------------------------------------------------------------ programs


class Numbered(TimestampAssigner):
    """The number is the timestamp, too."""

    def __init__(self, form: Form) -> None:
        self.form = form

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return self.form.read(value)


class Part:
    """One part of a job: its stream of records, each made anew, and the function of the operator that is looked at."""

    def __init__(self, program: Program, form: Form, habit: str, name: str) -> None:
        self.program = program
        self.form = form
        self.habit = habit
        self.name = name
        self.pure = name == "pure"
        self.over_an_edge = name == "over-an-edge"
        self.giver = Giver(form, habit, pure=self.pure)
        self._sources = 0

    def records(self) -> DataStream:
        """Return a stream of records, for the operator that is looked at; a sibling may change all of them."""
        self._sources += 1
        form = self.form
        made = self.source(ListSource(NUMBERS, records_per_poll=5), f"{self._sources}").map(form.make)
        stamps = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Numbered(form))
        stream = made.assign_timestamps_and_watermarks(stamps)
        self.wreck(stream)
        return stream.rebalance() if self.over_an_edge else stream

    def source(self, source: ListSource, name: str = "") -> DataStream:
        return self.program.env.from_source(source, WatermarkStrategy.no_watermarks(), f"{self.name}-source{name}")

    def keyed(self) -> Any:
        form = self.form
        return self.records().key_by(lambda record: form.read(record) % 3)

    def windows(self) -> Any:
        return self.keyed().window(TumblingEventTimeWindows.of(Time.milliseconds(4)))

    def wreck(self, stream: DataStream) -> None:
        """Have a sibling that changes the records of a stream before others get them."""
        if self.habit == "sibling" and not self.pure:
            form = self.form
            stream.map(lambda record: form.put(record, -1))
            stream.rebalance().map(lambda record: form.put(record, -2))

    def collect(self, stream: DataStream, *sides: OutputTag, name: str = "") -> None:
        """Have what comes out of an operator, by way of a consumer that stands behind one that changes it."""
        for number, output in enumerate([stream, *(stream.get_side_output(tag) for tag in sides)]):
            self.wreck(output)
            behind = output.rebalance() if self.over_an_edge else output
            self.program.collect(behind.map(lambda record: record), f"{self.name}/{name}{number}")


class OneByOne(ListSource):
    """Emits records one by one, as its giver makes them."""

    def __init__(self, giver: Giver) -> None:
        super().__init__(NUMBERS, records_per_poll=5)
        self.giver = giver

    def create_reader(self, reader_context: Any) -> Any:
        reader, giver = super().create_reader(reader_context), self.giver
        open_split = reader.open_split
        reader.open_split = lambda split: Emitting(open_split(split), giver)  # type: ignore[method-assign]
        return reader


class Emitting(SplitCursor[Any, Any]):
    def __init__(self, numbers: Any, giver: Giver) -> None:
        self.numbers, self.giver = numbers, giver
        self.snapshot = numbers.snapshot

    def poll_next(self, output: SourceOutput[Any]) -> InputStatus:
        return self.numbers.poll_next(Numbering(output, self.giver))

    def snapshot(self) -> Any: ...


class Numbering:
    def __init__(self, output: SourceOutput[Any], giver: Giver) -> None:
        self.output, self.giver = output, giver

    def collect_all(self, records: list[int]) -> None:
        for number in records:
            self.output.collect(self.giver.numbered(7 if self.giver.habit == "repeats" else number))


def emitted(part: Part) -> None:
    part.collect(part.source(OneByOne(part.giver)))


def listed(part: Part) -> None:
    record = part.form.make(5)
    items = [part.form.make(5) for _ in range(3)] if part.pure else [record] * 3
    part.collect(part.source(ListSource(items, records_per_poll=3)))


def filtered(part: Part) -> None:
    stream = part.records()
    if part.habit == "mutates" and part.pure:
        form = part.form
        part.collect(stream.map(lambda record: form.make(form.read(record) + 100)))
    else:
        part.collect(stream.filter(Filter(part.giver)))


def united(part: Part) -> None:
    stream = part.records().map(Map(part.giver))
    part.collect(stream.union(stream))


def lately(part: Part) -> None:
    """Windows whose records come too late for the most part, in a poll of their own."""
    form = part.form
    numbers = part.source(ListSource([*range(100, 105), *NUMBERS, *NUMBERS], records_per_poll=5))
    stamps = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Numbered(form))
    stream = numbers.map(form.make).assign_timestamps_and_watermarks(stamps)
    part.wreck(stream)
    keyed = (stream.rebalance() if part.over_an_edge else stream).key_by(lambda record: form.read(record) % 3)
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(4))).side_output_late_data(LATE)
    found = windows.process(ProcessWindow(part.giver))
    part.collect(found, SIDE, LATE)
    part.collect(found.get_side_output(LATE).map(Map(part.giver)), name="late")


class Tagged(Gives, FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        return self.giver.to_both(value)


class CoTagged(Gives, CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return self.giver.to_both(value)

    def flat_map2(self, value: Any) -> Any:
        return self.giver.to_both(value)


def mapped_behind_a_tag(part: Part) -> None:
    """Maps of a side output, two of one stream."""
    side = part.records().process(Process(part.giver)).get_side_output(SIDE)
    part.collect(side.map(Map(part.giver)))
    part.collect(side.flat_map(FlatMap(Giver(part.form, part.habit, pure=part.pure))), name="twice")


OPERATORS: dict[str, Callable[[Part], None]] = {
    "map": lambda part: part.collect(part.records().map(Map(part.giver))),
    "filter": filtered,
    "flat_map": lambda part: part.collect(part.records().flat_map(FlatMap(part.giver))),
    "map-of-keyed": lambda part: part.collect(part.keyed().map(Map(part.giver))),
    "flat_map-of-keyed": lambda part: part.collect(part.keyed().flat_map(FlatMap(part.giver))),
    "process": lambda part: part.collect(part.records().process(Process(part.giver)), SIDE),
    "keyed-process": lambda part: part.collect(part.keyed().process(KeyedProcess(part.giver)), SIDE),
    "reduce": lambda part: part.collect(part.keyed().reduce(Reduce(part.giver))),
    "co_map": lambda part: part.collect(part.records().connect(part.records()).map(CoMap(part.giver))),
    "co_flat_map": lambda part: part.collect(part.records().connect(part.records()).flat_map(CoFlatMap(part.giver))),
    "co_process": lambda part: part.collect(
        part.records().connect(part.records()).process(CoProcess(part.giver)), SIDE
    ),
    "keyed-co_process": lambda part: part.collect(
        part.keyed().connect(part.keyed()).process(KeyedCoProcess(part.giver)), SIDE
    ),
    "broadcast": lambda part: part.collect(
        part.records().connect(part.records().broadcast(RULES)).process(Broadcast(part.giver)), SIDE
    ),
    "keyed-broadcast": lambda part: part.collect(
        part.keyed().connect(part.records().broadcast(RULES)).process(KeyedBroadcast(part.giver)), SIDE
    ),
    "window-reduce": lambda part: part.collect(part.windows().reduce(Reduce(part.giver))),
    "window-aggregate": lambda part: part.collect(part.windows().aggregate(Aggregate(part.giver))),
    "window-apply": lambda part: part.collect(part.windows().apply(Apply(part.giver)), SIDE),
    "window-process": lambda part: part.collect(part.windows().process(ProcessWindow(part.giver)), SIDE),
    "window-with-lateness": lambda part: part.collect(
        part.windows().allowed_lateness(100).process(ProcessWindow(part.giver)), SIDE
    ),
    "union": united,
    "late-data": lately,
    "tagged-flat_map": lambda part: part.collect(part.records().flat_map(Tagged(part.giver)), SIDE),
    "tagged-co_flat_map": lambda part: part.collect(
        part.records().connect(part.records()).flat_map(CoTagged(part.giver)), SIDE
    ),
    "map-of-tagged": mapped_behind_a_tag,
}
SOURCES: dict[str, Callable[[Part], None]] = {"one-by-one": emitted, "block": listed}
WITHOUT_KEYS = (
    *("map", "filter", "flat_map", "process", "co_map", "co_flat_map", "co_process", "broadcast", "union"),
    *("tagged-flat_map", "tagged-co_flat_map", "map-of-tagged"),
)
HABITS = ("reuses", "mutates", "repeats", "sibling")


#: For the campaign, whose tests take every cell of the table.
ALL = "PENSTOCK_ALL_CELLS" in os.environ
CELLS = [
    (operator, habit, form)
    for row, operator in enumerate(OPERATORS)
    for column, habit in enumerate(HABITS)
    for number, form in enumerate(FORMS)
    if ALL or (row + 2 * column - number) % 3 == 0
]
PARTS = ("chained", "over-an-edge", "pure")


def outputs_of(
    operator: Callable[[Part], None], form: Form, habit: str, place: Path, **settings: str
) -> dict[str, dict[str, list[Any]]]:
    """Run an operator with a habit, chained and over an edge, beside one of pure functions; return what comes out."""
    # Only keys have a subtask that owns them.
    program = Program(place, parallelism=1 if operator in map(OPERATORS.get, WITHOUT_KEYS) else 2)
    for name in PARTS:
        operator(Part(program, form, habit, name))
    outputs: dict[str, dict[str, list[Any]]] = {name: {} for name in PARTS}
    for name, records in Job(program.graph(), place, configuration=settings).run().items():
        part, _, output = name.partition("/")
        outputs[part][output] = records
    assert outputs["pure"]
    return outputs


def assert_same(found: dict[str, list[Any]], expected: dict[str, list[Any]]) -> None:
    assert found.keys() == expected.keys()
    for name, records in expected.items():
        assert same(found[name], records), (sorted(map(repr, found[name])), sorted(map(repr, records)))


@cells("habit, form", list(itertools.product(HABITS, FORMS)))
@pytest.mark.parametrize("operator", OPERATORS)
def test_records_are_the_receivers_own(operator: str, habit: str, form: str, tmp_path: Path) -> None:
    if (operator, habit, form) not in CELLS:
        return
    outputs = outputs_of(OPERATORS[operator], FORMS[form], habit, tmp_path)
    assert_same(outputs["chained"], outputs["pure"])
    assert_same(outputs["over-an-edge"], outputs["pure"])


@cells("form", list(FORMS))
@pytest.mark.parametrize("habit", ["reuses", "repeats", "sibling"])
@pytest.mark.parametrize("source", SOURCES)
def test_records_of_sources_are_the_receivers_own(source: str, habit: str, form: str, tmp_path: Path) -> None:
    outputs = outputs_of(SOURCES[source], FORMS[form], habit, tmp_path)
    assert_same(outputs["chained"], outputs["pure"])
    assert_same(outputs["over-an-edge"], outputs["pure"])


@pytest.mark.parametrize("operator", OPERATORS)
def test_object_reuse_changes_nothing_where_functions_are_pure(operator: str, tmp_path: Path) -> None:
    copied = outputs_of(OPERATORS[operator], FORMS["dict"], "pure", tmp_path / "copied")
    reused = outputs_of(
        OPERATORS[operator], FORMS["dict"], "pure", tmp_path / "reused", **{"pipeline.object-reuse": "true"}
    )
    for part in PARTS:
        assert_same(reused[part], copied[part])


@pytest.mark.parametrize("part", ["chained", "over-an-edge"])
def test_with_object_reuse_records_go_on_without_a_copy(part: str, tmp_path: Path) -> None:
    operator, form = OPERATORS["map"], FORMS["dict"]
    outputs = outputs_of(operator, form, "reuses", tmp_path, **{"pipeline.object-reuse": "true"})
    assert not same(outputs[part]["0"], outputs["pure"]["0"])


@dataclass(unsafe_hash=True)
class ItemKey:
    number: int


class ReusingSelector(KeySelector):
    """Returns one key object for all records, with another number each time."""

    def __init__(self, kept: Any) -> None:
        self.kept = kept

    def get_key(self, value: Any) -> Any:
        item = self.kept[0] if isinstance(self.kept, tuple) else self.kept
        if isinstance(item, Row):
            item["number"] = value % 3
        else:
            item.number = value % 3
        return self.kept


class CountsOfKeys(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield value % 3, str(ctx.get_current_key()), self.count.value()


@pytest.mark.parametrize("reuse", ["true", "false"], ids=["object-reuse", "copies"])
@pytest.mark.parametrize("kept", [Row(number=0), ItemKey(0), (ItemKey(0), "x")], ids=["row", "dataclass", "in-a-tuple"])
def test_a_key_selector_may_return_one_object_for_all_records(kept: Any, reuse: str, tmp_path: Path) -> None:
    program = Program(tmp_path, parallelism=2)
    numbers = program.source(list(range(9)), list(range(9, 15))).map(lambda number: number)
    program.collect(numbers.key_by(ReusingSelector(kept)).process(CountsOfKeys()))
    counted = Job(program.graph(), tmp_path, configuration={"pipeline.object-reuse": reuse}).run()["out"]
    assert sorted((key, count) for key, _, count in counted) == [(key, n) for key in range(3) for n in range(1, 6)]
    assert len({(key, shown) for key, shown, _ in counted}) == 3


class OneAccumulator(AggregateFunction):
    """Counts, in one object for all keys.

    Args:
        form: The accumulators.
        created: Whether it is the new accumulators that are one object, or those that records were added to.
    """

    def __init__(self, form: Form, *, created: bool) -> None:
        self.form, self.created = form, created
        self.kept = form.make(0)

    def create_accumulator(self) -> Any:
        return self.kept if self.created else self.form.make(0)

    def add(self, value: Any, accumulator: Any) -> Any:
        count = self.form.read(accumulator) + 1
        given = accumulator if self.created else self.kept
        self.form.put(given, count)
        return given

    def get_result(self, accumulator: Any) -> Any:
        return self.form.read(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("created", [True, False], ids=["created", "added"])
@pytest.mark.parametrize("reuse", ["true", "false"], ids=["object-reuse", "copies"])
def test_an_aggregate_may_have_one_object_for_the_accumulators_of_all_keys(
    created: bool, form: str, reuse: str, tmp_path: Path
) -> None:
    program = Program(tmp_path)
    stream = program.source([(number, number) for number in range(10)], timestamps=in_order())
    windows = stream.key_by(lambda record: record[0] % 3).window(TumblingEventTimeWindows.of(Time.milliseconds(100)))
    program.collect(windows.aggregate(OneAccumulator(FORMS[form], created=created)))
    counted = Job(program.graph(), tmp_path, configuration={"pipeline.object-reuse": reuse}).run()["out"]
    assert sorted(counted) == [3, 3, 4]


def test_a_reduce_may_fold_into_its_first_argument_with_object_reuse_too(tmp_path: Path) -> None:
    operator, form = OPERATORS["reduce"], FORMS["nested"]
    outputs = outputs_of(operator, form, "mutates", tmp_path, **{"pipeline.object-reuse": "true"})
    assert_same(outputs["over-an-edge"], outputs["pure"])
