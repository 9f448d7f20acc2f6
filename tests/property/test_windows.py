"""Records, watermarks, the clock, checkpoints, restores and rescalings in any order give windows as a model has them.

The store has room for almost nothing: what is not being changed is read from the disk.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.property.window_model import FIRST, LAST, WindowModel
from tests.unit.operators.starved import OperatorHarness, starved

from penstock._engine.operators.batch import RowBatch
from penstock._engine.protocol.key_groups import key_group, subtask_of_key_group
from penstock._engine.protocol.keys import normal_key
from penstock.datastream import OutputTag
from penstock.datastream.functions import AggregateFunction, ProcessWindowFunction, ReduceFunction
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    DeltaEvictor,
    EndOfStreamWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

LATE = OutputTag("late")
KEYS = ("a", 7, ("b", 1))


class OwnGap(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return 1 + ord(element[1]) % 7


class Told(ProcessWindowFunction):
    """The window, and the records of it in one text."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, context.window(), "".join(value for _, value in elements)


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
    ),
    BY_CLOCK: (None, ContinuousProcessingTimeTrigger(3), PurgingTrigger(CountTrigger(2))),
    OTHERS: (None, CountTrigger(2), PurgingTrigger(CountTrigger(3)), NeverTrigger()),
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
    st.tuples(st.just("checkpoint"), st.none()),
    st.tuples(st.just("rescale"), st.integers(1, 3)),
)


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
    return assigner, trigger, lateness, evictor, functions


class Job:
    """The subtasks of one operator, whose state a restore carries to others."""

    def __init__(self, directory: Path, job: Any) -> None:
        self._harness = starved(OperatorHarness, directory)
        self._job = job
        self.parts: list[Any] = []
        self.fired: list[Any] = []
        self.late: list[Any] = []
        self.clock = 0
        self.values = iter(map(chr, range(65, 10_000)))
        self.restore(1)

    def restore(self, parallelism: int) -> None:
        assigner, trigger, lateness, evictor, functions = self._job
        self.collect()
        before = [part.snapshot() for part in self.parts]  # what they put out after that does not count
        same = len(before) == parallelism
        self.parts = []
        for index in range(parallelism):
            part = self._harness.for_window(
                lambda pair: pair[0],
                assigner,
                **functions,
                function=Told(),
                allowed_lateness_ms=lateness,
                side_output_late_data=LATE,
                trigger=trigger,
                evictor=evictor,
                subtask_index=index,
                parallelism=parallelism,
            )
            part.clock.set(self.clock)
            if before:
                part.restore(*([before[index]] if same else before))
            part.open()
            self.parts.append(part)

    def watermark(self, watermark: int, model: WindowModel) -> None:
        model.advance(watermark)
        for part in self.parts:
            part.process_watermark(watermark)

    def tick(self, passed: int, model: WindowModel) -> None:
        self.clock += passed
        model.tick(self.clock)
        for part in self.parts:
            part.set_processing_time(self.clock)

    def checkpoint(self, _: None, model: WindowModel) -> None:
        for part in self.parts:
            part.snapshot()
        model.tick(self.clock)  # timers that are due fire as an epoch begins

    def rescale(self, parallelism: int, model: WindowModel) -> None:
        if parallelism != len(self.parts):
            model.watermark = FIRST
        self.restore(parallelism)
        model.tick(self.clock)

    def records(self, rows: list[tuple[Any, int]], model: WindowModel) -> None:
        stamped = [(key, next(self.values), stamp) for key, stamp in rows]
        for row in stamped:  # the subtasks run one after the other, and keys do not see each other
            model.record(*row)
        self._feed(stamped)

    def _feed(self, rows: list[tuple[Any, str, int]]) -> None:
        for index, part in enumerate(self.parts):
            mine = [row for row in rows if self._owner(row[0]) == index]
            if mine:
                batch = RowBatch([(key, value) for key, value, _ in mine], [stamp for *_, stamp in mine])
                part._take(part._operator.process(batch, 0))

    def _owner(self, key: Any) -> int:
        return subtask_of_key_group(key_group(normal_key(key), 128), len(self.parts), 128)

    def collect(self) -> None:
        for part in self.parts:
            self.fired += part.values()
            self.late += [record.value[1] for record in part.side_output(LATE)]
            part.clear_output()


def sequences(fired: list[Any], *, ordered: bool) -> dict[Any, list[str]]:
    """Return what each window of each key gave, in order; of merged windows the order of the records is open."""
    found: dict[Any, list[str]] = {}
    for key, window, text in fired:
        found.setdefault((key, window), []).append(text if ordered else "".join(sorted(text)))
    return found


@pytest.mark.behaviour(186)
@given(jobs(), st.lists(STEPS, max_size=14))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_windows_are_those_of_a_plain_model(job: Any, steps: list[Any]) -> None:
    note(f"{job}")
    assigner, trigger, lateness, evictor, _ = job
    model = WindowModel(assigner, trigger or assigner.get_default_trigger(None), lateness, evictor)
    with tempfile.TemporaryDirectory() as directory:
        real = Job(Path(directory), job)
        for kind, what in [*steps, ("tick", 100), ("watermark", LAST)]:
            getattr(real, kind)(what, model)
            real.collect()
            ordered = not model.merges
            assert sequences(real.fired, ordered=ordered) == sequences(model.fired, ordered=ordered), (kind, what)
            assert sorted(real.late) == sorted(model.late), (kind, what)
