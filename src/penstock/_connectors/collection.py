"""The source of a collection in the program: one split, which one reader reads."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock._api.connectors.enumerator_base import SplitQueueEnumerator
from penstock._api.connectors.reader import InputStatus
from penstock._api.connectors.reader_base.sequential import SequentialSourceReader, SplitCursor
from penstock._api.connectors.source import Boundedness, Source
from penstock._api.connectors.split import SourceSplit

if TYPE_CHECKING:
    from penstock._api.connectors.reader import SourceOutput, SourceReaderContext
    from penstock._api.connectors.source import SplitEnumeratorContext

#: The number of records in the first poll, which doubles with each: the engine checks the time only between polls.
_FIRST_BLOCK = 16
_LARGEST_BLOCK = 2048


@dataclass(frozen=True, slots=True)
class CollectionSplit(SourceSplit):
    """The records from a position to the end."""

    position: int = 0

    def split_id(self) -> str:
        """Return the name of the only split."""
        return "collection"


class CollectionEnumerator(SplitQueueEnumerator[CollectionSplit, list[CollectionSplit]]):
    """Assigns the only split."""

    def snapshot_state(self, checkpoint_id: int) -> list[CollectionSplit]:
        """Return the split until a reader has it."""
        del checkpoint_id
        return self.waiting_splits


class CollectionSource(Source[Any, CollectionSplit, list[CollectionSplit]]):
    """A source of a collection, which is pickled with the job.

    Args:
        records: The pickled list of the records. It stays pickled until it is read: functions may change records, and
            a restarted job must not see that.
    """

    def __init__(self, records: bytes) -> None:
        self._records = records

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def create_enumerator(self, enum_context: SplitEnumeratorContext[CollectionSplit]) -> CollectionEnumerator:
        """Begin with the first record."""
        return CollectionEnumerator(enum_context, [CollectionSplit()])

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[CollectionSplit], checkpoint: list[CollectionSplit]
    ) -> CollectionEnumerator:
        """Continue; an assigned split stays with its reader."""
        return CollectionEnumerator(enum_context, checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> CollectionReader:
        """Make the reader."""
        return CollectionReader(reader_context, self._records)


class CollectionReader(SequentialSourceReader[Any, CollectionSplit]):
    """Emits the records."""

    def __init__(self, context: SourceReaderContext, records: bytes) -> None:
        super().__init__(context)
        self._records = records

    def open_split(self, split: CollectionSplit) -> SplitCursor[Any, CollectionSplit]:
        """Open the split at its position."""
        return _CollectionCursor(pickle.loads(self._records), split.position)


class _CollectionCursor(SplitCursor[Any, CollectionSplit]):
    def __init__(self, records: list[Any], position: int) -> None:
        self._records, self._position = records, position
        self._block = _FIRST_BLOCK

    def poll_next(self, output: SourceOutput[Any]) -> InputStatus:
        block = self._records[self._position : self._position + min(self._block, output.wanted)]
        self._block = min(2 * self._block, _LARGEST_BLOCK)
        if block:
            output.collect_all(block)
            self._position += len(block)
        at_end = self._position >= len(self._records)
        return InputStatus.END_OF_INPUT if at_end else InputStatus.MORE_AVAILABLE

    def snapshot(self) -> CollectionSplit:
        return CollectionSplit(self._position)
