"""What the property test of windows leaves out: windows of a class of their own, state, wrong results, late records."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.operators.starved import OperatorHarness, starved

from penstock.common.serializer import TypeSerializer
from penstock.datastream import OutputTag
from penstock.datastream.functions import ProcessWindowFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Window,
    WindowAssigner,
)
from penstock.errors import FunctionResultError, MissingTimestampError, UnsupportedOperationError

if TYPE_CHECKING:
    from io import BytesIO
    from pathlib import Path

LATE = OutputTag("late")
LAST = (1 << 63) - 1
SLIDING = SlidingEventTimeWindows(10, 5, 0)


class Told(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield context.window(), [number for _, number in elements]


def windows(assigner: Any, **how: Any) -> Any:
    if not how.keys() & {"reduce", "aggregate", "function"}:
        how["function"] = Told()
    return OperatorHarness.for_window(lambda pair: pair[0], assigner, **how)


def feed(harness: Any, *records: tuple[Any, int]) -> None:
    """Let in records of one key: number and timestamp."""
    for number, timestamp in records:
        harness.process_element(("a", number), timestamp)


@dataclass(frozen=True)
class Named(Window):
    """A window of a class of its own."""

    name: str

    def max_timestamp(self) -> int:
        return LAST


class NamedSerializer(TypeSerializer[Named]):
    def serialize(self, element: Named, stream: BytesIO) -> None:
        stream.write(element.name.encode())

    def deserialize(self, stream: BytesIO) -> Named:
        return Named(stream.read().decode())


class ByParity(WindowAssigner):
    def __init__(self, serializer: Any = None) -> None:
        self._serializer = serializer

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return [Named("odd" if element[1] % 2 else "")]

    def get_default_trigger(self, env: Any) -> Any:
        return GlobalWindows.create_with_end_of_stream_trigger().get_default_trigger(env)

    def get_window_serializer(self) -> Any:
        return self._serializer

    def is_event_time(self) -> bool:
        return False


def test_windows_of_a_class_of_their_own_have_a_serializer(tmp_path: Path) -> None:
    made = starved(OperatorHarness, tmp_path)
    before = made.for_window(lambda pair: pair[0], ByParity(NamedSerializer()), function=Told())
    feed(before, (1, 0), (2, 0))
    harness = made.for_window(lambda pair: pair[0], ByParity(NamedSerializer()), function=Told())
    harness.restore(before.snapshot())
    feed(harness, (3, 0))
    harness.process_watermark(LAST)
    assert sorted(harness.values(), key=str) == [(Named(""), [2]), (Named("odd"), [1, 3])]


def test_windows_of_a_class_of_their_own_without_a_serializer_are_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match="get_window_serializer"):
        feed(windows(ByParity()), (1, 0))


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return element[1]


class Wrong(WindowAssigner):
    """Returns whatever it was made with."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return self._result

    def is_event_time(self) -> bool:
        return True


@pytest.mark.parametrize("result", [None, 5, TimeWindow(0, 1), [(0, 5)], [None]], ids=repr)
def test_assigner_that_returns_no_windows_is_named(result: Any) -> None:
    with pytest.raises(FunctionResultError, match=r"assign_windows\(\) of Wrong in 'KeyedWindowOperator' returned"):
        feed(windows(Wrong(result)), (1, 0))


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows(10, 0),
        SlidingEventTimeWindows(10, 5, 0),
        EventTimeSessionWindows(10),
        EventTimeSessionWindows.with_dynamic_gap(Gap()),
        TumblingProcessingTimeWindows(10, 0),
        SlidingProcessingTimeWindows(10, 5, 0),
        ProcessingTimeSessionWindows(10),
        ProcessingTimeSessionWindows.with_dynamic_gap(Gap()),
    ],
    ids=lambda assigner: type(assigner).__name__,
)
def test_a_class_of_the_program_below_an_assigner_of_ours_has_the_windows_that_it_assigns(assigner: Any) -> None:
    class Hundred(type(assigner)):  # type: ignore[misc]
        def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
            return [TimeWindow(0, 100)]

    own = copy(assigner)
    own.__class__ = Hundred
    harness = windows(own)
    feed(harness, (1, 5), (2, 75))
    harness.process_watermark(98)
    harness.set_processing_time(98)
    assert harness.values() == []
    harness.process_watermark(99)
    harness.set_processing_time(99)
    assert harness.values() == [(TimeWindow(0, 100), [1, 2])]


