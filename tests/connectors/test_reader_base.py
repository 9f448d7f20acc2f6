"""SourceReaderBase with fetchers that the test feeds by hand."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common.configuration import Configuration
from penstock.datastream.connectors.base import InputStatus, SourceSplit
from penstock.datastream.connectors.reader_base import (
    RecordEmitter,
    RecordEvaluator,
    RecordsWithSplitIds,
    SourceReaderBase,
    SplitFetcherManager,
    SplitReader,
)
from penstock.errors import SplitFetchError
from penstock.testing.connector_contexts import RecordingOutput, TestReaderContext

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.datastream.connectors.base import SourceOutput

Batch = RecordsWithSplitIds[int]
WAIT_MS = 10_000


@dataclass(frozen=True)
class Split(SourceSplit):
    name: str
    offset: int = 0

    def split_id(self) -> str:
        return self.name


class State:
    def __init__(self, split: Split) -> None:
        self.split, self.offset = split, split.offset


class FedReader(SplitReader[int, Split]):
    """Fetches what the test puts into `feed`; an exception in there is raised."""

    def __init__(self) -> None:
        self.feed: queue.Queue[Batch | Exception] = queue.Queue()
        self.splits: list[str] = []
        self.removed: list[str] = []
        self.paused: list[str] = []
        self.added = threading.Semaphore(0)
        self.closed = threading.Event()
        self.close_error: Exception | None = None
        self.deaf = False

    def fetch(self) -> Batch:
        item = self.feed.get()
        if isinstance(item, Exception):
            raise item
        return item

    def add_splits(self, splits: Sequence[Split]) -> None:
        self.splits += [split.name for split in splits]
        self.added.release()

    def remove_splits(self, split_ids: Sequence[str]) -> None:
        self.removed += split_ids

    def pause_or_resume_splits(self, splits_to_pause: Sequence[str], splits_to_resume: Sequence[str]) -> None:
        self.paused += splits_to_pause

    def wake_up(self) -> None:
        if not self.deaf:
            self.feed.put(Batch())

    def close(self) -> None:
        self.closed.set()
        if self.close_error is not None:
            raise self.close_error


class Emitter(RecordEmitter[int, int, State]):
    def emit_record(self, element: int, output: SourceOutput[int], split_state: State) -> None:
        output.collect(element)
        split_state.offset += 1


class StopAt(RecordEvaluator[int]):
    def __init__(self, last: int) -> None:
        self.last = last

    def is_end_of_stream(self, record: int) -> bool:
        return record == self.last


class Reader(SourceReaderBase[int, int, Split, State]):
    def __init__(self, **options: Any) -> None:
        self.made: list[FedReader] = []
        self.finished: dict[str, int] = {}
        evaluator = options.pop("evaluator", None)
        configuration = Configuration.from_dict({"source.reader.close.timeout": options.pop("timeout", "5 s")})
        manager = SplitFetcherManager[int, Split](self._make, configuration, **options)
        super().__init__(manager, Emitter(), TestReaderContext(), evaluator)

    def _make(self) -> FedReader:
        self.made.append(FedReader())
        return self.made[-1]

    def initialized_state(self, split: Split) -> State:
        return State(split)

    def to_split_type(self, split_id: str, split_state: State) -> Split:
        return replace(split_state.split, offset=split_state.offset)

    def on_split_finished(self, finished_split_ids: dict[str, State]) -> None:
        self.finished.update({name: state.offset for name, state in finished_split_ids.items()})


@pytest.fixture
def output() -> RecordingOutput:
    return RecordingOutput()


@pytest.fixture
def reader() -> Iterator[Reader]:
    made = Reader()
    yield made
    made.close()


def poll_until(reader: Reader, output: RecordingOutput, wanted: InputStatus = InputStatus.NOTHING_AVAILABLE) -> None:
    """Poll, waiting for the fetchers where there is nothing, until a poll answers as wanted."""
    reader.is_available(WAIT_MS)
    while reader.poll_next(output) is not wanted:
        pass


def test_end_of_input_waits_for_records_fetched_before_the_fetcher_ended(
    reader: Reader, output: RecordingOutput
) -> None:
    reader.add_splits([Split("a")])
    reader.notify_no_more_splits()
    assert reader.poll_next(output) is InputStatus.NOTHING_AVAILABLE
    reader.made[0].feed.put(Batch({"a": [1, 2]}, frozenset({"a"})))
    assert reader.made[0].closed.wait(WAIT_MS / 1000)  # dry, so it shut down; its batch is still queued
    assert reader.poll_next(output) is InputStatus.MORE_AVAILABLE
    assert output.records == [1, 2]
    assert reader.poll_next(output) is InputStatus.END_OF_INPUT


def test_splits_finish_at_once_or_later_in_an_empty_batch(reader: Reader, output: RecordingOutput) -> None:
    reader.add_splits([Split("a"), Split("b"), Split("c")])
    feed = reader.made[0].feed
    feed.put(Batch({"a": [1], "b": [2], "c": [3, 4]}, frozenset({"a", "b"})))
    poll_until(reader, output)
    assert reader.finished == {"a": 1, "b": 1}
    assert reader.snapshot_state(1) == [Split("c", 2)]
    reader.poll_next(output)
    feed.put(Batch({}, frozenset({"c"})))
    poll_until(reader, output)
    assert reader.finished == {"a": 1, "b": 1, "c": 2}
    assert reader.snapshot_state(2) == []
    assert output.open_splits == set()


def test_fetch_error_surfaces_from_every_later_poll_with_its_cause(reader: Reader, output: RecordingOutput) -> None:
    reader.add_splits([Split("a")])
    reader.made[0].feed.put(ConnectionError("the broker is gone"))
    assert reader.is_available(WAIT_MS)
    for _ in range(2):
        with pytest.raises(SplitFetchError, match="the broker is gone") as caught:
            reader.poll_next(output)
        assert isinstance(caught.value.__cause__, ConnectionError)


@pytest.mark.behaviour(95)
def test_one_fetcher_for_all_splits_or_for_each_or_a_few_for_many() -> None:
    abc = ["a", "b", "c"]
    for options, expected in (
        ({}, [abc]),
        ({"fetcher_per_split": True}, [[name] for name in abc]),
        ({"fetchers": 2}, [["a", "c"], ["b"]]),
        ({"fetchers": 5}, [[name] for name in abc]),
    ):
        reader = Reader(**options)
        reader.add_splits([Split(name) for name in abc])
        assert all(made.added.acquire(timeout=WAIT_MS / 1000) for made in reader.made)
        assert [made.splits for made in reader.made] == expected
        reader.close()
        assert all(made.closed.is_set() for made in reader.made)


@pytest.mark.behaviour(95)
def test_later_splits_go_to_the_fetcher_with_the_fewest_and_a_dry_one_makes_room(output: RecordingOutput) -> None:
    reader = Reader(fetchers=2)
    reader.add_splits([Split("a"), Split("b"), Split("c")])
    reader.add_splits([Split("d"), Split("e")])
    first, second = reader.made
    assert all(made.added.acquire(timeout=WAIT_MS / 1000) for made in (first, first, second, second))
    assert (first.splits, second.splits) == (["a", "c", "e"], ["b", "d"])
    second.feed.put(Batch({"b": [1], "d": [2]}, frozenset({"b", "d"})))
    assert second.closed.wait(WAIT_MS / 1000)
    reader.add_splits([Split("f")])
    assert reader.made[2].added.acquire(timeout=WAIT_MS / 1000)
    assert reader.made[2].splits == ["f"]
    poll_until(reader, output)
    assert (output.records, sorted(reader.finished)) == ([1, 2], ["b", "d"])
    reader.close()


def test_new_split_after_a_dry_fetcher_starts_another(reader: Reader, output: RecordingOutput) -> None:
    reader.add_splits([Split("a")])
    reader.made[0].feed.put(Batch({"a": [1]}, frozenset({"a"})))
    assert reader.made[0].closed.wait(WAIT_MS / 1000)
    poll_until(reader, output)
    reader.add_splits([Split("b")])
    reader.made[1].feed.put(Batch({"b": [2]}))
    poll_until(reader, output)
    assert output.records == [1, 2]


def test_evaluator_ends_a_split_before_its_bound_and_drops_the_rest_of_its_batch(output: RecordingOutput) -> None:
    reader = Reader(evaluator=StopAt(3))
    reader.add_splits([Split("a"), Split("b")])
    reader.made[0].feed.put(Batch({"a": [1, 2, 3, 4], "b": [5]}))
    poll_until(reader, output)
    assert output.records == [1, 2, 5]
    assert list(reader.finished) == ["a"]
    assert [split.name for split in reader.snapshot_state(1)] == ["b"]
    reader.poll_next(output)
    reader.made[0].feed.put(Batch({"a": [6], "b": [7]}, frozenset({"a"})))
    poll_until(reader, output)
    assert output.records == [1, 2, 5, 7]
    reader.close()
    assert reader.made[0].removed == ["a"]


def test_snapshot_in_the_middle_of_a_batch_counts_emitted_records_only(reader: Reader, output: RecordingOutput) -> None:
    reader.add_splits([Split("a", 100)])
    reader.made[0].feed.put(Batch({"a": list(range(20_000))}))
    assert reader.is_available(WAIT_MS)
    reader.poll_next(output)
    emitted = len(output.records)
    assert 0 < emitted < 20_000
    assert reader.snapshot_state(1) == [Split("a", 100 + emitted)]


def test_no_fetch_runs_between_a_snapshot_and_the_next_poll(reader: Reader, output: RecordingOutput) -> None:
    reader.add_splits([Split("a")])
    fed = reader.made[0]
    fed.feed.put(Batch({"a": [1]}))
    poll_until(reader, output)
    reader.snapshot_state(1)
    while not fed.feed.empty():  # the wake-up, if it came late
        fed.feed.get()
    fed.feed.put(Batch({"a": [2]}))
    assert not reader.is_available(50)
    assert fed.feed.qsize() == 1
    reader.poll_next(output)
    assert reader.is_available(WAIT_MS)
    poll_until(reader, output)
    assert output.records == [1, 2]


def test_paused_splits_reach_the_split_reader(reader: Reader, output: RecordingOutput) -> None:
    reader.add_splits([Split("a"), Split("b")])
    reader.pause_or_resume_splits(["b"], [])
    reader.made[0].feed.put(Batch({"a": [1]}))
    poll_until(reader, output)
    reader.close()
    assert reader.made[0].paused == ["b"]


def test_close_reports_a_failed_close_as_the_cause() -> None:
    reader = Reader()
    reader.add_splits([Split("a")])
    reader.made[0].close_error = OSError("cannot close")
    with pytest.raises(SplitFetchError, match="cannot close"):
        reader.close()
    reader.close()


def test_close_gives_up_after_its_timeout() -> None:
    reader = Reader(timeout="20 ms")
    reader.add_splits([Split("a")])
    fed = reader.made[0]
    fed.deaf = True
    with pytest.raises(SplitFetchError, match="within 20 ms"):
        reader.close()
    fed.feed.put(Batch())
    assert fed.closed.wait(WAIT_MS / 1000)
