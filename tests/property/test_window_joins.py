"""Window joins and co-groups: in any order of things, what meets is what meets in the windows of the plain model.

The store has room for almost nothing: what is not being changed is read from the disk.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.property.test_windows import ALIGNED, SESSIONS, STEPS, Job
from tests.property.window_model import LAST, WindowModel

from penstock._builders.windows.joined_functions import KeyOfTagged, grouping, joining
from penstock.datastream.functions import CoGroupFunction, FlatJoinFunction
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    TimeEvictor,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

WINDOWS = (*ALIGNED, *SESSIONS, TumblingEventTimeWindows(10, 3), TumblingProcessingTimeWindows(10, 0))


def side_of(value: str) -> int:
    """Return the stream of a record: 0 or 1."""
    return ord(value) % 2


class Groups(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Any:
        [key] = {key for key, _ in (*first, *second)}
        yield key, texts(first), texts(second)


def texts(records: Any) -> str:
    return "".join(sorted(value for _, value in records))


class Few(FlatJoinFunction):
    """One or two results of a pair."""

    def join(self, first: Any, second: Any) -> Any:
        assert first[0] == second[0]
        for _ in range(1 + ord(first[1]) % 4 // 2):
            yield first[0], first[1], second[1]


def pair(first: Any, second: Any) -> Any:
    return first[0], first[1], second[1]


class Both(Job):
    """The subtasks of a join or a co-group."""

    select = KeyOfTagged(lambda record: record[0], lambda record: record[0])
    record = staticmethod(lambda record: (side_of(record[1]), record))

    def __init__(self, job: Any, function: Any) -> None:
        self.function = function
        super().__init__(job)

    def collect(self) -> None:
        super().collect()
        self.late = [record[1] if isinstance(record, tuple) else record for record in self.late]


def grouped(key: Any, first: str, second: str) -> list[Any]:
    return [(key, first, second)]


def paired(key: Any, first: str, second: str) -> list[Any]:
    return [(key, one, other) for one in first for other in second]


def paired_by_few(key: Any, first: str, second: str) -> list[Any]:
    return [made for made in paired(key, first, second) for _ in range(1 + ord(made[1]) % 4 // 2)]


FUNCTIONS = {"co-group": (grouping(Groups()), grouped), "join": (joining(pair), paired)}
FUNCTIONS["flat join"] = joining(Few()), paired_by_few


@st.composite
def jobs(draw: Any) -> Any:
    assigner = draw(st.sampled_from([*WINDOWS, GlobalWindows.create()]))
    counting = isinstance(assigner, GlobalWindows)
    trigger = draw(st.sampled_from([CountTrigger(3), PurgingTrigger(CountTrigger(4))])) if counting else None
    evictors = [None, None, CountEvictor.of(3), TimeEvictor(5)]
    evictor = None if isinstance(assigner, EventTimeSessionWindows) else draw(st.sampled_from(evictors))
    return assigner, trigger, draw(st.sampled_from([0, 0, 4, 30])), evictor, {}


@pytest.mark.parametrize("kind", FUNCTIONS)
@given(jobs(), st.lists(STEPS, max_size=14))
@settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.too_slow])
def test_what_meets_is_what_meets_in_the_windows_of_the_model(kind: str, job: Any, steps: list[Any]) -> None:
    note(f"{job}")
    assigner, trigger, lateness, evictor, _ = job
    function, meeting = FUNCTIONS[kind]
    model = WindowModel(assigner, trigger or assigner.get_default_trigger(None), lateness, evictor)
    with Both(job, function) as real:
        for step, what in [*steps, ("tick", 100), ("watermark", LAST)]:
            getattr(real, step)(what, model)
            real.collect()
            expected: Counter[Any] = Counter()
            for key, _, fired, _ in model.fired:
                sides = ["".join(sorted(value for value in fired if side_of(value) == side)) for side in (0, 1)]
                expected.update(meeting(key, *sides))
            assert Counter(real.fired) == expected, (step, what)
            assert sorted(real.late) == sorted(model.late), (step, what)
