"""Sources: watermarks over several splits, budgets, and readers that are made again from their splits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.epochs import Job
from tests.kit.program import Program

from penstock.common.time import Duration
from penstock.common.watermark_strategy import (
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from penstock.datastream import ProcessFunction
from penstock.datastream.connectors.base import Boundedness, InputStatus, Source, SourceReader, SourceSplit
from penstock.testing.clock import ManualClock
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from pathlib import Path


CLOCK = ManualClock(1_000)


class Second(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1]


@dataclass(frozen=True)
class Part(SourceSplit):
    """A list of which each poll reads one item; its name is its number, by which the tests' job assigns it."""

    name: str
    items: tuple[Any, ...]

    def split_id(self) -> str:
        return self.name


class InTurns(Source[Any, Any, Any]):
    """Reads one record of each of its splits in turn, as a reader of partitions does; "wait" has nothing for now."""

    def __init__(self, *parts: Part, into_main: bool = False) -> None:
        self.parts, self.into_main = parts, into_main
        self._lists = parts  # what the tests' job counts splits by

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, enum_context: Any) -> Any:
        raise AssertionError

    def restore_enumerator(self, enum_context: Any, checkpoint: Any) -> Any:
        raise AssertionError

    def create_reader(self, reader_context: Any) -> SourceReader[Any, Any]:
        return InTurnsReader(self)


class InTurnsReader(SourceReader[Any, Any]):
    def __init__(self, source: InTurns) -> None:
        self.source = source
        self.open: list[Part] = []

    def start(self) -> None: ...

    def add_splits(self, splits: Any) -> None:
        # The tests' job assigns splits by number.
        self.open += [split if isinstance(split, Part) else self.source.parts[split.number] for split in splits]

    def notify_no_more_splits(self) -> None: ...

    def poll_next(self, output: Any) -> InputStatus:
        if not self.open:
            return InputStatus.END_OF_INPUT
        part = self.open.pop(0)
        if part.items and part.items[0] == "wait":
            CLOCK.advance(100)  # so long does the reader look for a record in vain
        elif part.items:
            place = output if self.source.into_main else output.create_output_for_split(part.name)
            place.collect(part.items[0])
        if len(part.items) > 1:
            self.open.append(replace(part, items=part.items[1:]))
        else:
            output.release_output_for_split(part.name)
        return InputStatus.MORE_AVAILABLE

    def is_available(self, timeout_ms: int) -> bool:
        return True

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return list(self.open)

    def close(self) -> None: ...


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def watermark_after(job: Job, epochs: int) -> int:
    """Run epochs of one poll each; return the source's watermark."""
    for _ in range(epochs):
        job.epoch(1, max_time_ms=0)
    return job.acks[0, 0].watermark


def job_with_an_edge(program: Program, place: Path, source: InTurns, strategy: WatermarkStrategy, **runner: Any) -> Job:
    stream = program.env.from_source(source, strategy, "in turns")
    program.collect(stream.rebalance().map(lambda record: record).set_parallelism(2))
    return Job(program.graph(), place, InProcessEpochRunner(**runner))


def bounded() -> WatermarkStrategy:
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())


def records(name: str, *times: int) -> Part:
    return Part(name, tuple((name, time) for time in times))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_assigned_split_holds_the_watermark_back_before_its_first_record(
    program: Program, tmp_path: Path, workers: int
) -> None:
    source = InTurns(records("0", 100, 200), records("1", 50, 60))
    job = job_with_an_edge(program, tmp_path, source, bounded(), workers=workers, seed=4)
    assert watermark_after(job, 1) < 0
    assert watermark_after(job, 1) == 49


class Patient(InTurns):
    def create_reader(self, reader_context: Any) -> SourceReader[Any, Any]:
        return PatientReader(self)


class PatientReader(InTurnsReader):
    """Waits 30 ms before each further record."""

    def poll_next(self, output: Any) -> InputStatus:
        return InputStatus.NOTHING_AVAILABLE if super().poll_next(output) is InputStatus.MORE_AVAILABLE else END

    def is_available(self, timeout_ms: int) -> bool:
        CLOCK.advance(30)
        return True


END = InputStatus.END_OF_INPUT


