"""Pipelined epochs: what their tasks send while they read, how slots are shared out, and what is refused."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.clock import measure_by_the_clock
from tests.kit.crafted import crafted_pickle
from tests.kit.exchange import SETTINGS
from tests.kit.settings import configured
from tests.kit.stories import Sheet, Story

from penstock._engine.driver.assembly import check_settings
from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.rows import PayloadKind, slot_target
from penstock._engine.runtime.row_buffer import ExchangeRow, RowBuffer, RowSeals, rows_of
from penstock._engine.spark.places import numbers, towards
from penstock.common import Time, TimestampAssigner, WatermarkStrategy
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.base import InputStatus, SourceReader
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import ConfigurationError, DamagedBlockError
from penstock.testing.in_process import InProcessEpochRunner
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PIPELINED = {**SETTINGS, "interval": "1 s"}


class Count(KeyedProcessFunction):
    """Counts, and tells the count again a little later."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 5)
        yield "count", value % 3, self.count.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "timer", ctx.get_current_key(), None


def program(sheet: Sheet) -> None:
    numbers = sheet.source("numbers", *(list(range(first, first + 10)) for first in (0, 10, 20)))
    others = sheet.source("others", list(range(30, 40)))
    numbers.set_parallelism(3)
    counts = numbers.union(others).key_by(lambda number: number % 3).process(Count()).uid("count").set_parallelism(2)
    sheet.collect(counts.map(lambda told: told).uid("told"))


@pytest.fixture(autouse=True)
def by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    measure_by_the_clock(monkeypatch)


def counted(story: Story) -> Counter[Any]:
    return Counter(told[1:] for told in story.output() if told[0] == "count")


TRUTH = Counter((key, count + 1) for key in range(3) for count in range(len(range(key, 40, 3))))


@pytest.mark.parametrize("slots", [2, 5])
def test_results_are_those_of_blocking_epochs(tmp_path: Path, slots: int) -> None:
    story = Story(tmp_path, slots=slots, workers=2)
    assert story.run(program, **PIPELINED).status is JobStatus.FINISHED
    assert counted(story) == TRUTH


def test_stopped_job_goes_on_exactly_with_either_exchange(tmp_path: Path) -> None:
    story = Story(tmp_path)
    first = story.run(program, asks={2: StopMode.SUSPEND}, **PIPELINED)
    story.run(program, recover=first.savepoint, interval="1 s")
    assert counted(story) == TRUTH


