"""A source whose readers fetch in threads passes the contract with one thread for all splits, one each, and a few."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.datastream.connectors.base import Boundedness, Source, SourceSplit
from penstock.datastream.connectors.enumerator_base import SplitQueueEnumerator
from penstock.datastream.connectors.reader_base import (
    RecordEmitter,
    RecordsWithSplitIds,
    SourceReaderBase,
    SplitFetcherManager,
    SplitReader,
)
from penstock.testing.source_contract import SourceContract

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.datastream.connectors.base import SourceOutput


@dataclass(frozen=True)
class Range(SourceSplit):
    name: str
    first: int
    end: int

    def split_id(self) -> str:
        return self.name


class RangeReader(SplitReader[int, Range]):
    """Fetches a few numbers of each of its splits, in turn."""

    def __init__(self) -> None:
        self.left: dict[str, Range] = {}

    def fetch(self) -> RecordsWithSplitIds[int]:
        records: dict[str, list[int]] = {}
        for name, part in list(self.left.items()):
            end = min(part.end, part.first + 30)
            records[name], self.left[name] = list(range(part.first, end)), replace(part, first=end)
        finished = frozenset(name for name, part in self.left.items() if part.first == part.end)
        self.left = {name: part for name, part in self.left.items() if name not in finished}
        return RecordsWithSplitIds(records, finished)

    def add_splits(self, splits: Sequence[Range]) -> None:
        self.left.update((split.name, split) for split in splits)

    def wake_up(self) -> None:
        """Do nothing: no fetch waits."""


@dataclass
class Progress:
    part: Range


class Emitter(RecordEmitter[int, int, Progress]):
    def emit_record(self, element: int, output: SourceOutput[int], split_state: Progress) -> None:
        output.collect(element)
        split_state.part = replace(split_state.part, first=element + 1)


class RangesReader(SourceReaderBase[int, int, Range, Progress]):
    def __init__(self, context: Any, threads: dict[str, Any]) -> None:
        super().__init__(SplitFetcherManager(RangeReader, context.configuration, **threads), Emitter(), context)
        self._context = context

    def start(self) -> None:
        self._context.send_split_request()

    def initialized_state(self, split: Range) -> Progress:
        return Progress(split)

    def to_split_type(self, split_id: str, split_state: Progress) -> Range:
        return split_state.part

    def on_split_finished(self, finished_split_ids: dict[str, Progress]) -> None:
        self._context.send_split_request()


class RangesEnumerator(SplitQueueEnumerator[Range, list[Range]]):
    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        for _ in range(3):  # a reader has several splits at a time
            super().handle_split_request(subtask_id, requester_hostname)

    def snapshot_state(self, checkpoint_id: int) -> list[Range]:
        return self.waiting_splits


class Ranges(Source[int, Range, list[Range]]):
    def __init__(self, threads: dict[str, Any]) -> None:
        self.threads = threads

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, enum_context: Any) -> RangesEnumerator:
        return self.restore_enumerator(enum_context, [Range(str(n), 100 * n, 100 * n + 100) for n in range(10)])

    def restore_enumerator(self, enum_context: Any, checkpoint: list[Range]) -> RangesEnumerator:
        return RangesEnumerator(enum_context, checkpoint)

    def create_reader(self, reader_context: Any) -> RangesReader:
        return RangesReader(reader_context, self.threads)


@pytest.mark.behaviour(95)
@pytest.mark.parametrize("threads", [{}, {"fetcher_per_split": True}, {"fetchers": 2}], ids=["one", "each", "few"])
def test_contract(threads: dict[str, Any]) -> None:
    SourceContract(lambda: Ranges(threads), range(1000)).check_all()
