"""Records of all forms, and functions of all kinds that hand one object on more than once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.common.types import Row
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
        habit: "reuses", "mutates", "repeats", "sibling" or "pure"; the last two ask nothing of the function itself.
        pure: Give the same records, each made anew.
    """

    def __init__(self, form: Form, habit: str, *, pure: bool) -> None:
        self.form = form
        self.habit = habit
        self.pure = pure
        self.kept: Any = None

    def numbered(self, number: int) -> Any:
        """Return a record with a number."""
        if self.pure or self.habit in ("sibling", "mutates", "pure"):
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
