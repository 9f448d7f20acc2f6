"""Functions that cannot work: what can be seen is refused where the program adds them, the rest is named as it runs."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from tests.kit.cells import cells
from tests.unit.driver.test_raising_functions import BY_KEY, RULES, TUMBLING, failure, keyed, stamped

from penstock.common import Row, Time, WatermarkStrategy
from penstock.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream import functions as f
from penstock.datastream.state import ReducingStateDescriptor, StateTtlConfig, ValueStateDescriptor
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
)
from penstock.errors import BatchColumnsError, FieldError, FunctionResultError, UnsupportedOperationError
from penstock.testing import OperatorHarness, TwoInputHarness

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODES = ("STREAMING", "BATCH")


def made(kind: type[Any], **methods: Any) -> Any:
    """Return a function object of a kind with these methods; None is what the others return."""
    names = kind.__abstractmethods__ - set(methods)
    return type("Wrong", (kind,), {**dict.fromkeys(names, lambda self, *_: None), **methods})()


def stream() -> Any:
    return StreamExecutionEnvironment.get_execution_environment().from_collection([("a", 1)])


def yielding(record: Any) -> Any:
    yield record


def yielding_pair(one: Any, other: Any) -> Any:
    yield one


async def asynchronous(record: Any) -> Any:
    return record


async def method(self: Any, value: Any) -> Any:
    return [value]


async def method_of_two(self: Any, value: Any, ctx: Any) -> Any:
    return [value]


def method_that_yields(self: Any, value: Any) -> Any:
    yield value


# ----------------------------------------------------------------------------------------- seen where they are added

DECLARED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no argument": (lambda s: s.map(lambda: 1), r"MapFunction.map, which are \(value\).* takes \(\)"),
    "two arguments": (lambda s: s.flat_map(lambda a, out: None), r"FlatMapFunction.flat_map.* takes \(a, out\)"),
    "a keyword": (lambda s: s.filter(lambda a, *, b: a), r"FilterFunction.filter"),
    "one of two": (lambda s: s.key_by(BY_KEY).reduce(lambda a: a), r"ReduceFunction.reduce, .*\(value1, value2\)"),
    "of a key": (lambda s: s.key_by(lambda: 1), "KeySelector.get_key"),
    "of a partitioner": (lambda s: s.partition_custom(lambda key: 1, BY_KEY), "Partitioner.partition"),
    "of a method": (
        lambda s: s.process(made(f.ProcessFunction, process_element=lambda self, value: None)),
        r"ProcessFunction.process_element, which are \(value, ctx\)",
    ),
    "of a timer": (
        lambda s: s.key_by(BY_KEY).process(made(f.KeyedProcessFunction, on_timer=lambda self, timestamp: None)),
        r"KeyedProcessFunction.on_timer, which are \(timestamp, ctx\)",
    ),
    "of open": (lambda s: s.map(made(MapFunction, open=lambda self: None)), r"MapFunction.open, .*\(runtime_context\)"),
    "of a window": (
        lambda s: keyed(s).window(TUMBLING).process(made(f.ProcessWindowFunction, process=lambda self, one, all_: [])),
        r"ProcessWindowFunction.process, which are \(key, context, elements\)",
    ),
    "of an aggregate": (
        lambda s: keyed(s).window(TUMBLING).aggregate(made(AggregateFunction, add=lambda self, value: value)),
        "AggregateFunction.add",
    ),
    "of a join": (
        lambda s: s.join(s).where(BY_KEY).equal_to(BY_KEY).window(TUMBLING).apply(lambda pair: pair),
        r"JoinFunction.join, which are \(first, second\)",
    ),
    "a coroutine": (lambda s: s.map(asynchronous), "asynchronous at test_wrong_functions.py.* not awaited"),
    "a coroutine as a filter": (lambda s: s.filter(asynchronous), "FilterFunction.filter and not awaited"),
    "a coroutine that processes": (
        lambda s: s.process(made(f.ProcessFunction, process_element=method_of_two)),
        "ProcessFunction.process_element and not awaited",
    ),
    "a coroutine that opens": (
        lambda s: AsyncDataStream.ordered_wait(
            s, made(AsyncFunction, async_invoke=method, open=method), Time.seconds(1)
        ),
        "AsyncFunction.open and not awaited",
    ),
    "a map that yields": (lambda s: s.map(yielding), r"MapFunction.map, and yields.*flat_map\(\)"),
    "a method that yields": (lambda s: s.map(made(MapFunction, map=method_that_yields)), "MapFunction.map, and yields"),
    "a filter that yields": (lambda s: s.filter(yielding), "FilterFunction.filter, and yields"),
    "a key that yields": (lambda s: s.key_by(yielding), "KeySelector.get_key, and yields"),
    "a reduce that yields": (lambda s: s.key_by(BY_KEY).reduce(yielding_pair), "ReduceFunction.reduce, and yields"),
    "a join that yields": (
        lambda s: s.join(s).where(BY_KEY).equal_to(BY_KEY).window(TUMBLING).apply(yielding_pair),
        "JoinFunction.join, and yields",
    ),
    "open that yields": (lambda s: s.flat_map(made(f.FlatMapFunction, open=method_that_yields)), "open, and yields"),
    "a callable assigner": (
        lambda s: WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, at: at),
        "timestamp_assigner must be .* name of a field",
    ),
    "a number as size": (lambda s: TumblingEventTimeWindows.of(5), r"size must be a Time, such as Time.seconds\(10\)"),
    "a number as slide": (lambda s: SlidingEventTimeWindows.of(Time.seconds(5), 5), "slide must be a Time"),
    "a number as gap": (lambda s: EventTimeSessionWindows.with_gap(5), "size must be a Time"),
    "a number as interval": (lambda s: ContinuousEventTimeTrigger.of(5), "interval must be a Time"),
    "a number as past": (lambda s: TimeEvictor.of(5), "window_size must be a Time"),
    "a number as life": (lambda s: StateTtlConfig.new_builder(5).build(), "ttl must be a Time"),
    "a number as settings of a life": (
        lambda s: ValueStateDescriptor("a").enable_time_to_live(5),
        "ttl_config must be a StateTtlConfig",
    ),
    "a class as a state's type": (
        lambda s: ValueStateDescriptor("a", int),
        r"such as Types.INT\(\), or None, not <class",
    ),
    "a time as lateness": (
        lambda s: keyed(s).window(TUMBLING).allowed_lateness(Time.seconds(1)),
        "allowed_lateness in milliseconds must be a whole number, not Time",
    ),
    "a text as a count": (lambda s: s.key_by(BY_KEY).count_window("a"), "must be a whole number, not 'a'"),
    "a text as an interval": (
        lambda s: s.get_execution_environment().enable_checkpointing("1 s"),
        "checkpoint_interval in milliseconds must be a whole number",
    ),
    "a text as a mode": (
        lambda s: s.get_execution_environment().set_runtime_mode("BATCH"),
        "such as RuntimeExecutionMode.BATCH, not 'BATCH'",
    ),
    "a number as a name": (lambda s: s.map(BY_KEY).name(5), "name must be a text, not 5"),
    "a number as a job's name": (lambda s: (s.print(), s.get_execution_environment().execute(5)), "job_name must be"),
    "a number as a collection": (lambda s: s.get_execution_environment().from_collection(5), "a list of records"),
}


@cells("add, said", DECLARED)
def test_what_a_declaration_shows_is_refused_at_the_call(add: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        add(stream())


def doubling(call: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(call)
    def with_two(record: Any) -> Any:
        return call(record, 2)

    return with_two


class Callable_:
    def __call__(self, *records: Any) -> Any:
        return records


class Takes:
    """Bound methods, static ones and class methods are functions like others."""

    def one(self, record: Any) -> Any:
        return record

    @staticmethod
    def static(record: Any) -> Any:
        return record

    @classmethod
    def of_class(cls, record: Any) -> Any:
        return record


@doubling
def times(record: Any, factor: int) -> Any:
    return record * factor


WORKING: dict[str, Any] = {
    "a decorated one": times,
    "a default": lambda record, more=1: (record, more),
    "any number": lambda *records: records,
    "partial": functools.partial(times),
    "an object": Callable_(),
    "a bound method": Takes().one,
    "a static one": Takes.static,
    "a class method": Takes.of_class,
    "of C": str,
}


@cells("function", WORKING)
def test_what_can_be_called_with_a_record_is_taken(function: Any) -> None:
    assert stream().map(function).get_name() == "Map"


# ------------------------------------------------------------------------------------------- seen as they run

FIVE = {"process_element": lambda self, *_: 5}


def of_timer(s: Any) -> Any:
    def due(self: Any, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    timed = made(f.KeyedProcessFunction, process_element=due, on_timer=lambda self, timestamp, ctx: 5)
    return keyed(s).process(timed)


def of_windows(kind: Any, name: str) -> Any:
    function = made(kind, **{name: lambda self, *_: 5})
    return lambda s: getattr(keyed(s).window(TUMBLING), name)(function)


def of_both(call: str, kind: Any, name: str) -> Any:
    function = made(kind, **{name: lambda self, *_: 5})
    return lambda s: (
        getattr(stamped(s), call)(stamped(s)).where(BY_KEY).equal_to(BY_KEY).window(TUMBLING).apply(function)
    )


def reducing(s: Any) -> Any:
    def open_(self: Any, context: Any) -> None:
        self.state = context.get_reducing_state(ReducingStateDescriptor("state", lambda one, other: None))

    added = {"open": open_, "process_element": lambda self, value, ctx: self.state.add([value])}
    return s.key_by(BY_KEY).process(made(f.KeyedProcessFunction, **added))


class Forgetful(AggregateFunction[Any, Any, Any]):
    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


NOT_RECORDS = r"returned 5; it must return an iterable of records, or None: yield"
#: Of records that a function may change in their place; a reduce of others may return None, and starts fresh.
NOT_NONE = r"returned None; it must return the new value.* add a return"
RESULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "flat map": (lambda s: s.flat_map(lambda record: 5), NOT_RECORDS),
    "flat map with time": (lambda s: stamped(s).flat_map(lambda record: 5), NOT_RECORDS),
    "process": (lambda s: s.process(made(f.ProcessFunction, **FIVE)), NOT_RECORDS),
    "keyed process": (lambda s: s.key_by(BY_KEY).process(made(f.KeyedProcessFunction, **FIVE)), NOT_RECORDS),
    "timer": (of_timer, NOT_RECORDS),
    "window": (of_windows(f.WindowFunction, "apply"), NOT_RECORDS),
    "process window": (of_windows(f.ProcessWindowFunction, "process"), NOT_RECORDS),
    "co-flat-map": (
        lambda s: s.connect(s).flat_map(made(f.CoFlatMapFunction, flat_map1=lambda self, _: 5)),
        NOT_RECORDS,
    ),
    "co-process": (
        lambda s: s.connect(s).process(made(f.CoProcessFunction, process_element2=lambda self, *_: 5)),
        NOT_RECORDS,
    ),
    "broadcast": (
        lambda s: s.connect(s.broadcast(RULES)).process(made(f.BroadcastProcessFunction, **FIVE)),
        NOT_RECORDS,
    ),
    "interval join": (
        lambda s: (
            keyed(s)
            .interval_join(keyed(s))
            .between(Time.milliseconds(0), Time.milliseconds(5))
            .process(made(f.ProcessJoinFunction, **FIVE))
        ),
        NOT_RECORDS,
    ),
    "flat join": (of_both("join", f.FlatJoinFunction, "join"), NOT_RECORDS),
    "co-group": (of_both("co_group", f.CoGroupFunction, "co_group"), NOT_RECORDS),
    "reduce": (lambda s: s.map(list).key_by(BY_KEY).reduce(lambda one, other: None), NOT_NONE),
    "reduce of a window": (lambda s: keyed(s.map(list)).window(TUMBLING).reduce(lambda one, other: None), NOT_NONE),
    "aggregate of a window": (lambda s: keyed(s).window(TUMBLING).aggregate(Forgetful()), NOT_NONE),
    "reducing state": (reducing, NOT_NONE),
}


#: Operators with another loop in batch mode.
IN_BATCH = {"keyed process", "reduce", "reduce of a window", "flat join"}


@cells(
    "kind, mode",
    {f"{kind} in {mode}": (kind, mode) for mode in MODES for kind in (RESULTS if mode == "STREAMING" else IN_BATCH)},
)
def test_wrong_results_are_named_with_operator_and_way_out(
    kind: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, said = RESULTS[kind]
    error = failure(build, mode, tmp_path, monkeypatch)
    assert isinstance(error.__cause__, FunctionResultError), error
    assert error.place is not None
    assert (error.place.operator_name, error.place.operator_uid) == ("raising", "own uid")
    with pytest.raises(FunctionResultError, match=said):
        raise error.__cause__


def as_dict(s: Any) -> Any:
    return s.map(lambda record: {"x": record[0]})


FIELDS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "key of dicts": (lambda s: as_dict(s).key_by("b").reduce(max), r"key_by\('b'\) .* of the record \{'x': .*has 'x'"),
    "key of tuples": (lambda s: s.key_by("b").reduce(max), r"key_by\('b'\) .* the fields of a tuple have no names"),
    "timestamp": (
        lambda s: s.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
        ),
        r"with_timestamp_assigner\('at'\) cannot use the field 'at'",
    ),
    "sum by name": (lambda s: s.key_by(BY_KEY).sum("x"), r"sum\('x'\) .* no names"),
    "max by place": (lambda s: s.key_by(BY_KEY).max(7), r"max\(7\) .* it has 2 fields"),
    "min_by of numbers": (lambda s: s.map(lambda _: 5).key_by(lambda _: 0).min_by("x"), "it is of int"),
}


@cells("build, said", FIELDS)
def test_a_field_that_is_missing_is_named_with_the_record_and_what_it_has(
    build: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = failure(build, "STREAMING", tmp_path, monkeypatch)
    assert isinstance(error.__cause__, FieldError), error
    with pytest.raises(FieldError, match=said):
        raise error.__cause__


def test_none_is_a_value_like_others_where_records_are_none() -> None:
    with OperatorHarness.for_reduce(lambda one, other: one if other is None else other, lambda _: 0) as harness:
        harness.process_elements([None, 1, None, 2])
        assert harness.values() == [None, 1, 1, 2]
    with OperatorHarness.for_reduce(lambda one, other: other, lambda _: 0) as harness:
        harness.process_elements([1, None, 2])
        assert harness.values() == [1, None, 2]


HARNESSES: dict[str, tuple[Callable[[], Any], str]] = {
    "a callable that processes": (
        lambda: OperatorHarness.for_process(lambda value, ctx: [value]),  # type: ignore[arg-type]
        "must be a ProcessFunction",
    ),
    "a class": (lambda: OperatorHarness.for_keyed_process(Forgetful, "a"), r"did you mean Forgetful\(\)"),  # type: ignore[arg-type]
    "two arguments": (lambda: OperatorHarness.for_map(lambda one, other: one), "MapFunction.map"),  # type: ignore[arg-type, misc]
    "no key": (lambda: OperatorHarness.for_reduce(max, 5), "key_selector must be a KeySelector"),  # type: ignore[arg-type]
    "another kind": (lambda: TwoInputHarness.for_co_map(Forgetful()), "must be a CoMapFunction"),  # type: ignore[arg-type]
}


@cells("make, said", HARNESSES)
def test_a_harness_refuses_what_a_stream_refuses(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        make()


def test_a_harness_takes_the_name_of_a_field_and_the_formats_of_streams() -> None:
    with OperatorHarness.for_reduce(lambda one, other: other, "user") as harness:
        harness.process_elements([{"user": "a"}, {"user": "b"}])
        assert len(harness.values()) == 2
    with pytest.raises(ValueError, match="batch_format must be one of"):
        OperatorHarness.for_map_batches(lambda batch: batch, "polar")  # type: ignore[arg-type]


@cells("result", [pa.array([1]), pa.chunked_array([[1]]), pd.Series([1])])
def test_one_column_is_no_batch(result: Any) -> None:
    with (
        OperatorHarness.for_map_batches(lambda batch: result) as harness,
        pytest.raises(BatchColumnsError, match=r"columns cannot be used: the function returned a .*, which is one"),
    ):
        harness.process_element({"a": 1})


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("ab", "the text 'ab': each of its characters is a record, as in PyFlink. Yield a text that"),
        ({"a": 1, "b": 2}, "the dict {'a': 1, 'b': 2}: each of its keys is a record, as in PyFlink. Yield a dict that"),
        (Row("a", "b"), "the Row <Row('a', 'b')>: each of its values is a record, as in PyFlink. Yield a Row that"),
    ],
)
def test_a_process_function_that_returns_one_record_for_several_is_warned_of_once(
    caplog: pytest.LogCaptureFixture, result: Any, told: str
) -> None:
    function = made(f.ProcessFunction, process_element=lambda self, value, ctx: result)
    with caplog.at_level(logging.WARNING), OperatorHarness.for_process(function) as harness:
        harness.process_elements([1, 2])
        harness.process_element(3)
        assert harness.values() == ["a", "b"] * 3
    assert [line.getMessage() for line in caplog.records] == [f"A method of Wrong returned {told} is to be one record."]


def test_a_write_beside_the_broadcast_says_where_it_belongs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def process_element(self: Any, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put("a", 1)

    writing = made(f.BroadcastProcessFunction, process_element=process_element)
    error = failure(lambda s: s.connect(s.broadcast(RULES)).process(writing), "STREAMING", tmp_path, monkeypatch)
    assert isinstance(error.__cause__, UnsupportedOperationError)
    assert isinstance(error.__cause__, AttributeError)
    with pytest.raises(UnsupportedOperationError, match=r"put\(\) on the broadcast state .*let a broadcast record"):
        raise error.__cause__
