"""A source that is a list, with an end or a crash written into it, so that a test of recovery is a list too."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._api.connectors.enumerator_base import SplitQueueEnumerator
from penstock._api.connectors.reader import InputStatus
from penstock._api.connectors.reader_base.sequential import SequentialSourceReader, SplitCursor
from penstock._api.connectors.source import Boundedness, Source
from penstock._api.connectors.split import SourceSplit
from penstock.common.process import at_exit

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock._api.connectors.reader import SourceOutput, SourceReaderContext
    from penstock._api.connectors.source import SplitEnumeratorContext

__all__ = ["ABORT", "EOF", "ListSource", "ListSourceAbort", "Sentinel"]


class Sentinel(Enum):
    """An event at a position of a list."""

    ABORT = "ABORT"
    EOF = "EOF"


ABORT: Final = Sentinel.ABORT
"""The reader raises an error at this place the first time, and skips it afterwards."""
EOF: Final = Sentinel.EOF
"""The list ends here when the reader first gets to this place; the next time it continues after it."""


class ListSourceAbort(Exception):
    """A reader has reached an ``ABORT``."""


@dataclass(frozen=True, slots=True)
class ListSplit(SourceSplit):
    """A list by its number, and the position of the next item."""

    number: int
    position: int = 0

    def split_id(self) -> str:
        """Return the number."""
        return str(self.number)


class ListSource(Source[Any, ListSplit, "list[ListSplit]"]):
    """Emits the items of lists, each list a split, one record in each poll.

    ``ABORT`` and ``EOF`` happen once. What has happened is kept in a folder, so it outlives the process and the job;
    runs that should know of each other share the source, or the folder.

    Args:
        *lists: The items.
        happened_in: The folder; by default a temporary one of the process that makes the source.
        records_per_poll: How many records a poll emits at most.
        schema: The items are dicts of this Arrow schema, and each poll emits a batch of columns.

    Example:
        >>> source = ListSource([1, 2, ABORT, 3])
        >>> source.get_boundedness()
        <Boundedness.BOUNDED: 'bounded'>
    """

    def __init__(
        self,
        *lists: Sequence[Any],
        happened_in: str | None = None,
        records_per_poll: int = 1,
        schema: pa.Schema | None = None,
    ) -> None:
        self._lists = [list(items) for items in lists]
        self._happened_in = happened_in or str(_folders() / uuid.uuid4().hex)
        self._records_per_poll, self._schema = records_per_poll, schema

    def __repr__(self) -> str:
        return f"ListSource({', '.join(map(repr, self._lists))})"

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def create_enumerator(self, enum_context: SplitEnumeratorContext[ListSplit]) -> _ListEnumerator:
        """Hand out the lists from the beginning."""
        return _ListEnumerator(enum_context, [ListSplit(number) for number in range(len(self._lists))])

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[ListSplit], checkpoint: list[ListSplit]
    ) -> _ListEnumerator:
        """Hand out the lists that no reader has."""
        return _ListEnumerator(enum_context, checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> _ListReader:
        """Make a reader of lists."""
        return _ListReader(reader_context, self._lists, Path(self._happened_in), self._records_per_poll, self._schema)


@cache
def _folders() -> Path:
    """Return the folder for the events of this process's lists, which is removed when the process exits."""
    folders = tempfile.mkdtemp(prefix="penstock-list-sources-")
    at_exit(shutil.rmtree, folders, ignore_errors=True)
    return Path(folders)


class _ListEnumerator(SplitQueueEnumerator[ListSplit, "list[ListSplit]"]):
    def snapshot_state(self, checkpoint_id: int) -> list[ListSplit]:
        del checkpoint_id
        return self.waiting_splits


class _ListReader(SequentialSourceReader[Any, ListSplit]):
    def __init__(
        self,
        context: SourceReaderContext,
        lists: list[list[Any]],
        happened_in: Path,
        records_per_poll: int,
        schema: pa.Schema | None = None,
    ) -> None:
        super().__init__(context)
        self._lists, self._happened_in = lists, happened_in
        self._records_per_poll, self._schema = records_per_poll, schema

    def open_split(self, split: ListSplit) -> SplitCursor[Any, ListSplit]:
        return _ListCursor(split, self._lists[split.number], self._happened_in, self._records_per_poll, self._schema)


class _ListCursor(SplitCursor[Any, ListSplit]):
    def __init__(
        self,
        split: ListSplit,
        items: list[Any],
        happened_in: Path,
        records_per_poll: int,
        schema: pa.Schema | None = None,
    ) -> None:
        self._split, self._items = split, items
        self._happened_in, self._records_per_poll, self._schema = happened_in, records_per_poll, schema

    def poll_next(self, output: SourceOutput[Any]) -> InputStatus:
        block: list[Any] = []
        for position in range(self._split.position, len(self._items)):
            item = self._items[position]
            if isinstance(item, Sentinel):
                if block:  # the sentinel takes effect in the poll after these records
                    break
                if self._happens_now(item, position):
                    return InputStatus.END_OF_INPUT
            else:
                block.append(item)
            self._split = replace(self._split, position=position + 1)
            if len(block) == self._records_per_poll:
                break
        if block and self._schema is not None:
            import pyarrow as pa

            output.collect_batch(cast("Any", pa.RecordBatch).from_pylist(block, self._schema))
        elif block:
            output.collect_all(block)
        return InputStatus.MORE_AVAILABLE if self._split.position < len(self._items) else InputStatus.END_OF_INPUT

    def _happens_now(self, sentinel: Sentinel, position: int) -> bool:
        """Note that a sentinel was reached; True when the list ends here."""
        self._happened_in.mkdir(parents=True, exist_ok=True)
        try:
            (self._happened_in / f"{self._split.number}-{position}").touch(exist_ok=False)
        except FileExistsError:
            return False
        if sentinel is ABORT:
            msg = f"list {self._split.number} has ABORT at position {position}"
            raise ListSourceAbort(msg)
        return True

    def snapshot(self) -> ListSplit:
        return self._split
