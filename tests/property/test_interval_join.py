"""Records, watermarks, checkpoints, restores and rescalings in any order give the pairs that a plain model has.

The store has room for almost nothing: what is not being changed is read from the disk.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st
from tests.kit.subtasks import Subtasks

from penstock.datastream import OutputTag
from penstock.datastream.functions import ProcessJoinFunction
from penstock.testing import StreamRecord, TwoInputHarness

FIRST, LAST = -(1 << 63), (1 << 63) - 1
LATE = OutputTag("late left"), OutputTag("late right")
KEYS = ("a", "a", 7, ("b", 1))
STAMPS = st.integers(0, 15) | st.integers(0, 15) | st.integers(8, 30) | st.sampled_from([FIRST + 1, LAST - 3, LAST])
#: As much longer are times and bounds: the state is cut into slices of at least 250 ms.
SCALES = st.sampled_from([1, 40, 100])
STEPS = st.one_of(
    st.tuples(
        st.just("records"),
        st.tuples(st.integers(0, 1), st.lists(st.tuples(st.sampled_from(KEYS), STAMPS), min_size=1, max_size=6)),
    ),
    st.tuples(st.just("many"), st.tuples(st.integers(0, 1), st.sampled_from(KEYS), st.integers(0, 30))),
    st.tuples(st.just("watermark"), STAMPS),
    st.tuples(st.just("checkpoint"), st.booleans()),
    st.tuples(st.just("rescale"), st.integers(1, 3)),
)
BOUNDS = st.tuples(st.integers(-12, 12), st.integers(-12, 12)).map(sorted)


class Model:
    """The records that may still be joined, by side: key, number and timestamp."""

    def __init__(self, lower: int, upper: int) -> None:
        self.lower, self.upper = lower, upper
        self.watermark = FIRST
        self.sides: tuple[list[Any], list[Any]] = [], []
        self.pairs: list[Any] = []
        self.late: list[Any] = []

    def record(self, side: int, key: Any, number: int, stamp: int) -> None:
        if stamp < self.watermark:
            self.late.append((side, number))
            return
        for other_key, other, other_stamp in self.sides[1 - side]:
            left, right = (stamp, other_stamp) if side == 0 else (other_stamp, stamp)
            if other_key == key and self.lower <= right - left <= self.upper:
                numbers = (number, other) if side == 0 else (other, number)
                self.pairs.append((max(left, right), key, *numbers, left, right))
        if stamp + (self.upper, -self.lower)[side] >= self.watermark:
            self.sides[side].append((key, number, stamp))

    def advance(self, watermark: int) -> None:
        """A record goes when all that the last record of its slice could join would be late."""
        self.watermark = max(self.watermark, watermark)
        width = max(250, (self.upper - self.lower) // 4)
        for side, kept in zip(self.sides, (self.upper, -self.lower), strict=True):
            side[:] = [row for row in side if min(row[2] // width * width + width - 1, LAST) + kept >= self.watermark]


class Told(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        assert left[0] == right[0]
        yield left[0], left[1].pop(), right[1].pop(), ctx.get_left_timestamp(), ctx.get_right_timestamp()


class Job(Subtasks):
    """The subtasks of one operator, beside a model."""

    def __init__(self, lower: int, upper: int, scale: int, *, is_starved: bool) -> None:
        self._scale = scale
        self._options: Any = {"lower_ms": lower, "upper_ms": upper, "late": LATE}
        self._options |= {"state_memory_bytes": 1 if is_starved else None}
        self.pairs: list[Any] = []
        self.late: list[Any] = []
        self.number = 0
        super().__init__(partial(TwoInputHarness.for_interval_join, Told(), _key, _key, **self._options))

    def records(self, what: Any, model: Model) -> None:
        side, rows = what
        stamped = []
        for key, small in rows:
            stamp = _scaled(small, self._scale)
            self.number += 1
            stamped.append((key, self.number, stamp))
            model.record(side, key, self.number, stamp)
        for part, mine in self.by_part(stamped):
            process = part.process_records2 if side else part.process_records
            process([StreamRecord((key, [number]), stamp) for key, number, stamp in mine])

    def many(self, what: Any, model: Model) -> None:
        """More records of a key at close times than a short list has."""
        side, key, stamp = what
        self.records((side, [(key, stamp + place % 3) for place in range(20)]), model)

    def watermark(self, watermark: int, model: Model) -> None:
        watermark = _scaled(watermark, self._scale)
        model.advance(watermark)
        for part in self.parts:
            part.process_watermark(watermark)
            part.process_watermark2(watermark)

    def checkpoint(self, incremental: bool, model: Model) -> None:
        for part in self.parts:
            part.snapshot(incremental=incremental)

    def rescale(self, parallelism: int, model: Model) -> None:
        if parallelism != len(self.parts):
            model.watermark = FIRST
        self.restore(parallelism)

    def collect(self) -> None:
        for part in self.parts:
            found = [item for item in part.output() if isinstance(item, StreamRecord)]
            self.pairs += [(record.timestamp, *record.value) for record in found]
            for side, tag in enumerate(LATE):
                self.late += [(side, record.value[1][0]) for record in part.side_output(tag)]
            part.clear_output()


def _key(record: Any) -> Any:
    return record[0]


def _scaled(stamp: int, scale: int) -> int:
    """Return a longer time; the first and the last times there are stay what they are."""
    return stamp * scale if abs(stamp) < 1 << 32 else stamp


@given(BOUNDS, SCALES, st.booleans(), st.lists(STEPS, min_size=6, max_size=16))
@example([-5, 5], 1, True, [("records", (side, [("a", stamp)])) for side in (0, 1) for stamp in (4, 5, 10, 15, 16)])
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_pairs_are_those_of_a_plain_model(bounds: list[int], scale: int, is_starved: bool, steps: list[Any]) -> None:
    lower, upper = bounds[0] * scale, bounds[1] * scale
    note(f"{lower} {upper}")
    model = Model(lower, upper)
    with Job(lower, upper, scale, is_starved=is_starved) as real:
        for kind, what in steps:
            getattr(real, kind)(what, model)
            real.collect()
            assert sorted(real.pairs, key=repr) == sorted(model.pairs, key=repr), (kind, what)
            assert sorted(real.late) == sorted(model.late), (kind, what)
