"""The generator source with a clock that the test turns by hand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock._connectors.datagen import DataGeneratorReader, IndexSplit, deal_indices
from penstock.datastream.connectors.base import Boundedness, InputStatus
from penstock.datastream.connectors.datagen import DataGeneratorSource, GeneratorFunction, RateLimiterStrategy
from penstock.errors import ConfigurationError
from penstock.testing.connector_contexts import RecordingOutput, TestEnumeratorContext, TestReaderContext

if TYPE_CHECKING:
    from penstock.datastream.connectors.base import SourceReaderContext


class Clock:
    """Seconds; sleeping moves it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def reader_of(
    splits: list[IndexSplit], strategy: RateLimiterStrategy, clock: Clock, readers: int = 1, subtask: int = 0
) -> DataGeneratorReader:
    context = TestReaderContext(subtask, readers)
    reader = DataGeneratorReader(context, lambda index: index, strategy, clock.time, clock.sleep)
    reader.add_splits(splits)
    reader.notify_no_more_splits()
    reader.start()
    return reader


def drain(reader: DataGeneratorReader, output: RecordingOutput) -> InputStatus:
    while (status := reader.poll_next(output)) is InputStatus.MORE_AVAILABLE:
        pass
    return status


def test_rate_per_second_makes_what_is_due_and_no_more() -> None:
    clock, output = Clock(), RecordingOutput()
    reader = reader_of(deal_indices(None, 1), RateLimiterStrategy.per_second(100), clock)
    assert drain(reader, output) is InputStatus.NOTHING_AVAILABLE
    clock.now += 0.5
    drain(reader, output)
    assert len(output.records) == 51  # the first one is due at once


class BusyClock(Clock):
    """Moves whenever it is read, as it does on a busy machine."""

    def time(self) -> float:
        self.now += 0.001
        return self.now


def test_first_record_is_due_at_once_also_where_time_passes_within_the_poll() -> None:
    output = RecordingOutput()
    reader = reader_of(deal_indices(None, 1), RateLimiterStrategy.per_second(100), BusyClock())
    reader.poll_next(output)
    assert output.records


def test_rate_is_kept_by_readers_made_anew_at_each_epoch() -> None:
    clock, output = Clock(), RecordingOutput()
    splits = deal_indices(None, 1)
    for _ in range(100):
        reader = reader_of(splits, RateLimiterStrategy.per_second(100), clock)
        drain(reader, output)
        splits = reader.snapshot_state(1)
        clock.now += 0.1
    assert len(output.records) == 991
    assert output.records == list(range(991))


def test_readers_share_the_rate() -> None:
    clock, made = Clock(), 0
    readers = [
        reader_of([split], RateLimiterStrategy.per_second(100), clock, 4, subtask)
        for subtask, split in enumerate(deal_indices(None, 4))
    ]
    for _ in range(100):
        for reader in readers:
            output = RecordingOutput()
            drain(reader, output)
            made += len(output.records)
        clock.now += 0.1
    assert 990 <= made <= 1000


def test_after_a_long_pause_at_most_a_minute_is_caught_up() -> None:
    clock, output = Clock(), RecordingOutput()
    reader = reader_of(deal_indices(None, 1), RateLimiterStrategy.per_second(10), clock)
    drain(reader, output)
    clock.now += 3600
    output.records.clear()
    drain(reader, output)
    assert len(output.records) == 601


@pytest.mark.parametrize("back", [1, 60, 86_400])
def test_a_clock_that_was_set_back_since_the_snapshot_holds_the_next_record_up_for_one_interval(back: int) -> None:
    clock, output = Clock(), RecordingOutput()
    reader = reader_of(deal_indices(None, 1), RateLimiterStrategy.per_second(10), clock)
    drain(reader, output)
    clock.now -= back
    again = reader_of(reader.snapshot_state(1), RateLimiterStrategy.per_second(10), clock)
    assert again.is_available(101)
    drain(again, output)
    assert output.records == [0, 1]


