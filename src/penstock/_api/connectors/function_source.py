"""A source from a generator function, which is called with the position to continue from."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, cast

from penstock._api.connectors.enumerator_base import SplitQueueEnumerator
from penstock._api.connectors.reader import InputStatus, SourceReader
from penstock._api.connectors.source import Boundedness, Source
from penstock._api.connectors.split import SourceSplit
from penstock._shelf import show
from penstock.common.arguments import texts
from penstock.errors import FunctionResultError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock._api.connectors.reader import ReaderOutput, SourceReaderContext
    from penstock._api.connectors.source import SplitEnumeratorContext
    from penstock.common.typeinfo import TypeInformation

T = TypeVar("T")

#: The most records of a poll, and the time after which it ends: the engine looks at limits between polls only.
_BLOCK: Final = 2048
_POLL_S: Final = 0.05
#: Where no split had anything, they are asked again within an epoch after this time.
_PAUSE_S: Final = 0.2

_WANTED: Final = "pairs of a record and the offset after it, or None while there is nothing to read"


@dataclass(frozen=True, slots=True)
class FunctionSplit(SourceSplit):
    """A split by its name, and the offset after the last record; None at the beginning."""

    name: str
    offset: Any = None

    def split_id(self) -> str:
        """Return the name."""
        return self.name


#: Yields a record and the offset after it, or None while there is nothing to read.
Read: TypeAlias = "Callable[[str, Any], Iterable[tuple[T, Any] | None]]"


class FunctionSource(Source[T, FunctionSplit, "list[FunctionSplit]"], Generic[T]):
    """Reads what a generator function yields; ours.

    The function is called with a split and an offset, and yields each record with the offset after it. After a restart,
    or in another process, it is called with the offset of the last record that counts. The function of an
    unbounded source yields None while there is nothing to read.

    Args:
        read: The function: ``read(split, offset)``; the offset is None at the beginning of the split.
        splits: The names of the splits, each with all that ``read`` needs to know of it: a job that continues from a
            checkpoint has the splits of that checkpoint. Different splits are read by different subtasks.
        boundedness: Whether the splits end. All splits of an unbounded source are read at the same time.
        produced_type: The type of the records; None if it is not known.

    Raises:
        FunctionResultError: In the job, where the function yields anything else than such a pair.
        TypeError: The splits are no list of texts.

    Example:
        >>> def letters(split, offset):
        ...     for position in range(offset or 0, len(split)):
        ...         yield split[position], position + 1
        >>> source = FunctionSource(letters, ["abc", "xyz"])
        >>> source.get_boundedness()
        <Boundedness.BOUNDED: 'bounded'>
    """

    def __init__(
        self,
        read: Read[T],
        splits: Sequence[str] = ("all",),
        boundedness: Boundedness = Boundedness.BOUNDED,
        produced_type: TypeInformation | None = None,
    ) -> None:
        if isinstance(splits, str) or not isinstance(splits, Collection):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"splits must be a list of names, such as ['all'], not {splits!r}."
            raise TypeError(msg)
        names = texts("splits", tuple(splits))
        if len(set(splits)) != len(splits):
            msg = f"The names of splits have to be different: {', '.join(splits)}."
            raise ValueError(msg)
        self._read, self._splits = read, names
        self._boundedness, self._type = boundedness, produced_type

    @staticmethod
    def of_iterable(make: Callable[[], Iterable[T]]) -> FunctionSource[T]:
        """Read an iterable, which has the same records in the same order each time; its offset is their number.

        Args:
            make: Returns the iterable from its beginning; after a restart, the records that were read are passed over.
        """

        def read(split: str, offset: int | None) -> Iterator[tuple[T, int]]:
            del split
            start = offset or 0
            return zip(islice(make(), start, None), count(start + 1))

        return FunctionSource(read)

    def get_boundedness(self) -> Boundedness:
        """Return what was given."""
        return self._boundedness

    def get_produced_type(self) -> TypeInformation | None:
        """Return what was given."""
        return self._type

    def create_enumerator(self, enum_context: SplitEnumeratorContext[FunctionSplit]) -> _Enumerator:
        """Assign all splits from their beginning."""
        return _Enumerator(enum_context, [FunctionSplit(name) for name in self._splits])

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[FunctionSplit], checkpoint: list[FunctionSplit]
    ) -> _Enumerator:
        """Assign the splits that no reader has."""
        return _Enumerator(enum_context, checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> _Reader[T]:
        """Make a reader."""
        return _Reader(reader_context, self._read, self._boundedness is Boundedness.BOUNDED)


def _is_pair(item: object) -> bool:
    """Return whether an item can be a record and an offset; a dict of two fields could be unpacked, too."""
    return isinstance(item, tuple) and len(cast("tuple[Any, ...]", item)) == 2


class _Enumerator(SplitQueueEnumerator[FunctionSplit, "list[FunctionSplit]"]):
    def snapshot_state(self, checkpoint_id: int) -> list[FunctionSplit]:
        del checkpoint_id
        return self.waiting_splits


class _Cursor:
    """A split with its offset, and its iterator once it is read."""

    def __init__(self, split: FunctionSplit) -> None:
        self.name, self.offset = split.name, split.offset
        self.records: Iterator[tuple[Any, Any] | None] | None = None

    def close(self) -> None:
        close = getattr(self.records, "close", None)
        if close is not None:
            close()


class _Reader(SourceReader[T, FunctionSplit], Generic[T]):
    """Reads the splits of a bounded source one after the other, those of an unbounded one in turn."""

    def __init__(self, context: SourceReaderContext, read: Read[T], bounded: bool) -> None:
        self._context, self._read, self._bounded = context, read, bounded
        self._cursors: list[_Cursor] = []
        #: How many splits in a row had nothing, and when the last one was asked.
        self._dry, self._dry_s = 0, 0.0
        self._requested = self._no_more_splits = False

    def poll_next(self, output: ReaderOutput[T]) -> InputStatus:
        if not self._cursors:
            return self._status()
        if self._dry >= len(self._cursors):  # a new round
            self._dry = 0
        cursor = self._cursors[0]
        if cursor.records is None:
            cursor.records = iter(self._read(cursor.name, cursor.offset))
        records, ended = self._pull(cursor, min(_BLOCK, output.wanted))
        if records:
            output.create_output_for_split(cursor.name).collect_all(records)
        if ended:
            self._cursors.pop(0).close()
            output.release_output_for_split(cursor.name)
            return self._status()
        if not self._bounded:
            self._cursors.append(self._cursors.pop(0))
        self._dry, self._dry_s = 0 if records else self._dry + 1, time.monotonic()
        return InputStatus.MORE_AVAILABLE if self._dry < len(self._cursors) else InputStatus.NOTHING_AVAILABLE

    def _status(self) -> InputStatus:
        if self._cursors:
            return InputStatus.MORE_AVAILABLE
        if self._no_more_splits:
            return InputStatus.END_OF_INPUT
        self._request_split()
        return InputStatus.NOTHING_AVAILABLE

    def _request_split(self) -> None:
        if not (self._no_more_splits or self._requested):
            self._requested = True
            self._context.send_split_request()

    @staticmethod
    def _pull(cursor: _Cursor, most: int) -> tuple[list[T], bool]:
        """Return the next records of a split, and whether it has ended."""
        assert cursor.records is not None
        records: list[T] = []
        until = time.monotonic() + _POLL_S
        for item in cursor.records:
            if item is None:
                return records, False
            if not _is_pair(item):
                found = f"an iterable with the item {item!r:.200}"
                raise FunctionResultError("read() of a FunctionSource", "", found, _WANTED)
            record, cursor.offset = item
            records.append(record)
            if len(records) >= most or time.monotonic() > until:
                return records, False
        return records, True

    def is_available(self, timeout_ms: int = 0) -> bool:
        """Return whether splits may have records: where all of them had none, some time after that."""
        del timeout_ms
        if self._dry < len(self._cursors):
            return True
        return bool(self._cursors) and time.monotonic() >= self._dry_s + _PAUSE_S

    def snapshot_state(self, checkpoint_id: int) -> list[FunctionSplit]:
        del checkpoint_id
        if not self._bounded or len(self._cursors) < 2:
            self._request_split()
        return [FunctionSplit(cursor.name, cursor.offset) for cursor in self._cursors]

    def add_splits(self, splits: list[FunctionSplit]) -> None:
        self._cursors += map(_Cursor, splits)
        self._requested = False

    def notify_no_more_splits(self) -> None:
        self._no_more_splits = True

    def close(self) -> None:
        cursors, self._cursors = self._cursors, []
        for cursor in cursors:
            cursor.close()


show("penstock.datastream.connectors.base", FunctionSource)
