"""Watermarks of splits and alignment groups against a plain model: any order of splits, waits, ends and restarts."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit.aligned import LOG, WAIT, AlignedJob

from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock.datastream.functions import ProcessFunction

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