def test_a_reader_goes_on_at_its_rate_while_the_clock_of_the_machine_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"time": 1_000_000.0, "monotonic": 5.0}
    monkeypatch.setattr(time, "time", lambda: times["time"])
    monkeypatch.setattr(time, "monotonic", lambda: times["monotonic"])
    reader = DataGeneratorReader(TestReaderContext(0, 1), int, RateLimiterStrategy.per_second(10))
    reader.add_splits(deal_indices(None, 1))
    output = RecordingOutput()
    for jump in (0, -3_600, 7_200, -60):
        drain(reader, output)
        times["time"] += jump
        times["monotonic"] += 0.101
    assert output.records == [0, 1, 2, 3]


def test_is_available_waits_until_the_next_record_is_due() -> None:
    clock, output = Clock(), RecordingOutput()
    reader = reader_of(deal_indices(None, 1), RateLimiterStrategy.per_second(2), clock)
    drain(reader, output)
    assert not reader.is_available(100)
    assert reader.is_available(1000)
    drain(reader, output)
    assert output.records == [0, 1]


def test_rate_per_checkpoint_is_shared_out_without_remainder() -> None:
    clock = Clock()
    made: list[int] = []
    for subtask, split in enumerate(deal_indices(None, 3)):
        output = RecordingOutput()
        reader = reader_of([split], RateLimiterStrategy.per_checkpoint(10), clock, 3, subtask)
        assert drain(reader, output) is InputStatus.NOTHING_AVAILABLE
        assert not reader.is_available(10)
        reader.snapshot_state(1)
        drain(reader, output)
        made.append(len(output.records))
    assert sum(made) == 20


@pytest.mark.parametrize("count", [None, 10])
def test_a_rate_per_checkpoint_that_leaves_a_reader_without_records_is_an_error(count: int | None) -> None:
    source = DataGeneratorSource(int, count, RateLimiterStrategy.per_checkpoint(2))
    for restored in (False, True):
        assert enumerator_of(source, 2, restored=restored) is not None
        with pytest.raises(ConfigurationError, match="each of the 3 subtasks"):
            enumerator_of(source, 3, restored=restored)


def enumerator_of(source: DataGeneratorSource, readers: int, *, restored: bool) -> Any:
    context: Any = TestEnumeratorContext(readers)
    return source.restore_enumerator(context, []) if restored else source.create_enumerator(context)


def test_one_reader_with_several_splits_serves_each() -> None:
    clock, output = Clock(), RecordingOutput()
    reader = reader_of(deal_indices(None, 3), RateLimiterStrategy.per_second(30), clock)
    for _ in range(10):
        drain(reader, output)
        clock.now += 0.1
    assert len({record % 3 for record in output.records}) == 3
    assert 25 <= len(output.records) <= 33


def test_generator_function_is_opened_before_and_closed_after() -> None:
    calls: list[Any] = []

    class Recorded(GeneratorFunction[int]):
        def open(self, reader_context: SourceReaderContext) -> None:
            calls.append(("open", reader_context.index_of_subtask))

        def map(self, value: int) -> int:
            calls.append(value)
            return value

        def close(self) -> None:
            calls.append("close")

    reader = DataGeneratorReader(TestReaderContext(), Recorded(), RateLimiterStrategy.no_op())
    reader.add_splits(deal_indices(2, 1))
    reader.notify_no_more_splits()
    reader.start()
    assert drain(reader, RecordingOutput()) is InputStatus.END_OF_INPUT
    reader.close()
    assert calls == [("open", 0), 0, 1, "close"]


def test_source_without_count_is_unbounded() -> None:
    assert DataGeneratorSource(str).get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED


@pytest.mark.parametrize("rate", [0, -1])
def test_rate_that_is_not_positive_is_refused(rate: int) -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        RateLimiterStrategy.per_second(rate)
