"""Savepoints with keys that are or hold rows with names, and with windows that have fired."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.savepoints import jobs
from tests.unit.savepoints.jobs import SEEN, OwnValue, environment, run

from penstock.common import Row, Types, WatermarkStrategy
from penstock.common.time import Time
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import KeyedProcessFunction, ProcessWindowFunction
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import UnknownStateError
from penstock.savepoint import KeyedEntry, Savepoint, SavepointWriter

if TYPE_CHECKING:
    from penstock.datastream import StreamExecutionEnvironment

#: The numbers that the job goes through; it has stopped within them.
NUMBERS = 8_400
SIZE = 700


class Totals(KeyedProcessFunction):
    """Adds up and counts in tens; a timer behind all numbers tells what came of it."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.tens = runtime_context.get_list_state(ListStateDescriptor("tens", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> None:
        self.total.update((self.total.value() or 0) + value)
        if value % 10 == 0:
            self.tens.add(value)
        ctx.timer_service().register_event_time_timer(10**9)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        SEEN.append(("total", ctx.get_current_key(), self.total.value(), sum(self.tens.get())))


class Windowed(ProcessWindowFunction):
    """Tells of each firing, and how often the key has seen one."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        fired = context.global_state().get_state(ValueStateDescriptor("fired"))
        fired.update((fired.value() or 0) + 1)
        SEEN.append(("window", key, context.window().start, sum(elements), fired.value()))
        yield len(SEEN)


def rest(value: int) -> Row:
    return Row(rest=value % 3, by="three")


def seen(pair: tuple[int, int]) -> None:
    SEEN.append(("reduced", *pair))


def program(env: StreamExecutionEnvironment, numbers: int = NUMBERS) -> None:
    """Add the job."""
    stamps = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnValue())
    source = env.from_source(NumberSequenceSource(0, numbers - 1), stamps, "numbers").uid("numbers")
    source.key_by(rest).process(Totals()).uid("totals").print()
    pairs = source.map(lambda value: (value % 3, value)).uid("pairs")
    pairs.key_by(lambda pair: (Row(rest=pair[0]), "nested")).reduce(
        lambda left, right: (left[0], left[1] + right[1])
    ).uid("reduced").map(seen).uid("seen").print()
    windows = source.key_by(rest).window(TumblingEventTimeWindows.of(Time.milliseconds(SIZE)))
    windows.allowed_lateness(10**12).process(Windowed()).uid("windows").print()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("rows")
    env = environment(2, checkpoints=f"{place}/checkpoints", inline="200 b")
    program(env)
    path = run(env, place, stop_in=2)[1]
    assert path is not None
    return Path(path.removeprefix("file:"))


def numbers_read(stopped: Path) -> list[int]:
    read = {
        split.subtask: split.split.next for split in Savepoint.open(str(stopped), classes=None).source_splits("numbers")
    }
    return [*range(read[0]), *range(NUMBERS // 2, read[1])]


def check(stopped: Path, place: Path, parallelism: int) -> None:
    """Go on from a savepoint to the end, and compare with what a job without a stop gives."""
    before = numbers_read(stopped)
    later = set(range(NUMBERS)) - set(before)
    env = environment(parallelism, recover=str(stopped), checkpoints=str(place / "checkpoints"))
    program(env)
    run(env, place)
    seen = jobs.SEEN
    totals = {key: (total, tens) for what, key, total, tens in (s for s in seen if s[0] == "total")}
    assert totals == {
        rest(part): (sum(range(part, NUMBERS, 3)), sum(n for n in range(part, NUMBERS, 3) if n % 10 == 0))
        for part in range(3)
    }
    reduced = {part: max(v for _, p, v in (s for s in seen if s[0] == "reduced") if p == part) for part in range(3)}
    assert reduced == {part: sum(range(part, NUMBERS, 3)) for part in range(3)}
    check_windows([s[1:] for s in seen if s[0] == "window"], before, later)


def check_windows(fired: list[tuple[Any, ...]], before: list[int], later: set[int]) -> None:
    """A window that had all of its records comes out once if it had not fired, else never; any other is whole last."""
    watermark = max(number for number in before if number < NUMBERS // 2)
    for start in range(0, NUMBERS, SIZE):
        for part in range(3):
            inside = [number for number in range(start, start + SIZE) if number % 3 == part]
            results = [total for key, at, total, _ in fired if (key, at) == (rest(part), start)]
            if later.isdisjoint(inside):
                assert results == ([] if start + SIZE - 1 <= watermark else [sum(inside)]), (part, start)
            else:
                assert results[-1] == sum(inside), (part, start)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_job_with_rows_as_keys_goes_on_and_windows_that_had_fired_do_not_again(
    stopped: Path, tmp_path: Path, parallelism: int
) -> None:
    check(stopped, tmp_path, parallelism)


def test_the_same_through_a_savepoint_that_was_written_anew(stopped: Path, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing(str(stopped), classes=None)
    for uid, state in (("totals", "total"), ("windows", "window-contents"), ("reduced", "reduce")):
        writer.transform_keyed_state(uid, state, lambda key, value: value)
    written = Path(writer.write(str(tmp_path / "written")))
    check(written, tmp_path, 3)


def test_windows_that_are_put_in_place_of_others_have_yet_to_fire_and_those_that_stay_keep_what_has_fired(
    stopped: Path, tmp_path: Path
) -> None:
    writer = SavepointWriter.from_existing(str(stopped), classes=None)
    stays = writer.transform_keyed_state("windows", "window-contents", lambda key, value: value)
    fired = Savepoint.open(stays.write(str(tmp_path / "stays")), classes=None).keyed_state("windows", "window-fired")
    watermark = max(number for number in numbers_read(stopped) if number < NUMBERS // 2) - 1
    whole = (watermark + 1) // SIZE * SIZE
    assert {entry.window for entry in fired} == {(start, start + SIZE) for start in range(0, whole, SIZE)} != set()
    writer = SavepointWriter.from_existing(stays._existing.path, classes=None)  # type: ignore[union-attr]
    entries = [KeyedEntry(rest(0), [1, 2], (0, SIZE))]
    writer.set_keyed_state("windows", "window-contents", entries, kind="window-elements")
    replaced = Savepoint.open(writer.write(str(tmp_path / "replaced")), classes=None)
    assert [entry.key for entry in replaced.windows("windows")] == [rest(0)]
    with pytest.raises(UnknownStateError, match="window-fired"):
        replaced.keyed_state("windows", "window-fired")
