"""A uid that another kind of operator has now does not take the state with it, unless that can use it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.kit.cells import cells
from tests.kit.stories import EndlessSource, Sheet, Story
from tests.unit.driver.restore.test_finished_operators import Counts

from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock.common import Time, Types
from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import KeyedCoProcessFunction
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.window import TumblingProcessingTimeWindows
from penstock.errors import OtherOperatorError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from penstock.common import TypeInformation

NUMBERS = [number % 7 for number in range(30)]


class CountsOfTwo(KeyedCoProcessFunction):
    """Counts in the state of `Counts`."""

    open = Counts.open

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        yield from Counts.process_element(self, value, ctx)  # type: ignore[arg-type]

    process_element2 = process_element1


class OtherSource(EndlessSource):
    """A source of the same splits."""


def counts(key: Any = None, declared: TypeInformation | None = None) -> Callable[[Sheet], None]:
    def write(sheet: Sheet) -> None:
        keyed = sheet.source("numbers", NUMBERS).key_by(key or (lambda n: n), declared)
        sheet.collect(keyed.process(Counts()).uid("operator"))

    return write


def mapped(sheet: Sheet) -> None:
    sheet.collect(sheet.source("numbers", NUMBERS).map(lambda n: n).uid("operator"))


def reduced(sheet: Sheet) -> None:
    sheet.collect(sheet.source("numbers", NUMBERS).key_by(lambda n: n).reduce(max).uid("operator"))


def reduced_by_text(sheet: Sheet) -> None:
    sheet.collect(sheet.source("numbers", NUMBERS).key_by(str).reduce(max).uid("operator"))


def windows(sheet: Sheet) -> None:
    window = TumblingProcessingTimeWindows.of(Time.hours(10**6))
    sheet.collect(sheet.source("numbers", NUMBERS).key_by(lambda n: n).window(window).reduce(max).uid("operator"))


def of_two(sheet: Sheet) -> None:
    numbers = sheet.source("numbers", NUMBERS)
    both = numbers.connect(numbers.filter(lambda _: False)).key_by(lambda n: n, lambda n: n)
    sheet.collect(both.process(CountsOfTwo()).uid("operator"))


def reading(source: Any) -> Callable[[Sheet], None]:
    return lambda sheet: sheet.collect(
        sheet.env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    )


LISTS = reading(EndlessSource(NUMBERS))


@cells(
    "before, after, reason",
    {
        "map": (counts(), mapped, "it was of kind keyed_process, and is of kind map now"),
        "reduce": (counts(), reduced, "it was of kind keyed_process, and is of kind reduce now"),
        "window": (counts(), windows, "it was of kind keyed_process, and is of kind window now"),
        "no window": (windows, counts(), "it was of kind window, and is of kind keyed_process now"),
        "no reduce": (reduced, mapped, "it was of kind reduce, and is of kind map now"),
        "key type": (
            counts(declared=Types.INT()),
            counts(str, Types.STRING()),
            "its keys were of type number, and are of type text now",
        ),
        "rounded keys": (
            counts(float, Types.DOUBLE()),
            counts(float, Types.FLOAT()),
            "its keys were of type number, and are of type Float now",
        ),
        "key fields": (
            counts(lambda n: (n, n), Types.TUPLE([Types.INT(), Types.INT()])),
            counts(lambda n: (n, str(n)), Types.TUPLE([Types.INT(), Types.STRING()])),
            "TupleTypeInfo(number, number), and are of type TupleTypeInfo(number, text) now",
        ),
        "splits": (
            LISTS,
            reading(NumberSequenceSource(1, 10)),
            "its splits were ListSplit, and are NumberSequenceSplit now",
        ),
    },
)
def test_state_of_another_operator_is_refused_with_both_or_dropped_and_told(
    tmp_path: Path, before: Callable[[Sheet], None], after: Callable[[Sheet], None], reason: str
) -> None:
    story = Story(tmp_path)
    path = story.run(before, asks={4: StopMode.SUSPEND}).savepoint
    refused = story.run(after, recover=path, restart="exponential-delay")
    assert refused.status is JobStatus.FAILED
    assert not refused.runner.plans
    assert isinstance(refused.error, OtherOperatorError)
    assert reason in str(refused.error)
    assert "test_other_operators.py:" in str(refused.error)
    dropped = story.run(after, recover=path, ignore="true", asks={4: StopMode.SUSPEND})
    told = [step.text for step in dropped.steps if isinstance(step, do.LogMessage)]
    assert [text for text in told if f"(uid {refused.error.uid!r}) is dropped" in text]


@cells(
    "before, after",
    {
        "two inputs": (counts(), of_two),
        "one input": (of_two, counts()),
        "other numbers as keys": (counts(declared=Types.INT()), counts(declared=Types.LONG())),
        "declared keys": (counts(), counts(declared=Types.LONG())),
        "another source of the same splits": (LISTS, reading(OtherSource(NUMBERS))),
    },
)
def test_state_that_the_operator_can_use_is_restored(
    tmp_path: Path, before: Callable[[Sheet], None], after: Callable[[Sheet], None]
) -> None:
    story = Story(tmp_path)
    path = story.run(before, asks={4: StopMode.SUSPEND}).savepoint
    again = story.run(after, recover=path, asks={40: StopMode.SUSPEND})
    assert again.error is None
    found = sorted(map(str, story.output()))
    expected: list[Any] = [(n, times + 1) for n in range(7) for times in range(NUMBERS.count(n))]
    assert found == sorted(map(str, NUMBERS if before is LISTS else expected))


@cells(
    "before, after, told",
    {
        "texts": (counts(), counts(str), r"has keys like \d, and this run begins with keys of another kind, like '\d'"),
        "tuples": (counts(lambda n: (n,)), counts(lambda n: (n, n)), r"like \(\d,\), and .* like \(\d, \d\)"),
        "in a tuple": (
            counts(lambda n: (n, "a")),
            counts(lambda n: (n, 1)),
            r"like \(\d, 'a'\), .* like \(\d, 1\)",
        ),
        "reduced": (reduced, reduced_by_text, r"like \d, and .* like '\d'"),
        "other numbers": (counts(), counts(lambda n: n + 1.5), None),
        "some of another kind": (counts(), counts(lambda n: n if n else "none"), None),
        "the same": (counts(lambda n: f"{n}"), counts(str), None),
    },
)
def test_keys_of_another_kind_than_the_restored_ones_are_told_once(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    before: Callable[[Sheet], None],
    after: Callable[[Sheet], None],
    told: str | None,
) -> None:
    story = Story(tmp_path)
    path = story.run(before, asks={4: StopMode.SUSPEND}).savepoint
    caplog.clear()
    assert story.run(after, recover=path, ignore="true", asks={9: StopMode.SUSPEND}).error is None
    lines = [line.getMessage() for line in caplog.records if "of another kind" in line.getMessage()]
    assert len(lines) == (told is not None)
    assert told is None or re.search(told, lines[0])