class OwnTime(TimestampAssigner):
    """A record is its own time."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


class AtOnce(ListSource):
    """Emits all records of its lists in one poll, as readers of partitions do; no list goes on behind it."""

    def create_reader(self, reader_context: Any) -> Any:
        return AtOnceReader(reader_context, self._lists)


class AtOnceReader(SourceReader[Any, Any]):
    def __init__(self, context: Any, lists: list[list[Any]]) -> None:
        self._context, self._lists, self._splits = context, lists, 0

    def start(self) -> None:
        for _ in self._lists:
            self._context.send_split_request()

    def add_splits(self, splits: Any) -> None:
        self._splits += len(splits)

    def notify_no_more_splits(self) -> None: ...

    def poll_next(self, output: Any) -> InputStatus:
        if self._splits < len(self._lists):
            return InputStatus.NOTHING_AVAILABLE
        for number, records in enumerate(self._lists):
            output.create_output_for_split(str(number)).collect_all(records)
        for number in range(1, len(self._lists)):
            output.release_output_for_split(str(number))
        return InputStatus.END_OF_INPUT

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return []


def test_timers_between_two_batches_of_a_poll_make_no_record_late(tmp_path: Path) -> None:
    def slowly(time_ms: int) -> int:
        time.sleep(0.02)  # longer than a timer of processing time waits
        return time_ms

    def write(sheet: Sheet) -> None:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnTime())
        times = sheet.source("times", [36_000_000], [32_400_000, 33_000_000], timestamps=strategy, kind=AtOnce)
        windows = times.map(slowly).key_by(lambda _: 0).window(TumblingEventTimeWindows.of(Time.minutes(1)))
        sheet.collect(windows.reduce(lambda one, other: one + other).uid("sums"))

    story = Story(tmp_path)
    assert story.run(write, **PIPELINED).status is JobStatus.FINISHED
    assert sorted(story.output()) == [32_400_000, 33_000_000, 36_000_000]


def test_levels_have_slots_of_their_own(tmp_path: Path) -> None:
    chapter = Story(tmp_path, slots=5).run(program, **PIPELINED)
    assert [sum(plan.levels[0].widths) for plan in chapter.runner.plans[:-1]] == [5] * (len(chapter.runner.plans) - 1)


def test_job_goes_on_where_a_host_is_lost_and_fewer_slots_than_levels_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deeper(sheet: Sheet) -> None:
        numbers = sheet.source("numbers", *(list(range(first, first + 10)) for first in (0, 10, 20, 30)))
        counts = numbers.set_parallelism(4).key_by(lambda number: number % 3).process(Count()).uid("count")
        sheet.collect(counts.key_by(lambda told: told[1]).map(lambda told: told).uid("told"))

    known = [("a", "b", "c", "d")]
    monkeypatch.setattr("penstock._engine.driver.assembly.anywhere", lambda _: known.pop() if known else ("a", "b"))
    story = Story(tmp_path)
    chapter = story.run(deeper, **PIPELINED)
    assert chapter.status is JobStatus.FINISHED, chapter.error
    assert counted(story) == TRUTH
    # A slot for each level: where two are left, Spark refuses the epoch until there are others.
    assert [plan.levels[0].widths for plan in chapter.runner.plans[:2]] == [(1, 1, 1, 1)] * 2


KEY, EPOCH, SLOT = b"k" * 32, "7 1 0", 1
SEALS = RowSeals(KEY, EPOCH, 1)


def rows() -> Iterator[ExchangeRow]:
    yield ExchangeRow(SLOT, 65536, 3, 0, 77, PayloadKind.DATA, b"records")
    yield ExchangeRow(SLOT, slot_target(1, SLOT), 0, 0, 77, PayloadKind.TICK, b"")


def passed_on(seals: RowSeals) -> list[ExchangeRow]:
    """Return rows as they are between two tasks."""
    buffer = RowBuffer(seals)
    for row in rows():
        buffer.add(row)
    return list(rows_of([buffer.drain()]))


def read(sent: list[ExchangeRow], slot: int = SLOT) -> list[ExchangeRow]:
    buffer = RowBuffer()
    for row in sent:
        buffer.add(row)
    return list(rows_of([buffer.drain()], SEALS, slot))


def test_sealed_rows_are_read_as_they_were() -> None:
    assert read(passed_on(RowSeals(KEY, EPOCH, 1))) == list(rows())


def test_rows_are_read_as_they_were_on_several_hosts_where_a_number_stands_for_the_slot() -> None:
    buffer = RowBuffer(SEALS)
    for row in rows():
        buffer.add(row)
    [batch] = towards(numbers(SLOT + 1), lambda batches: batches)(iter([buffer.drain()]))
    assert batch.column(0).to_pylist() != [SLOT, SLOT]
    assert list(rows_of([batch], SEALS, SLOT)) == list(rows())


@given(st.sampled_from(ExchangeRow._fields), st.integers(0, 1), st.binary(max_size=30))
def test_row_that_no_task_has_sent_so_is_not_decoded(field: str, place: int, payload: bytes) -> None:
    sent = passed_on(SEALS)
    before = sent[place]
    sent[place] = replace_field(before, field, payload)
    if sent[place] == before:
        return
    with pytest.raises(DamagedBlockError, match="no task of this job has sent it so"):
        read(sent)


def replace_field(row: ExchangeRow, field: str, payload: bytes) -> ExchangeRow:
    return row._replace(**{field: payload if field == "payload" else getattr(row, field) + 1})


@pytest.mark.parametrize(
    ("key", "epoch", "level"),
    [(b"j" * 32, EPOCH, 1), (KEY, "7 2 0", 1), (KEY, EPOCH, 2)],
    ids=["other key", "earlier", "other level"],
)
def test_row_of_another_run_attempt_or_level_is_not_decoded(key: bytes, epoch: str, level: int) -> None:
    with pytest.raises(DamagedBlockError):
        read(passed_on(RowSeals(key, epoch, level)))


def test_row_that_was_sent_to_another_slot_is_not_decoded() -> None:
    with pytest.raises(DamagedBlockError, match="no task of this job has sent it so"):
        read(passed_on(SEALS), 0)


@pytest.mark.parametrize("data", [None, b"", b"short"])
def test_row_with_a_part_that_is_missing_is_not_decoded(data: bytes | None) -> None:
    batch = pa.RecordBatch.from_pylist([{"slot": SLOT, "row": data}], schema=RowBuffer().drain().schema)
    with pytest.raises(DamagedBlockError, match="a part of it is missing"):
        list(rows_of([batch], SEALS, SLOT))


# ------------------------------------------------------------------------------------------- rows that others send


class Stranger:
    """Stands between the levels of an epoch, once, where records pass.

    Args:
        act: Gets rows that pass, rows of the same place in an earlier epoch, and a pickle; returns what is passed on.
        marker: A file that is made where the pickle is decoded.
    """

    def __init__(self, act: Act, marker: Path) -> None:
        self._act, self._pickle = act, crafted_pickle(marker)
        self.has_acted = False
        self._earlier: list[ExchangeRow] = []

    def between(self, rows: list[ExchangeRow]) -> list[ExchangeRow]:
        """Return the rows that a task gets in place of those that were sent to it."""
        if self.has_acted or not any(row.kind == PayloadKind.DATA for row in rows):
            return rows
        earlier, self._earlier = self._earlier, rows
        if not earlier:
            return rows
        self.has_acted = True
        return self._act(rows, earlier, self._pickle)


Act = Callable[[list[ExchangeRow], list[ExchangeRow], bytes], list[ExchangeRow]]


def with_a_pickle(rows: list[ExchangeRow], _: list[ExchangeRow], crafted: bytes) -> list[ExchangeRow]:
    place = next(place for place, row in enumerate(rows) if row.kind == PayloadKind.DATA)
    made = rows[place]._replace(payload=rows[place].payload[:16] + b"\0" + crafted)
    return [*rows[:place], made, *rows[place + 1 :]]


def with_a_crafted_end(rows: list[ExchangeRow], _: list[ExchangeRow], crafted: bytes) -> list[ExchangeRow]:
    return [rows[0]._replace(kind=PayloadKind.CLOSING, payload=crafted), *rows]


def with_too_much(rows: list[ExchangeRow], _: list[ExchangeRow], crafted: bytes) -> list[ExchangeRow]:
    return [rows[0]._replace(payload=b"\0" + crafted + bytes(64 << 20)), *rows]


def with_too_little(rows: list[ExchangeRow], _: list[ExchangeRow], crafted: bytes) -> list[ExchangeRow]:
    return [rows[0]._replace(payload=crafted[:3]), *rows]


def with_earlier_rows(rows: list[ExchangeRow], earlier: list[ExchangeRow], _: bytes) -> list[ExchangeRow]:
    return [*earlier, *rows]


def with_rows_twice(rows: list[ExchangeRow], *_: Any) -> list[ExchangeRow]:
    return [each for row in rows for each in (row, row)]


def with_the_last_first(rows: list[ExchangeRow], *_: Any) -> list[ExchangeRow]:
    return rows[::-1]


def without_records(rows: list[ExchangeRow], *_: Any) -> list[ExchangeRow]:
    return [row for row in rows if row.kind != PayloadKind.DATA]


ACTS = [
    with_a_pickle,
    with_a_crafted_end,
    with_too_much,
    with_too_little,
    with_earlier_rows,
    with_rows_twice,
    with_the_last_first,
    without_records,
]


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_rows_of_a_stranger_are_not_decoded_and_the_epoch_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Act
) -> None:
    stranger, read = Stranger(act, tmp_path / "unpickled"), InProcessEpochRunner._read
    monkeypatch.setattr(InProcessEpochRunner, "_read", lambda *given: stranger.between(read(*given)))
    story = Story(tmp_path)
    chapter = story.run(program, restart="fixed-delay", attempts="1", delay="0 s", **PIPELINED)
    assert stranger.has_acted
    assert chapter.status is JobStatus.FINISHED, chapter.error
    assert counted(story) == TRUTH
    assert not (tmp_path / "unpickled").exists()


@pytest.mark.parametrize("kind", [PayloadKind.DATA, PayloadKind.CLOSING, PayloadKind.ACK], ids=lambda kind: kind.name)
def test_row_that_is_sent_again_within_an_epoch_changes_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: PayloadKind
) -> None:
    again, read = list[ExchangeRow](), InProcessEpochRunner._read

    def twice(*given: Any) -> list[ExchangeRow]:
        rows = read(*given)
        if not again:
            again.extend(row for row in rows if row.kind == kind)
            return rows + again
        return rows

    monkeypatch.setattr(InProcessEpochRunner, "_read", twice)
    story = Story(tmp_path)
    chapter = story.run(program, restart="fixed-delay", attempts="1", delay="0 s", **PIPELINED)
    assert again
    assert chapter.status is JobStatus.FINISHED, chapter.error
    assert counted(story) == TRUTH


def test_end_of_a_channel_that_overtakes_its_records_makes_none_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, changed = InProcessEpochRunner._read, list[bool]()

    def ends_first(*given: Any) -> list[ExchangeRow]:
        rows = read(*given)
        ends = [row for row in rows if row.kind == PayloadKind.CLOSING]
        if changed or not ends or not any(row.kind == PayloadKind.DATA for row in rows):
            return rows
        changed.append(True)
        return [*ends, *(row for row in rows if row not in ends)]

    def write(sheet: Sheet) -> None:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnTime())
        times = sheet.source("times", [5_000, 6_000, 70_000], timestamps=strategy)
        windows = times.key_by(lambda _: 0).window(TumblingEventTimeWindows.of(Time.minutes(1)))
        sheet.collect(windows.reduce(lambda one, other: one + other).uid("sums"))

    monkeypatch.setattr(InProcessEpochRunner, "_read", ends_first)
    story = Story(tmp_path)
    chapter = story.run(write, restart="fixed-delay", attempts="1", delay="0 s", **PIPELINED)
    assert changed
    assert chapter.status is JobStatus.FINISHED, chapter.error
    assert sorted(story.output()) == [11_000, 70_000]


def test_rows_that_are_sent_to_another_slot_too_are_not_decoded_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = InProcessEpochRunner._read
    monkeypatch.setattr(
        InProcessEpochRunner,
        "_read",
        lambda self, attempts, slot: read(self, attempts, slot) + (read(self, attempts, 1) if slot == 0 else []),
    )
    chapter = Story(tmp_path, slots=8).run(program, restart="none", **PIPELINED)
    assert chapter.status is JobStatus.FAILED
    assert "no task of this job has sent it so" in str(chapter.error)


def test_job_that_may_not_start_again_names_what_a_stranger_has_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger, read = Stranger(with_a_pickle, tmp_path / "unpickled"), InProcessEpochRunner._read
    monkeypatch.setattr(InProcessEpochRunner, "_read", lambda *given: stranger.between(read(*given)))
    chapter = Story(tmp_path).run(program, restart="none", **PIPELINED)
    assert chapter.status is JobStatus.FAILED
    assert "no task of this job has sent it so" in str(chapter.error)
    assert not (tmp_path / "unpickled").exists()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"execution.runtime-mode": "BATCH"}, "one stage after the other"),
        ({"interval": ""}, "set execution.checkpointing.interval"),
        ({"penstock.exchange.trusted-network": "false"}, "Set penstock.exchange.trusted-network to true"),
    ],
    ids=["batch", "no interval", "network"],
)
def test_what_a_pipelined_exchange_is_not_for_is_refused_before_anything_starts(
    changed: dict[str, str], words: str
) -> None:
    configuration = configured(**{key: value for key, value in {**PIPELINED, **changed}.items() if value})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1, 2]).print()
    graph = build_job_graph(env._stream_graph("numbers"))
    with pytest.raises(ConfigurationError, match=words):
        check_settings(graph, configuration)