@pytest.mark.parametrize(
    ("source", "waited_ms"),
    [(InTurns(Part("0", ("wait", "wait", ("0", 1)))), 200), (Patient(records("0", 1, 2, 3)), 90)],
    ids=["in vain", "for records"],
)
def test_time_in_which_a_source_waits_is_no_work(
    program: Program, tmp_path: Path, source: InTurns, waited_ms: int
) -> None:
    job = job_with_an_edge(program, tmp_path, source, bounded(), clock=CLOCK)
    job.epoch()
    assert job.acks[0, 0].io.waited_ms == waited_ms
    assert job.acks[0, 0].io.busy_ms < waited_ms


def test_the_watermark_is_the_smallest_of_the_splits(program: Program, tmp_path: Path) -> None:
    job = job_with_an_edge(program, tmp_path, InTurns(records("0", 100, 200, 300), records("1", 50, 60, 70)), bounded())
    assert [watermark_after(job, 1) for _ in range(4)][1:] == [49, 49, 59]


class AfterPairs(WatermarkGenerator):
    """Emits with every second record that it sees: generators of splits count for themselves."""

    def __init__(self) -> None:
        self.seen = 0

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        self.seen += 1
        if self.seen % 2 == 0:
            output.emit_watermark(event_timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None: ...


@pytest.mark.behaviour(193)
@pytest.mark.parametrize("workers", [1, 3])
def test_each_split_has_its_own_generator_also_after_its_reader_was_made_again(
    program: Program, tmp_path: Path, workers: int
) -> None:
    source = InTurns(records("0", 100, 200, 300, 400), records("1", 50, 60, 70, 80))
    strategy = WatermarkStrategy.for_generator(lambda context: AfterPairs()).with_timestamp_assigner(Second())
    job = job_with_an_edge(program, tmp_path, source, strategy, workers=workers, seed=5)
    assert [watermark_after(job, 1) for _ in range(8)][2:] == [-(2**63), 60, 60, 60, 60, 80]


def test_the_watermark_goes_on_when_a_slow_split_ends(program: Program, tmp_path: Path) -> None:
    job = job_with_an_edge(program, tmp_path, InTurns(records("0", 100, 200), records("1", 50)), bounded())
    assert watermark_after(job, 2) == 99


def test_an_idle_split_does_not_hold_the_others_back(program: Program, tmp_path: Path) -> None:
    quiet = Part("1", (("b", 50), *["wait"] * 100))
    strategy = bounded().with_idleness(Duration.of_millis(200))
    source = InTurns(Part("0", tuple(("a", 100 * n) for n in range(1, 9))), quiet)
    job = job_with_an_edge(program, tmp_path, source, strategy, clock=CLOCK.now_ms)
    assert watermark_after(job, 4) == 49
    assert watermark_after(job, 3) > 49


class Silent(InTurns):
    """Its reader has no splits, so it answers at once that nothing comes; it never ends."""

    def create_reader(self, reader_context: Any) -> SourceReader[Any, Any]:
        return SilentReader(self)


class SilentReader(InTurnsReader):
    def poll_next(self, output: Any) -> InputStatus:
        return InputStatus.NOTHING_AVAILABLE

    def is_available(self, timeout_ms: int) -> bool:
        return False


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("idle_ms", [1, 20, 50, 51, 240, 300, 501])
def test_a_source_without_splits_is_idle_after_its_timeout_however_short_epochs_are(
    program: Program, tmp_path: Path, idle_ms: int, workers: int
) -> None:
    strategy = bounded().with_idleness(Duration.of_millis(idle_ms))
    busy = program.env.from_source(InTurns(records("0", *range(100, 1_500, 100))), bounded(), "busy")
    quiet = program.env.from_source(Silent(), strategy, "quiet")
    program.collect(busy.union(quiet).process(Watermarks()))
    clock = ManualClock(1_000)
    runner = InProcessEpochRunner(workers=workers, seed=idle_ms, clock=clock.now_ms, sleep=clock.advance)
    job, epochs = Job(program.graph(), tmp_path, runner), 0
    while max(job.epoch(1, max_time_ms=250)["out"], default=0) <= 0:
        epochs += 1
    assert clock.now_ms() - 1_000 <= idle_ms + 1
    assert epochs <= 3 + idle_ms // 250


def test_a_reader_that_uses_its_main_output_alone_is_not_held_back_by_silent_splits(
    program: Program, tmp_path: Path
) -> None:
    source = InTurns(records("0", 100, 200), records("1", 150, 160), into_main=True)
    job = job_with_an_edge(program, tmp_path, source, bounded())
    assert watermark_after(job, 1) == 99


def test_watermarks_do_not_go_back_when_the_reader_is_made_again(program: Program, tmp_path: Path) -> None:
    source = InTurns(records("0", 100, 110, 120, 130), records("1", 50, 60, 70, 80))
    job = job_with_an_edge(program, tmp_path, source, bounded(), workers=3, seed=8)
    seen: list[int] = []
    while not job.finished:
        seen.append(watermark_after(job, 1))
    assert seen == sorted(seen)


class Watermarks(ProcessFunction):
    """The watermark that each record meets."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield ctx.timer_service().current_watermark()


def test_watermarks_do_not_go_back_when_an_idle_split_has_records_again(program: Program, tmp_path: Path) -> None:
    late = Part("1", (("b", 50), *["wait"] * 5, ("b", 60), ("b", 70), ("b", 80)))
    source = InTurns(records("0", *range(100, 1_500, 100)), late)
    stream = program.env.from_source(source, bounded().with_idleness(Duration.of_millis(200)), "in turns")
    program.collect(stream.process(Watermarks()))
    seen = Job(program.graph(), tmp_path, InProcessEpochRunner(clock=CLOCK.now_ms)).run()["out"]
    assert max(seen) > 500  # the other one has gone on
    assert seen == sorted(seen)


def test_an_epoch_reads_no_more_than_its_budget_of_records(program: Program, tmp_path: Path) -> None:
    program.collect(program.source(list(range(10))))
    job = Job(program.graph(), tmp_path)
    assert [job.epoch(size)["out"] for size in (1, 4, 2)] == [[0], [1, 2, 3, 4], [5, 6]]
    assert any(part.more_available for part in job.acks[0, 0].operators.values())


def test_an_epoch_without_time_still_reads_one_poll(program: Program, tmp_path: Path) -> None:
    program.collect(program.source(list(range(3))))
    job = Job(program.graph(), tmp_path)
    assert [job.epoch(100, max_time_ms=0)["out"] for _ in range(3)] == [[0], [1], [2]]


def test_an_epoch_ends_once_its_edges_took_more_than_its_budget_of_bytes(program: Program, tmp_path: Path) -> None:
    numbers = program.source(list(range(100))).map(lambda number: (number, b"x" * 10_000))
    program.collect(numbers.key_by(lambda pair: pair[0]).map(lambda pair: pair[0]).set_parallelism(2))
    job = Job(program.graph(), tmp_path)
    assert sorted(job.epoch(max_bytes=75_000)["out"]) == list(range(8))
    assert any(part.more_available for part in job.acks[0, 0].operators.values())
    assert sorted(job.epoch(max_bytes=1)["out"]) == [8]
    assert sorted(job.epoch(max_bytes=2_000_000)["out"]) == list(range(9, 100))


def test_a_chain_that_ends_in_its_own_sink_has_no_budget_of_bytes(program: Program, tmp_path: Path) -> None:
    program.collect(program.source([b"x" * 10_000] * 10))
    assert len(Job(program.graph(), tmp_path).epoch(max_bytes=1)["out"]) == 10


def test_records_with_and_without_timestamps_may_come_from_one_reader(program: Program, tmp_path: Path) -> None:
    class Mixed(InTurnsReader):
        def poll_next(self, output: Any) -> InputStatus:
            output.collect("stamped", 7)
            output.collect("plain")
            self.open.clear()
            return InputStatus.END_OF_INPUT

    class MixedSource(InTurns):
        def create_reader(self, reader_context: Any) -> Any:
            return Mixed(self)

    from penstock.datastream.functions import ProcessFunction

    class Times(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value, ctx.timestamp()

    stream = program.env.from_source(MixedSource(), WatermarkStrategy.no_watermarks(), "mixed")
    program.collect(stream.process(Times()))
    assert Job(program.graph(), tmp_path).run()["out"] == [("stamped", 7), ("plain", -(2**63))]
