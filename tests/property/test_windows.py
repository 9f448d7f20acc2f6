"""Records, watermarks, the clock, checkpoints, restores and rescalings in any order give windows as a model has them.

Most jobs have a store with room for almost nothing: what is not being changed is read from the disk.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st
from tests.kit.subtasks import Subtasks
from tests.property.window_model import FIRST, LAST, WindowModel

from penstock.common import Types
from penstock.datastream import OutputTag
from penstock.datastream.functions import AggregateFunction, ProcessWindowFunction, ReduceFunction
from penstock.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    DeltaEvictor,
    EndOfStreamTrigger,
    EndOfStreamWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    MergingWindowAssigner,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    Smaller,
    TimeEvictor,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.testing import OperatorHarness, StreamRecord

LATE = OutputTag("late")
KEYS = ("a", 7, ("b", 1))


class OwnGap(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return 1 + ord(element[1]) % 7


class Told(ProcessWindowFunction):
    """The window, and the records of it in one text."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, context.window(), "".join(value for _, value in elements)


class Counting(Told):
    """Tells as well how often the window has fired, and how often its key has, from the states of both."""

    firings = ValueStateDescriptor("firings", Types.LONG())

    def __init__(self, *, of_windows: bool) -> None:
        self.of_windows = of_windows

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        [(_, window, text)] = super().process(key, context, elements)
        in_window = self._count(context.window_state) if self.of_windows else 0
        yield key, window, text, in_window, self._count(context.global_state)

    def _count(self, store: Any) -> int:
        state = store().get_state(self.firings)
        state.update((state.value() or 0) + 1)
        return state.value()

    def clear(self, context: Any) -> None:
        if self.of_windows:
            context.window_state().get_state(self.firings).clear()


class Added(ReduceFunction):
    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


class OwnTrigger(Trigger):
    """Fires at each third record, and a while after a window's first one; with a count and a time as its state."""

    count = ReducingStateDescriptor("count", Added(), Types.LONG())
    due = ReducingStateDescriptor("due", Smaller(), Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        count, due = ctx.get_partitioned_state(self.count), ctx.get_partitioned_state(self.due)
        count.add(1)
        if due.get() is None and window.max_timestamp() > ctx.get_current_watermark():
            due.add(min(window.max_timestamp(), max(timestamp + 3, ctx.get_current_watermark() + 1)))
            ctx.register_event_time_timer(due.get())
        if count.get() < 3:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        due = ctx.get_partitioned_state(self.due)
        if due.get() != time:
            return TriggerResult.CONTINUE
        due.clear()
        return TriggerResult.FIRE_AND_PURGE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        ctx.merge_partitioned_state(self.count)
        ctx.merge_partitioned_state(self.due)
        due = ctx.get_partitioned_state(self.due).get()
        if due is not None:
            ctx.register_event_time_timer(due)

    def clear(self, window: Any, ctx: Any) -> None:
        due = ctx.get_partitioned_state(self.due)
        if due.get() is not None:
            ctx.delete_event_time_timer(due.get())
        due.clear()
        ctx.get_partitioned_state(self.count).clear()


class Together(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1[0], value1[1] + value2[1]


class Apart(Together):
    combinable = False


class Listed(AggregateFunction):
    """Changes its accumulator in place."""

    combinable = True

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0][0], "".join(value for _, value in accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        acc_a.extend(acc_b)
        return acc_a


class OneByOne(Listed):
    combinable = False


EVENT_TIME = (
    TumblingEventTimeWindows(10, 3),
    SlidingEventTimeWindows(10, 5, 0),
    SlidingEventTimeWindows(10, 4, 1),
    SlidingEventTimeWindows(3, 5, 0),
    EventTimeSessionWindows(4),
    EventTimeSessionWindows.with_dynamic_gap(OwnGap()),
    EndOfStreamWindows.get(),
)
#: They have operators of their own, whose ways depend on the order of records, watermarks and restores.
ALIGNED = EVENT_TIME[1:4]
SESSIONS = EVENT_TIME[4:5]
BY_CLOCK = (
    TumblingProcessingTimeWindows(10, 0),
    SlidingProcessingTimeWindows(10, 4, 0),
    ProcessingTimeSessionWindows(4),
    ProcessingTimeSessionWindows.with_dynamic_gap(OwnGap()),
)
OTHERS = (
    CountTumblingWindowAssigner(3),
    CountSlidingWindowAssigner(3, 2),
    CountSlidingWindowAssigner(2, 3),
    GlobalWindows.create(),
    GlobalWindows.create_with_end_of_stream_trigger(),
)
TRIGGERS: dict[Any, tuple[Any, ...]] = {
    ALIGNED: (None,),
    SESSIONS: (None,),
    EVENT_TIME: (
        None,
        EventTimeTrigger(),
        PurgingTrigger(EventTimeTrigger()),
        ContinuousEventTimeTrigger(7),
        CountTrigger(2),
        PurgingTrigger(CountTrigger(2)),
        OwnTrigger(),
    ),
    BY_CLOCK: (
        None,
        ProcessingTimeTrigger(),
        ContinuousProcessingTimeTrigger(3),
        PurgingTrigger(CountTrigger(2)),
    ),
    OTHERS: (
        None,
        CountTrigger(2),
        PurgingTrigger(CountTrigger(3)),
        NeverTrigger(),
        ContinuousEventTimeTrigger(7),
        ContinuousProcessingTimeTrigger(3),
        EndOfStreamTrigger(),
        OwnTrigger(),
    ),
}
EVICTORS = (
    CountEvictor.of(2),
    CountEvictor.of(1, do_evict_after=True),
    TimeEvictor(5),
    DeltaEvictor.of(3, lambda old, new: abs(ord(new[1]) - ord(old[1])), do_evict_after=True),
)
FUNCTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"reduce": Together()},
    {"reduce": Apart()},
    {"aggregate": Listed()},
    {"aggregate": OneByOne()},
)

