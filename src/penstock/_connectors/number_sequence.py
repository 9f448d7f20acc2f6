"""The source of the whole numbers of a range, with one contiguous part for each reader."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from penstock._api.connectors.enumerator_base import SplitQueueEnumerator
from penstock._api.connectors.reader import InputStatus
from penstock._api.connectors.reader_base.sequential import SequentialSourceReader, SplitCursor
from penstock._api.connectors.source import Boundedness, Source
from penstock._api.connectors.split import SourceSplit
from penstock._shelf import show
from penstock.common.typeinfo import Types

if TYPE_CHECKING:
    from penstock._api.connectors.reader import SourceOutput, SourceReaderContext
    from penstock._api.connectors.source import SplitEnumeratorContext
    from penstock.common.typeinfo import TypeInformation

#: The number of records in the first poll, which doubles with each: the engine checks the time only between polls.
_FIRST_BLOCK = 16
_LARGEST_BLOCK = 2048


@dataclass(frozen=True, slots=True)
class NumberSequenceSplit(SourceSplit):
    """The numbers from ``next`` to ``end``, both included."""

    id: str
    next: int
    end: int

    def split_id(self) -> str:
        """Return the name of the part."""
        return self.id


def split_range(start: int, end: int, parts: int) -> list[NumberSequenceSplit]:
    """Cut a range into at most a number of parts of about equal length, in order, none of them empty."""
    count = end - start + 1
    bounds = [start + count * part // parts for part in range(parts + 1)]
    return [
        NumberSequenceSplit(str(index + 1), first, behind - 1)
        for index, (first, behind) in enumerate(pairwise(bounds))
        if first < behind
    ]


class NumberSequenceEnumerator(SplitQueueEnumerator[NumberSequenceSplit, list[NumberSequenceSplit]]):
    """Assigns the parts of the range."""

    def snapshot_state(self, checkpoint_id: int) -> list[NumberSequenceSplit]:
        """Return the unassigned parts."""
        del checkpoint_id
        return self.waiting_splits


class NumberSequenceReader(SequentialSourceReader[int, NumberSequenceSplit]):
    """Emits the numbers of its parts."""

    emits_new_records = True
    record_type: type | None = int

    def open_split(self, split: NumberSequenceSplit) -> SplitCursor[int, NumberSequenceSplit]:
        """Open a part at its position."""
        return _NumberCursor(split)


class _NumberCursor(SplitCursor[int, NumberSequenceSplit]):
    def __init__(self, split: NumberSequenceSplit) -> None:
        self._split = split
        self._next = split.next
        self._block = _FIRST_BLOCK

    def poll_next(self, output: SourceOutput[int]) -> InputStatus:
        behind = min(self._next + min(self._block, output.wanted), self._split.end + 1)
        self._block = min(2 * self._block, _LARGEST_BLOCK)
        if self._next < behind:
            output.collect_all(list(range(self._next, behind)))
            self._next = behind
        return InputStatus.END_OF_INPUT if behind > self._split.end else InputStatus.MORE_AVAILABLE

    def snapshot(self) -> NumberSequenceSplit:
        return replace(self._split, next=self._next)


class NumberSequenceSource(Source[int, "NumberSequenceSplit", "list[NumberSequenceSplit]"]):
    """The whole numbers from ``start`` to ``end``, both included.

    Each reader gets one contiguous part; at parallelism 1 the numbers are in order.

    Source: org.apache.flink.api.connector.source.lib.NumberSequenceSource.

    Args:
        start: The first number.
        end: The last number.

    Raises:
        ValueError: ``start`` is greater than ``end``.

    Example:
        >>> NumberSequenceSource(1, 10)
        NumberSequenceSource(1, 10)
    """

    def __init__(self, start: int, end: int) -> None:
        if start > end:
            msg = f"A number sequence cannot start at {start} and end at {end}: start must not be greater than end."
            raise ValueError(msg)
        self._start, self._end = start, end

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def get_produced_type(self) -> TypeInformation:
        """Return the type of a whole number."""
        return Types.LONG()

    @property
    def holds_produced_type(self) -> bool:
        """Whether the whole range fits that type."""
        return self._start >= -(1 << 63) and self._end < 1 << 63

    def create_enumerator(self, enum_context: SplitEnumeratorContext[NumberSequenceSplit]) -> NumberSequenceEnumerator:
        """Cut the range into as many parts as there are readers."""
        return NumberSequenceEnumerator(
            enum_context, split_range(self._start, self._end, enum_context.current_parallelism)
        )

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[NumberSequenceSplit], checkpoint: list[NumberSequenceSplit]
    ) -> NumberSequenceEnumerator:
        """Continue with the unassigned parts; the readers have kept theirs."""
        return NumberSequenceEnumerator(enum_context, checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> NumberSequenceReader:
        """Make a reader of parts."""
        return NumberSequenceReader(reader_context)

    def __repr__(self) -> str:
        return f"NumberSequenceSource({self._start}, {self._end})"


show("penstock.datastream.connectors.number_seq", NumberSequenceSource)
