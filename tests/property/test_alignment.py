"""Watermarks of splits and alignment groups against a plain model: any order of splits, waits, ends and restarts."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit.aligned import LOG, WAIT, AlignedJob
from tests.kit.stories import Sheet, Story

from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock.common import Duration, WatermarkStrategy
from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream.functions import ProcessFunction

if TYPE_CHECKING:
    from penstock._engine.spark.session import SparkHandle

_IDLE_MS = 250
_WAIT_MS = 100


class Watermarks(ProcessFunction):
    """The watermark that each record meets, and the record."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield ctx.timer_service().current_watermark(), *value


@dataclass
class Split:
    """What Flink's rules say of one split: its watermark, and the time without records in which it could be read."""

    watermark: int = MIN_WATERMARK
    quiet_ms: int = 0
    paused: bool = False


@dataclass
class Reader:
    """What they say of one reader."""

    idles: bool
    splits: dict[int, Split] = field(default_factory=dict)
    top: int = MIN_WATERMARK
    has_read: bool = False

    def speaking(self) -> list[Split]:
        return [split for split in self.splits.values() if not (self.idles and split.quiet_ms >= _IDLE_MS)]

    def advance(self) -> None:
        self.top = max(self.top, min((split.watermark for split in self.speaking()), default=MIN_WATERMARK))

    def follow(self, what: str, which: Any, time: int = 0) -> None:
        """Note one thing that the reader did."""
        match what:
            case "open":
                self.splits = {number: self.splits.get(number, Split()) for number in which}
            case "end":
                del self.splits[which]
            case "wait":
                for split in self.splits.values():
                    split.quiet_ms += 0 if split.paused else _WAIT_MS
            case "record":
                split, self.has_read = self.splits[which], True
                split.watermark, split.quiet_ms = max(split.watermark, time - 1), 0
            case _:
                for number in which:
                    self.splits[number].paused = what == "pause"
        self.advance()

    def restart(self) -> None:
        for split in self.splits.values():
            split.quiet_ms, split.paused = 0, False

    @property
    def counts(self) -> int:
        """The watermark that holds its group back, at the end of an epoch."""
        silent = not self.speaking() or not (self.splits or self.has_read)
        return MAX_WATERMARK if silent or self.top == MIN_WATERMARK else self.top


@dataclass(frozen=True)
class Drawn:
    """One source."""

    splits: list[list[Any]]
    drift_ms: int
    parallelism: int
    idles: bool
    stays: bool


items = st.lists(st.one_of(st.integers(0, 80), st.just(WAIT)), max_size=8)
rising = items.map(lambda drawn: [item for item in drawn if item is WAIT] + sorted(i for i in drawn if i is not WAIT))
sources = st.builds(
    Drawn,
    splits=st.lists(st.one_of(items, rising), max_size=3),
    drift_ms=st.integers(0, 30),
    parallelism=st.integers(1, 2),
    idles=st.booleans(),
    stays=st.booleans(),
)
#: The records that an epoch may read, and whether the job is started again behind it.
epochs = st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=6)