TIMES = st.integers(-20, 60)
STEPS = st.one_of(
    st.tuples(st.just("records"), st.lists(st.tuples(st.sampled_from(KEYS), TIMES), min_size=1, max_size=6)),
    st.tuples(st.just("watermark"), TIMES),
    st.tuples(st.just("tick"), st.integers(1, 12)),
    st.tuples(st.just("checkpoint"), st.booleans()),
    st.tuples(st.just("rescale"), st.integers(1, 3)),
)

#: A window has fired, and the watermark of a job that is rescaled starts fresh: what comes then is alone in it.
FIRED_BEFORE = [
    *[("records", [("a", 0), (7, 5)]), ("checkpoint", True), ("watermark", 30), ("checkpoint", True)],
    *[("rescale", 2), ("records", [("a", 0), (7, 5)]), ("checkpoint", True), ("watermark", 30), ("rescale", 1)],
    ("records", [("a", 0), (7, 5)]),
]
#: The same, where the watermark comes in steps, and a slice of a window that has fired still waits for the next one.
FIRED_AND_SLOW = [
    *[("records", [("a", 0), ("a", 7)]), ("watermark", 12), ("checkpoint", True), ("rescale", 2), ("watermark", -5)],
    *[("records", [("a", 0)]), ("watermark", 30)],
]
#: A record of a key, which begins a session or makes it longer.
GROWING = ("records", [("a", 0)])


@st.composite
def jobs(draw: Any) -> Any:
    assigners = draw(st.sampled_from([ALIGNED, SESSIONS, EVENT_TIME, BY_CLOCK, OTHERS]))
    assigner = draw(st.sampled_from(assigners))
    trigger = draw(st.sampled_from(TRIGGERS[assigners]))
    lateness = draw(st.sampled_from([0, 0, 4, 30]))
    evictor = (
        None if assigners in (ALIGNED, SESSIONS) else draw(st.one_of(st.none(), st.none(), st.sampled_from(EVICTORS)))
    )
    functions = {} if evictor else draw(st.sampled_from(FUNCTIONS))
    if draw(st.booleans()):
        functions = {**functions, "function": Counting(of_windows=not isinstance(assigner, MergingWindowAssigner))}
    return assigner, trigger, lateness, evictor, functions