class Forgetful(EventTimeTrigger):
    """Forgets to return."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        super().on_element(element, timestamp, window, ctx)


def test_trigger_that_returns_nothing_is_named() -> None:
    with pytest.raises(FunctionResultError, match=r"Forgetful in 'KeyedWindowOperator' returned None.*TriggerResult"):
        feed(windows(SLIDING, trigger=Forgetful()), (1, 0))


class InPlace(Evictor):
    """Takes records out, as in Java, and returns nothing."""

    def evict_before(self, elements: Any, size: int, window: Any, ctx: Any) -> Any:
        elements.clear()


class OfValues(Evictor):
    """Returns records without their timestamps."""

    def evict_after(self, elements: Any, size: int, window: Any, ctx: Any) -> Any:
        return [element.value for element in elements]


@pytest.mark.parametrize(("evictor", "call"), [(InPlace(), "evict_before"), (OfValues(), "evict_after")])
def test_evictor_that_returns_no_elements_is_named(evictor: Evictor, call: str) -> None:
    harness = windows(SLIDING, evictor=evictor)
    feed(harness, (1, 0))
    with pytest.raises(FunctionResultError, match=rf"{call}\(\) of {type(evictor).__name__} in 'KeyedWindowOperator'"):
        harness.process_watermark(100)


def test_gap_that_is_not_positive_is_an_error() -> None:
    for gap in (0, -1, None, 1.5, "7"):
        with pytest.raises(FunctionResultError, match=r"extract\(\) of Gap .* must return a positive whole number"):
            feed(windows(EventTimeSessionWindows.with_dynamic_gap(Gap())), (gap, 0))


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows(5, 0),
        SLIDING,
        EventTimeSessionWindows(5),
        EventTimeSessionWindows.with_dynamic_gap(Gap()),
    ],
    ids=lambda assigner: type(assigner).__name__,
)
def test_record_without_a_timestamp_is_an_error(assigner: Any) -> None:
    with pytest.raises(MissingTimestampError, match=r"Operator' .*'a', 1.* assign_timestamps_and_watermarks"):
        windows(assigner).process_element(("a", 1))


def test_evictor_sees_clock_and_watermark() -> None:
    seen: list[Any] = []

    class Sees(CountEvictor):
        def evict_before(self, elements: Any, size: int, window: Any, ctx: Any) -> Any:
            seen.append((ctx.get_current_watermark(), ctx.get_current_processing_time(), size))
            return super().evict_before(elements, size, window, ctx)

    harness = windows(SLIDING, evictor=Sees(1))
    harness.set_processing_time(77)
    feed(harness, (1, 6), (2, 7))
    harness.process_watermark(9)
    assert seen == [(9, 77, 2)]
    assert harness.values() == [(TimeWindow(0, 10), [2])]


def test_window_function_gets_no_records_where_the_evictor_leaves_none() -> None:
    harness = windows(SLIDING, evictor=CountEvictor.of(0))
    feed(harness, (1, 6))
    harness.process_watermark(9)
    assert harness.values() == [(TimeWindow(0, 10), [])]
    reduced = windows(SLIDING, evictor=CountEvictor.of(0), reduce=max)
    feed(reduced, (1, 6))
    reduced.process_watermark(9)
    assert reduced.values() == []


def test_records_in_the_gaps_of_sliding_windows_belong_to_none_and_are_late_by_themselves() -> None:
    harness = windows(SlidingEventTimeWindows(3, 10, 0), side_output_late_data=LATE)
    feed(harness, (1, 2), (2, 5))
    harness.process_watermark(5)
    feed(harness, (3, 4), (4, 6), (5, 1))
    assert [record.value[1] for record in harness.side_output(LATE)] == [3, 5]
    harness.process_watermark(LAST)
    assert harness.values() == [(TimeWindow(0, 3), [1])]


def test_dropped_late_records_of_all_kinds_are_counted() -> None:
    for assigner in (SLIDING, EventTimeSessionWindows(5)):
        harness = windows(assigner)
        harness.process_watermark(100)
        feed(harness, (1, 6), (2, 7))
        assert harness.metrics.snapshot()["numLateRecordsDropped"]["count"] == 2


class Kept(ProcessWindowFunction):
    """Counts its calls for the window and for the key."""

    ends: list[Any] = []  # noqa: RUF012 - of this test

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        counts = []
        for store in (context.window_state(), context.global_state()):
            state = store.get_state(ValueStateDescriptor("calls"))
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield context.window().start, *counts

    def clear(self, context: Any) -> None:
        self.ends.append(
            (context.window().start, context.window_state().get_state(ValueStateDescriptor("calls")).value())
        )
        context.window_state().get_state(ValueStateDescriptor("calls")).clear()


def test_functions_of_sliding_windows_have_state_of_window_and_key() -> None:
    Kept.ends.clear()
    harness = windows(SLIDING, function=Kept(), allowed_lateness_ms=3)
    feed(harness, (1, 7))
    harness.process_watermark(9)
    feed(harness, (2, 7))
    harness.process_watermark(100)
    assert harness.values() == [(0, 1, 1), (0, 2, 2), (5, 1, 3)]
    assert Kept.ends == [(0, 2), (5, 1)]


def test_full_counted_windows_leave_nothing_behind(tmp_path: Path) -> None:
    harness = starved(OperatorHarness, tmp_path).for_window(
        lambda pair: pair[0], CountTumblingWindowAssigner(2), function=Told()
    )
    feed(harness, *((number, 0) for number in range(101)))
    harness.snapshot()
    rows = [row for table in harness._operator.store.tables for pane in table.panes.values() for row in pane.items()]
    # The count of the assigner, and of the last window its record and the count of its trigger.
    assert len(rows) == 3


def test_continuous_trigger_of_a_window_without_an_end_comes_to_an_end() -> None:
    harness = windows(GlobalWindows.create(), trigger=ContinuousEventTimeTrigger(10))
    feed(harness, (1, 3))
    harness.process_watermark(25)
    harness.process_watermark(LAST)
    assert len(harness.values()) == 4  # at 10, at 20, at 30 by the last watermark, and at the end


class Own(Trigger):
    """Fires with any timer, such as that of the end of a window; forgets to delete its own behind that."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        ctx.register_event_time_timer(timestamp + 100)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.FIRE

    def on_merge(self, window: Any, ctx: Any) -> None: ...
    def clear(self, window: Any, ctx: Any) -> None: ...


def test_timer_behind_the_end_of_a_window_fires_nothing() -> None:
    harness = windows(TumblingEventTimeWindows(10, 0), trigger=Own())
    feed(harness, (1, 3))
    harness.process_watermark(1_000)
    assert harness.values() == [(TimeWindow(0, 10), [1])]


def test_sliding_windows_of_another_size_do_not_take_the_state_of_before() -> None:
    before = windows(SLIDING, reduce=max)
    feed(before, (1, 7))
    harness = windows(SlidingEventTimeWindows(12, 6, 0), reduce=max)
    harness.restore(before.snapshot())
    with pytest.raises(UnsupportedOperationError, match="a slice from 5 to 10"):
        harness.open()


def test_each_record_of_sliding_windows_is_kept_once() -> None:
    harness = windows(SlidingEventTimeWindows(1_000, 10, 0))
    feed(harness, *((number, number) for number in range(500)))
    harness.snapshot()
    rows = [row for table in harness._operator.store.tables for pane in table.panes.values() for row in pane.items()]
    assert sum(len(value) for _, value in rows if isinstance(value, list)) == 500
