"""A reader without threads, for sources that never keep it waiting: files, sequences, generators.

The number of splits that it requests ahead is a compromise. An answer takes an epoch, so a reader with too few splits
idles for the rest of the epoch. If splits are in the order of time, readers that hold many of them are far apart, and
windows downstream stay open for everything between. So a reader requests, at the end of each epoch, as many splits as
it has just finished, or twice as many if it had none left, and always one after the current one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock._api.connectors.reader import InputStatus, SourceReader
from penstock._api.connectors.split import SourceSplit
from penstock._shelf import show

if TYPE_CHECKING:
    from penstock._api.connectors.reader import ReaderOutput, SourceOutput, SourceReaderContext

T = TypeVar("T")
SplitT = TypeVar("SplitT", bound=SourceSplit)


class SplitCursor(ABC, Generic[T, SplitT]):
    """One open split: it reads the split's records and knows its position."""

    @abstractmethod
    def poll_next(self, output: SourceOutput[T]) -> InputStatus:
        """Emit the next block of records; END_OF_INPUT is the end of the split."""

    @abstractmethod
    def snapshot(self) -> SplitT:
        """Return the split with the position after the last emitted record; later polls must not change it."""

    def is_available(self, timeout_ms: int) -> bool:
        """Wait until a poll may return records; see ``SourceReader.is_available``."""
        del timeout_ms
        return False

    def close(self) -> None:
        """Release all resources."""


class SequentialSourceReader(SourceReader[T, SplitT]):
    """Reads its splits one after the other on the engine's thread; a subclass opens them.

    It requests more splits with each snapshot, as many as the next epoch may need.

    Args:
        context: The reader's context.

    Example:
        >>> class Letters(SplitCursor[str, "Word"]):
        ...     def __init__(self, word):
        ...         self.word = word
        ...
        ...     def poll_next(self, output):
        ...         if not self.word.rest:
        ...             return InputStatus.END_OF_INPUT
        ...         output.collect_all(list(self.word.rest))
        ...         self.word = Word(self.word.text, "")
        ...         return InputStatus.MORE_AVAILABLE
        ...
        ...     def snapshot(self):
        ...         return self.word
        >>> class LetterReader(SequentialSourceReader[str, "Word"]):
        ...     def open_split(self, split):
        ...         return Letters(split)
    """

    def __init__(self, context: SourceReaderContext) -> None:
        self._context = context
        self._waiting: deque[SplitT] = deque()
        self._cursor: SplitCursor[T, SplitT] | None = None
        self._split_id = ""
        #: The number of splits finished since the last snapshot.
        self._finished = 0
        self._requested = False
        self._no_more_splits = False

    @abstractmethod
    def open_split(self, split: SplitT) -> SplitCursor[T, SplitT]:
        """Open a split at the position that it holds; runs right before its first poll."""

    def poll_next(self, output: ReaderOutput[T]) -> InputStatus:
        """Emit one block of the current split, or continue with the next one."""
        if self._cursor is None:
            if not self._waiting:
                return self._out_of_splits()
            split = self._waiting.popleft()
            self._split_id = split.split_id()
            self._cursor = self.open_split(split)
        status = self._cursor.poll_next(output.create_output_for_split(self._split_id))
        if status is not InputStatus.END_OF_INPUT:
            return status
        self._close_split()
        self._finished += 1
        output.release_output_for_split(self._split_id)
        return InputStatus.MORE_AVAILABLE if self._waiting else self._out_of_splits()

    def _out_of_splits(self) -> InputStatus:
        if self._no_more_splits:
            return InputStatus.END_OF_INPUT
        self._request_splits()  # so that the epoch ends early for it, where it lasts because of others
        return InputStatus.NOTHING_AVAILABLE

    def is_available(self, timeout_ms: int = 0) -> bool:
        """Wait for the current split; new splits arrive only with the next epoch."""
        if self._cursor is not None:
            return self._cursor.is_available(timeout_ms)
        return bool(self._waiting)

    def snapshot_state(self, checkpoint_id: int) -> list[SplitT]:
        """Return the current split and those after it; request splits for the next epoch."""
        del checkpoint_id
        self._request_splits()
        current = [] if self._cursor is None else [self._cursor.snapshot()]
        return [*current, *self._waiting]

    def _request_splits(self) -> None:
        ran_dry = self._cursor is None and not self._waiting
        missing = max(1, 2 * self._finished if ran_dry else self._finished) - len(self._waiting)
        self._finished = 0
        if missing <= 0 or self._requested or self._no_more_splits:
            return
        self._requested = True
        for _ in range(missing):
            self._context.send_split_request()

    def add_splits(self, splits: list[SplitT]) -> None:
        """Append splits to the queue."""
        self._waiting.extend(splits)
        self._requested = False

    def notify_no_more_splits(self) -> None:
        """End after the current splits."""
        self._no_more_splits = True

    def close(self) -> None:
        """Close the current split."""
        self._close_split()

    def _close_split(self) -> None:
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor.close()


show("penstock.datastream.connectors.reader_base", SequentialSourceReader, SplitCursor)