class Job(Subtasks):
    """The subtasks of one operator, beside a model."""

    #: What the operator calls with the contents of a window, how it finds a record's key, and what a record is.
    function: Any = Told()
    select: Any = staticmethod(lambda pair: pair[0])
    record: Any = staticmethod(lambda pair: pair)

    def __init__(self, job: Any, *, is_starved: bool = True) -> None:
        self._memory = 1 if is_starved else None
        self._job = job
        self.fired: list[Any] = []
        self.late: list[Any] = []
        self.clock = 0
        self.values = iter(map(chr, range(65, 10_000)))
        super().__init__(self._harness)

    def _harness(self, **subtask: Any) -> OperatorHarness:
        assigner, trigger, lateness, evictor, functions = self._job
        part = OperatorHarness.for_window(
            self.select,
            assigner,
            **{"function": self.function, **functions},
            allowed_lateness_ms=lateness,
            side_output_late_data=LATE,
            trigger=trigger,
            evictor=evictor,
            state_memory_bytes=self._memory,
            **subtask,
        )
        part.clock.set(self.clock)
        return part

    def watermark(self, watermark: int, model: WindowModel) -> None:
        model.advance(watermark)
        for part in self.parts:
            part.process_watermark(watermark)

    def tick(self, passed: int, model: WindowModel) -> None:
        self.clock += passed
        model.tick(self.clock)
        for part in self.parts:
            part.set_processing_time(self.clock)

    def checkpoint(self, incremental: bool, model: WindowModel) -> None:
        for part in self.parts:
            part.snapshot(incremental=incremental)
        model.tick(self.clock)  # timers that are due fire as an epoch begins

    def rescale(self, parallelism: int, model: WindowModel) -> None:
        if parallelism != len(self.parts):
            model.watermark = FIRST
        self.collect()
        self.restore(parallelism)
        model.tick(self.clock)

    def drain(self, _: None, model: WindowModel) -> None:
        model.fire_left()
        for part in self.parts:
            part.end_input(fire_timers=True)

    def records(self, rows: list[tuple[Any, int]], model: WindowModel) -> None:
        stamped = [(key, next(self.values), stamp) for key, stamp in rows]
        for row in stamped:  # the subtasks run one after the other, and keys do not see each other
            model.record(*row)
        self._feed(stamped)

    def _feed(self, rows: list[tuple[Any, str, int]]) -> None:
        for part, mine in self.by_part(rows):
            part.process_records([StreamRecord(self.record((key, value)), stamp) for key, value, stamp in mine])

    def collect(self) -> None:
        for part in self.parts:
            self.fired += part.values()
            self.late += [record.value[-1] for record in part.side_output(LATE)]
            part.clear_output()


def sequences(fired: list[Any], *, ordered: bool) -> dict[Any, list[str]]:
    """Return what each window of each key gave, in order; of merged windows the order of the records is open."""
    found: dict[Any, list[str]] = {}
    for key, window, text, *_ in fired:
        found.setdefault((key, window), []).append(text if ordered else "".join(sorted(text)))
    return found


def check_counts(fired: list[Any], model: list[Any], *, of_windows: bool) -> None:
    """Compare what windows and keys have counted of their firings: of a key, the order of its windows is open."""
    of_keys: dict[Any, list[int]] = {}
    of_each: dict[Any, list[int]] = {}
    for key, window, _, in_window, in_all in fired:
        of_keys.setdefault(key, []).append(in_all)
        of_each.setdefault((key, window), []).append(in_window)
    for counts in of_keys.values():
        assert counts == list(range(1, len(counts) + 1))
    if of_windows:
        expected: dict[Any, list[int]] = {}
        for key, window, _, in_window in model:
            expected.setdefault((key, window), []).append(in_window)
        assert of_each == expected


