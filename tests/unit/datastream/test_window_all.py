"""Windows of all records of a stream, counted windows, and what a stream without keys says when asked for windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.graph.graphs import environment, job_graph, operator
from tests.unit.savepoints import jobs

from penstock._builders.outputs import OF_KEYED_STREAMS
from penstock.common import Time, WatermarkStrategy
from penstock.datastream import AllWindowFunction, DataStream, KeyedStream, ProcessAllWindowFunction, WindowFunction
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import CountEvictor, EventTimeSessionWindows, NeverTrigger, TumblingEventTimeWindows
from penstock.errors import KeyRequiredError, PenstockError, UnsupportedOperationError

if TYPE_CHECKING:
    from pathlib import Path

HUNDREDS = TumblingEventTimeWindows.of(Time.milliseconds(100))


class Total(AllWindowFunction):
    def apply(self, window: Any, inputs: Any) -> Any:
        jobs.SEEN.append(("apply", window.start, sum(inputs)))
        return inputs


class Counted(ProcessAllWindowFunction):
    """Counts its calls, of the window and of all."""

    def process(self, context: Any, elements: Any) -> Any:
        counts = []
        for store in (context.window_state(), context.global_state()):
            state = store.get_state(ValueStateDescriptor("calls"))
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        jobs.SEEN.append(("process", context.window().start, *elements, *counts))
        return ()

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("calls")).clear()
        jobs.SEEN.append(("clear", context.window().start))


class Three(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        jobs.SEEN.append(("three", key, window.id, list(inputs)))
        return ()


def test_windows_of_all_records_in_a_job(tmp_path: Path) -> None:
    env = jobs.environment(2, checkpoints=str(tmp_path))
    stamps = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(jobs.OwnValue())
    numbers = env.from_source(NumberSequenceSource(0, 299), stamps, "numbers").set_parallelism(1)
    numbers.window_all(HUNDREDS).apply(Total()).print()
    numbers.key_by(lambda number: number % 7).window_all(HUNDREDS).reduce(lambda a, b: a + b, Counted()).print()
    numbers.key_by(lambda number: number % 100).count_window(2).apply(Three()).print()
    jobs.SEEN.clear()
    jobs.run(env, tmp_path)
    starts = {0: 4950, 100: 14950, 200: 24950}
    assert [row for row in jobs.SEEN if row[0] == "apply"] == [("apply", *item) for item in starts.items()]
    assert [row for row in jobs.SEEN if row[0] == "process"] == [
        ("process", start, total, 1, number) for number, (start, total) in enumerate(starts.items(), 1)
    ]
    assert [row[1] for row in jobs.SEEN if row[0] == "clear"] == list(starts)
    three = [row for row in jobs.SEEN if row[0] == "three"]
    assert sorted(three) == [("three", key, 0, [key, key + 100]) for key in range(100)]


def test_windows_of_all_records_have_one_subtask() -> None:
    env = environment(4)
    windows = env.from_collection([1]).window_all(HUNDREDS).evictor(CountEvictor.of(1)).allowed_lateness(5)
    made = windows.reduce(max)
    assert operator(job_graph(env), "Window").payload
    with pytest.raises(UnsupportedOperationError, match="one subtask"):
        made.set_parallelism(2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.apply(Three()), "window_function must be a AllWindowFunction"),
        (lambda w: w.process(Total()), "process_window_function must be a ProcessAllWindowFunction"),
        (lambda w: w.reduce(max, Three()), "window_function must be a AllWindowFunction or ProcessAllWindowFunction"),
        (lambda w: w.trigger(5), "trigger must be a Trigger"),
    ],
)
def test_wrong_arguments_fail_at_the_call(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(environment(1).from_collection([1]).window_all(HUNDREDS))


def test_default_trigger_of_merging_windows_has_to_merge() -> None:
    class Never(EventTimeSessionWindows):
        def get_default_trigger(self, env: Any) -> Any:
            return NeverTrigger()

    class Nothing(EventTimeSessionWindows):
        def get_default_trigger(self, env: Any) -> Any:
            return None

    keyed = environment(1).from_collection([1]).key_by(abs)
    with pytest.raises(UnsupportedOperationError, match="its can_merge"):
        keyed.window(Never(5)).reduce(max)
    with pytest.raises(TypeError, match="the default trigger of Nothing"):
        keyed.window(Nothing(5)).reduce(max)


def test_stream_without_keys_says_what_it_lacks() -> None:
    stream: Any = environment(1).from_collection([1]).map(abs).name("numbers")
    with pytest.raises(
        KeyRequiredError, match=r"window\(\) works on the records of a key.*'numbers'.*window_all"
    ) as error:
        stream.window(HUNDREDS)
    assert isinstance(error.value, PenstockError)
    assert not hasattr(stream, "count_window")
    with pytest.raises(AttributeError, match="'DataStream' object has no attribute 'widow'"):
        stream.widow(HUNDREDS)


def test_methods_of_keyed_streams_are_known() -> None:
    own = {name for name in dir(KeyedStream) if not name.startswith("_")} - set(dir(DataStream))
    assert own == OF_KEYED_STREAMS


@pytest.mark.parametrize(("size", "slide"), [(0, 0), (-1, 2), (3, -1)])
def test_counted_windows_have_positive_sizes(size: int, slide: int) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        environment(1).from_collection([1]).key_by(abs).count_window(size, slide)
