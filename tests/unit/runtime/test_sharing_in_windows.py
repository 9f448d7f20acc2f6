"""A record is folded into each of its windows as if no other window had it, and each result of a window likewise.

Windows overlap where an assigner returns several, and fire several times where a trigger says so. A function that
changes its arguments must give there what one gives that changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.runtime.sharing import FORMS, Form, Giver, Gives
from tests.unit.runtime.test_sharing import ALL, Part, assert_same, outputs_of

from penstock.datastream.functions import AggregateFunction, ProcessWindowFunction, ReduceFunction
from penstock.datastream.window import EventTimeTrigger, Evictor, TimeWindow, TriggerResult, WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Overlapping(WindowAssigner):
    """Windows of four milliseconds, one of them at each."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        return [TimeWindow(start, start + 4) for start in range(timestamp - 3, timestamp + 1)]

    def is_event_time(self) -> bool:
        return True


class Long(WindowAssigner):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        return [TimeWindow(0, 1000)]

    def is_event_time(self) -> bool:
        return True


class EachRecord(EventTimeTrigger):
    """Fires at each record, and at the end of the window."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        super().on_element(element, timestamp, window, ctx)
        return TriggerResult.FIRE


class LastTwo(Evictor):
    def evict_before(self, elements: Any, size: int, window: Any, ctx: Any) -> Any:
        return list(elements)[-2:]

    def evict_after(self, elements: Any, size: int, window: Any, ctx: Any) -> Any:
        return elements


WINDOWS: dict[str, Callable[[Any], Any]] = {
    "overlapping": lambda keyed: keyed.window(Overlapping()),
    "overlapping-with-lateness": lambda keyed: keyed.window(Overlapping()).allowed_lateness(100),
    "overlapping-evicted": lambda keyed: keyed.window(Overlapping()).trigger(EachRecord()).evictor(LastTwo()),
    "firing-often": lambda keyed: keyed.window(Long()).trigger(EachRecord()),
    "firing-often-evicted": lambda keyed: keyed.window(Long()).trigger(EachRecord()).evictor(LastTwo()),
}


class Folding(Gives):
    """Changes all that it gets, unless it is pure."""

    def spoilt(self, value: Any, number: int) -> Any:
        if self.giver.pure:
            return self.giver.form.make(number)
        self.giver.form.put(value, number)
        return value


class IntoTheSecond(Folding, ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        read = self.giver.form.read
        number = read(value1) + read(value2)
        self.spoilt(value1, -1)
        return self.spoilt(value2, number)


class IntoTheFirst(Folding, ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        read = self.giver.form.read
        number = read(value1) + read(value2)
        self.spoilt(value2, -1)
        return self.spoilt(value1, number)


class Gathering(Folding, AggregateFunction):
    """Keeps all records, and counts up those that it keeps."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        read = self.giver.form.read
        return [self.spoilt(kept, read(kept) + 100) for kept in [*accumulator, value]]

    def get_result(self, accumulator: list[Any]) -> Any:
        read = self.giver.form.read
        return [self.spoilt(kept, read(kept) + 1000) for kept in accumulator]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise NotImplementedError


class Spoiling(Folding, ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        read = self.giver.form.read
        for value in elements:
            yield self.spoilt(value, read(value) * 10)


def _folded(part: Part, window: Callable[[Any], Any]) -> None:
    """Have one stream in four windows."""
    habit = Giver(part.form, "mutates", pure=part.pure)
    keyed = part.keyed()
    part.collect(window(keyed).reduce(IntoTheSecond(habit)), name="second")
    part.collect(window(keyed).reduce(IntoTheFirst(habit)), name="first")
    part.collect(window(keyed).aggregate(Gathering(habit)), name="gathered")
    part.collect(window(keyed).process(Spoiling(habit)), name="processed")


@pytest.mark.parametrize(
    ("windows", "form", "reuse"),
    [
        (windows, form, reuse)
        for row, windows in enumerate(WINDOWS)
        for column, form in enumerate(FORMS)
        for number, reuse in enumerate(("true", "false"))
        if ALL or (row + column) % len(FORMS) == 3 * number
    ],
)
def test_a_record_is_each_windows_and_each_results_own(windows: str, form: str, reuse: str, tmp_path: Path) -> None:
    def operator(part: Part) -> None:
        _folded(part, WINDOWS[windows])

    kept: Form = FORMS[form]
    outputs = outputs_of(operator, kept, "mutates", tmp_path, **{"pipeline.object-reuse": reuse})
    assert_same(outputs["chained"], outputs["pure"])
    assert_same(outputs["over-an-edge"], outputs["pure"])