@pytest.mark.behaviour(186)
@given(jobs(), st.sampled_from([True, True, False]), st.lists(STEPS, max_size=14), st.booleans())
@example((BY_CLOCK[2], None, 0, None, {}), False, [GROWING, ("tick", 2), GROWING], True)
@example(
    (SlidingEventTimeWindows(10, 4, 1), None, 0, None, {"function": Counting(of_windows=True)}),
    True,
    [("records", [("a", 0), ("a", 7), (7, 5)])],
    True,
)
@example((ALIGNED[0], None, 0, None, {"reduce": Together()}), True, FIRED_BEFORE, True)
@example((ALIGNED[0], None, 0, None, {}), False, FIRED_BEFORE, True)
@example((ALIGNED[0], None, 0, None, {}), False, FIRED_AND_SLOW, True)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_windows_are_those_of_a_plain_model(job: Any, is_starved: bool, steps: list[Any], drains: bool) -> None:
    note(f"{job}")
    ends = [("watermark", LAST), ("drain", None)] if drains else [("tick", 100), ("watermark", LAST)]
    assigner, trigger, lateness, evictor, functions = job
    model = WindowModel(assigner, trigger or assigner.get_default_trigger(None), lateness, evictor)
    with Job(job, is_starved=is_starved) as real:
        for kind, what in [*steps, *ends]:
            getattr(real, kind)(what, model)
            real.collect()
            ordered = not model.merges
            assert sequences(real.fired, ordered=ordered) == sequences(model.fired, ordered=ordered), (kind, what)
            assert sorted(real.late) == sorted(model.late), (kind, what)
            if "function" in functions:
                check_counts(real.fired, model.fired, of_windows=functions["function"].of_windows)


@pytest.mark.behaviour(186)
@given(jobs(), st.booleans(), st.lists(st.tuples(st.sampled_from(KEYS), TIMES), max_size=30), st.integers(1, 30))
@example((BY_CLOCK[3], None, 0, None, {}), False, [("a", 0), ("a", 0)], 1)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_windows_of_a_batch_are_those_of_a_plain_model(job: Any, stamped: bool, rows: list[Any], block: int) -> None:
    note(f"{job}")
    assigner, trigger, lateness, evictor, functions = job
    needs_stamps = assigner.is_event_time() or isinstance(trigger, (OwnTrigger, ContinuousEventTimeTrigger))
    stamped = stamped or needs_stamps or evictor is not None
    trigger = trigger or assigner.get_default_trigger(None)
    values = [(key, chr(65 + number), stamp) for number, (key, stamp) in enumerate(rows)]
    harness = OperatorHarness.for_window(
        Job.select,
        assigner,
        **{"function": Job.function, **functions},
        allowed_lateness_ms=lateness,
        side_output_late_data=LATE,
        trigger=trigger,
        evictor=evictor,
        batch_mode=True,
    )
    for start in range(0, len(values), block):
        part = values[start : start + block]
        harness.process_records([StreamRecord(Job.record(row[:2]), row[2] if stamped else None) for row in part])
    harness.end_input()
    fired: list[Any] = []
    for key in dict.fromkeys(key for key, *_ in values):
        model = WindowModel(assigner, trigger, lateness, evictor)
        mine = [row for row in values if row[0] == key]
        for _, value, stamp in sorted(mine, key=lambda row: row[2]) if stamped else mine:
            model.record(key, value, stamp if stamped else FIRST)
        model.advance(LAST)
        model.fire_left()
        fired += model.fired
        assert not model.late
    assert not harness.side_output(LATE)
    ordered = not isinstance(assigner, MergingWindowAssigner)
    assert sequences(harness.values(), ordered=ordered) == sequences(fired, ordered=ordered)
    if "function" in functions:
        check_counts(harness.values(), fired, of_windows=functions["function"].of_windows)
    harness.close()
