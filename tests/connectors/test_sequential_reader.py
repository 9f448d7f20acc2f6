"""How far ahead a sequential reader asks for splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.datastream.connectors.base import InputStatus, SourceSplit
from penstock.datastream.connectors.reader_base import SequentialSourceReader, SplitCursor
from penstock.testing.connector_contexts import RecordingOutput, TestReaderContext

if TYPE_CHECKING:
    from penstock.datastream.connectors.base import SourceOutput


@dataclass(frozen=True)
class Split(SourceSplit):
    """A split of so many polls."""

    polls: int

    def split_id(self) -> str:
        return str(self.polls)


class Cursor(SplitCursor[int, Split]):
    def __init__(self, split: Split) -> None:
        self.left = split.polls

    def poll_next(self, output: SourceOutput[int]) -> InputStatus:
        output.collect(self.left)
        self.left -= 1
        return InputStatus.MORE_AVAILABLE if self.left else InputStatus.END_OF_INPUT

    def snapshot(self) -> Split:
        return Split(self.left)


class Reader(SequentialSourceReader[int, Split]):
    def open_split(self, split: Split) -> Cursor:
        return Cursor(split)


class Epochs:
    """A reader, and what it asks for at the end of each epoch."""

    def __init__(self) -> None:
        self.context = TestReaderContext()
        self.reader = Reader(self.context)

    def epoch(self, *assigned: int, polls: int = 1_000) -> int:
        if assigned:
            self.reader.add_splits([Split(polls) for polls in assigned])
        for _ in range(polls):
            if self.reader.poll_next(RecordingOutput()) is not InputStatus.MORE_AVAILABLE:
                break
        self.reader.snapshot_state(1)
        requests, self.context.split_requests = self.context.split_requests, 0
        return requests


def test_reader_of_a_long_split_asks_for_one_that_follows_it() -> None:
    reader = Epochs()
    assert reader.epoch(100, polls=10) == 1
    assert reader.epoch(100, polls=10) == 0
    assert reader.epoch(polls=85) == 1  # it has finished one, and is in its last one


def test_reader_that_ran_out_of_splits_asks_for_twice_as_many_as_it_finished() -> None:
    reader = Epochs()
    assert [reader.epoch(*[1] * count) for count in (1, 2, 4, 8)] == [2, 4, 8, 16]


def test_reader_that_did_not_asks_for_what_the_next_epoch_will_miss_at_the_same_pace() -> None:
    reader = Epochs()
    assert reader.epoch(*[1] * 16, polls=6) == 0
    assert reader.epoch(polls=6) == 6 - 4
    assert reader.epoch(*[1] * 2, polls=4) == 4 - 2


def test_reader_that_got_nothing_does_not_ask_again() -> None:
    reader = Epochs()
    assert [reader.epoch(), reader.epoch(), reader.epoch()] == [1, 0, 0]
    assert reader.epoch(1) == 2


def test_reader_that_knows_of_the_end_asks_for_nothing() -> None:
    reader = Epochs()
    reader.reader.notify_no_more_splits()
    assert reader.epoch(1, 1, polls=1) == 0
