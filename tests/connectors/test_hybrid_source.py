"""Sources that follow each other: each begins when all readers have come to the end of the one before."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.driving import CrashError, Driven, Epochs
from tests.kit.program import Program

from penstock._connectors.number_sequence import NumberSequenceEnumerator, NumberSequenceReader, split_range
from penstock._engine.coordinator import instructions as do
from penstock.common import Encoder
from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream.connectors.base import Boundedness, FunctionSource, SourceEvent
from penstock.datastream.connectors.datagen import DataGeneratorSource
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink
from penstock.datastream.connectors.hybrid_source import HybridSource, SourceSwitchContext
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.errors import UnsupportedOperationError
from penstock.testing.source_contract import SourceContract, SourceRun

if TYPE_CHECKING:
    from pathlib import Path


def three(context: SourceSwitchContext) -> NumberSequenceSource:
    assert context.get_previous_enumerator().snapshot_state(0) == []
    return NumberSequenceSource(2001, 3000)


def hybrid() -> HybridSource:
    builder = HybridSource.builder(NumberSequenceSource(1, 1500)).add_source(NumberSequenceSource(1501, 2000))
    return builder.add_source(three, Boundedness.BOUNDED).build()


@pytest.mark.behaviour(104, 105)
def test_contract() -> None:
    SourceContract(hybrid, range(1, 3001)).check_all()


@pytest.mark.behaviour(104)
def test_no_record_of_a_source_comes_before_the_end_of_the_one_before() -> None:
    run = SourceRun(hybrid(), 3)
    backlog: list[bool] = []
    while not run.finished:
        before = len(run.records)
        run.epoch(polls=1)
        backlog.append(run.context.processing_backlog)
        for low, high in ((1, 1500), (1501, 2000), (2001, 3000)):
            if any(low <= number <= high for number in run.records[before:]):
                assert set(range(1, low)) <= set(run.records)
    assert sorted(run.records) == list(range(1, 3001))
    assert backlog[0]
    assert not backlog[-1]


@dataclass(frozen=True)
class Said(SourceEvent):
    """What a reader of a source says with each checkpoint, and its enumerator repeats."""

    source: str


class Talking(NumberSequenceSource):
    """Notes who hears what."""

    def __init__(self, name: str, heard: list[tuple[str, str]], start: int, end: int) -> None:
        super().__init__(start, end)
        self.name, self.heard = name, heard

    def create_enumerator(self, enum_context: Any) -> NumberSequenceEnumerator:
        source, parts = self, split_range(self._start, self._end, enum_context.current_parallelism)

        class Enumerator(NumberSequenceEnumerator):
            def handle_source_event(self, subtask_id: int, source_event: Any) -> None:
                source.heard.append((f"enumerator of {source.name}", source_event.source))
                enum_context.send_event_to_source_reader(subtask_id, source_event)

        return Enumerator(enum_context, parts)

    def create_reader(self, reader_context: Any) -> NumberSequenceReader:
        source = self

        class Reader(NumberSequenceReader):
            def snapshot_state(self, checkpoint_id: int) -> Any:
                reader_context.send_source_event_to_coordinator(Said(source.name))
                return super().snapshot_state(checkpoint_id)

            def handle_source_events(self, source_event: Any) -> None:
                source.heard.append((f"reader of {source.name}", source_event.source))

        return Reader(reader_context)


def test_what_a_source_says_at_its_end_is_not_heard_by_the_next_one() -> None:
    heard: list[tuple[str, str]] = []
    first, second = (Talking(name, heard, start, start + 99) for name, start in (("first", 1), ("second", 101)))
    run = SourceRun(HybridSource.builder(first).add_source(second).build(), 2)
    assert sorted(run.run_to_end(polls=1)) == list(range(1, 201))
    assert set(heard) == {
        (f"{who} of {name}", name) for who in ("enumerator", "reader") for name in ("first", "second")
    }


def test_calls_of_an_enumerator_are_answered_until_its_source_has_ended() -> None:
    answers: list[Any] = []

    class Calling(NumberSequenceSource):
        def create_enumerator(self, enum_context: Any) -> NumberSequenceEnumerator:
            enum_context.call_async(lambda: "looked", lambda result, error: answers.append((result, error)), 0, 1_000)
            return super().create_enumerator(enum_context)

    second = NumberSequenceSource(101, 200)
    run = SourceRun(HybridSource.builder(Calling(1, 100)).add_source(second).build(), 2)
    run.context.run_async_calls()
    assert answers == [("looked", None)]
    assert sorted(run.run_to_end(polls=1)) == list(range(1, 201))
    answers.clear()
    run.context.run_async_calls()
    assert answers == []


def test_sources_after_an_endless_one_and_functions_without_boundedness_are_refused() -> None:
    builder = HybridSource.builder(DataGeneratorSource(str))
    with pytest.raises(UnsupportedOperationError, match="the one before never ends"):
        builder.add_source(NumberSequenceSource(1, 2))
    with pytest.raises(UnsupportedOperationError, match="give the Boundedness"):
        HybridSource.builder(NumberSequenceSource(1, 2)).add_source(three)
    endless = HybridSource.builder(NumberSequenceSource(1, 2)).add_source(DataGeneratorSource(str)).build()
    assert endless.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED


def job(place: Path, parallelism: int = 2, **settings: str) -> Driven:
    program = Program(
        place, parallelism, checkpoints=str(place / "checkpoints"), inline="0 b", interval="1 s", **settings
    )

    def follow(split: str, offset: int | None) -> Any:
        for number in range(20 if offset is None else offset, 40):
            yield number, number + 1

    first = FunctionSource.of_iterable(lambda: range(20))
    source = HybridSource.builder(first).add_source(lambda _: FunctionSource(follow), Boundedness.BOUNDED).build()
    stream = program.env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    sink = FileSink.for_row_format(str(place / "out"), Encoder.simple_string_encoder())
    stream.sink_to(sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()).uid("out")
    return Driven(program.env, place / "state", Epochs(4))


@pytest.mark.behaviour(105)
def test_a_driver_that_dies_before_or_behind_the_switch_reads_each_record_once(tmp_path: Path) -> None:
    whole = job(tmp_path / "whole")
    whole.run()
    assert whole.driver.status is JobStatus.FINISHED, whole.driver.result.exception()
    epochs = len(whole.of(do.RunEpoch))
    for epoch in range(2, epochs + 1, 2):
        place = tmp_path / str(epoch)
        killed = job(place)

        def kill(step: Any, killed: Driven = killed, epoch: int = epoch) -> None:
            if isinstance(step, do.RunEpoch) and len(killed.of(do.RunEpoch)) == epoch:
                raise CrashError

        killed.watchers.append(kill)
        with suppress(CrashError):
            killed.run()
        again = job(place, 2 + epoch % 4 // 2, recover="latest")
        again.run()
        assert again.driver.status is JobStatus.FINISHED, again.driver.result.exception()
        lines = [line for path in (place / "out").glob("part-*") for line in path.read_text().splitlines()]
        assert sorted(map(int, lines)) == list(range(40)), epoch