@pytest.mark.behaviour(192, 193)
@settings(max_examples=settings().max_examples // 3, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=st.lists(sources, min_size=1, max_size=3), epochs=epochs)
def test_no_reader_is_ahead_of_the_rules_and_all_come_to_their_end(
    drawn: list[Drawn], epochs: list[tuple[int, bool]]
) -> None:
    with tempfile.TemporaryDirectory() as place:
        _run(AlignedJob(Path(place)), drawn, epochs)


def _run(job: AlignedJob, drawn: list[Drawn], epochs: list[tuple[int, bool]]) -> None:
    readers: dict[tuple[int, int], Reader] = {}
    for number, source in enumerate(drawn):
        readers |= {(number, subtask): Reader(source.idles) for subtask in range(source.parallelism)}
        job.source(
            *source.splits,
            drift_ms=source.drift_ms,
            idle_ms=_IDLE_MS if source.idles else None,
            parallelism=source.parallelism,
            stays=source.stays,
            then=lambda stream: stream.process(Watermarks()),
        )
    expected = sum(item is not WAIT for source in drawn for split in source.splits for item in split)
    read, others = 0, dict.fromkeys(readers, MAX_WATERMARK)
    for number in range(1_000):
        if read == expected:
            break
        limit, restarts = epochs[number % len(epochs)]
        LOG.clear()
        outputs = job.epoch(limit)
        for at, reader in readers.items():
            reader.has_read = False
            marks = [record for record in outputs[at[0]] if record[1] % drawn[at[0]].parallelism == at[1]]
            done = iter(marks)
            for _, _, what, *which in [entry for entry in LOG if entry[:2] == at]:
                if what == "record":
                    mark, split, time = next(done)
                    assert [split, time] == which
                    assert mark <= reader.top
                    _check_drift(reader, split, others[at], drawn[at[0]].drift_ms)
                reader.follow(what, *which)
            read += len(marks)
        counts = {at: reader.counts for at, reader in readers.items()}
        others = {
            at: min([mark for other, mark in counts.items() if other != at], default=MAX_WATERMARK) for at in counts
        }
        if restarts:
            job.restart()
            for reader in readers.values():
                reader.restart()
    assert read == expected


def _check_drift(reader: Reader, split: int, others: int, drift_ms: int) -> None:
    """Check that a record may be read: what its split has reached is near enough to all others."""
    reached = reader.splits[split].watermark
    assert reached <= others + drift_ms
    if reader.top > MIN_WATERMARK:
        assert reached <= reader.top + drift_ms


# ------------------------------------------------------------------------------------------------- other sizes


class Stamped(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[-1]


aligned_lists = st.lists(st.lists(st.integers(0, 200), max_size=12).map(sorted), min_size=1, max_size=3)
aligned_jobs = st.lists(st.tuples(aligned_lists, st.integers(0, 40)), min_size=2, max_size=3)


@pytest.mark.behaviour(192)
@settings(max_examples=settings().max_examples // 5, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), drawn=aligned_jobs)
def test_a_group_that_is_stopped_and_rescaled_waits_for_no_one_for_ever_and_loses_nothing(
    data: st.DataObject, drawn: list[Any]
) -> None:
    check_sizes_of_groups(data, drawn)


def told(number: int, lists: list[list[int]]) -> list[list[tuple[int, int, int, int]]]:
    """Return records that say where they are from; their last field is their timestamp."""
    return [[(number, split, place, time) for place, time in enumerate(one)] for split, one in enumerate(lists)]


def check_sizes_of_groups(data: st.DataObject, drawn: list[Any], spark: SparkHandle | None = None) -> None:
    """Run a job of sources in a group, stop it, and go on at other sizes, to its end."""

    def write(sheet: Sheet) -> None:
        sizes = data.draw(st.lists(st.integers(1, 3), min_size=len(drawn), max_size=len(drawn)))
        for number, (lists, drift_ms) in enumerate(drawn):
            strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamped())
            strategy = strategy.with_watermark_alignment("group", Duration.of_millis(drift_ms))
            source = sheet.source(f"source-{number}", *told(number, lists), timestamps=strategy)
            stream = source.set_parallelism(sizes[number])
            sheet.collect(stream, f"out-{number}")

    story = Story.somewhere(records=data.draw(st.integers(1, 6)), slots=2)
    story.spark = spark
    try:
        origin: dict[str, str] = {}
        for _ in range(data.draw(st.integers(1, 2))):
            chapter = story.run(write, asks={data.draw(st.integers(1, 6)): StopMode.SUSPEND}, **origin)
            assert chapter.status in {JobStatus.FINISHED, JobStatus.CANCELED}, chapter.error
            origin = {"recover": chapter.savepoint} if chapter.answers else origin
            if chapter.status is JobStatus.FINISHED and not chapter.answers:
                break
        else:
            last = story.run(write, **origin)
            assert last.status is JobStatus.FINISHED, last.error
        for number, (lists, _) in enumerate(drawn):
            expected = [record for one in told(number, lists) for record in one]
            assert sorted(story.output(f"out-{number}")) == expected
    finally:
        shutil.rmtree(story.place)
