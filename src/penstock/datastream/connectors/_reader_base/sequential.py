"""A reader without threads, for sources that never keep it waiting: files, sequences, generators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.datastream.connectors.base import InputStatus, SourceReader, SourceSplit

if TYPE_CHECKING:
    from penstock.datastream.connectors.base import ReaderOutput, SourceOutput, SourceReaderContext

T = TypeVar("T")
SplitT = TypeVar("SplitT", bound=SourceSplit)

# With fewer splits than this behind the current one a reader asks for more: the answer takes an epoch to arrive.
_LOW_WATER = 4


class SplitCursor(ABC, Generic[T, SplitT]):
    """One open split: a reader of its records that knows how far it has come."""

    @abstractmethod
    def poll_next(self, output: SourceOutput[T]) -> InputStatus:
        """Emit the next block of records; END_OF_INPUT is the end of the split."""

    @abstractmethod
    def snapshot(self) -> SplitT:
        """Return the split with the position after the last emitted record; later polls must not change it."""

    def is_available(self, timeout_ms: int) -> bool:
        """Wait until a poll may give something; see ``SourceReader.is_available``."""
        del timeout_ms
        return False

    def close(self) -> None:
        """Let go of everything."""


class SequentialSourceReader(SourceReader[T, SplitT]):
    """Reads its splits one after the other on the engine's thread; a subclass says how to open one.

    Args:
        context: The reader's surroundings.

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
        self._requested = False
        self._no_more_splits = False

    @abstractmethod
    def open_split(self, split: SplitT) -> SplitCursor[T, SplitT]:
        """Open a split at the position that it holds; runs right before its first poll."""

    def start(self) -> None:
        """Ask for a split when there is none."""
        if not self._waiting:
            self._request_split()

    def poll_next(self, output: ReaderOutput[T]) -> InputStatus:
        """Emit one block of the current split, or go on to the next one."""
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
        output.release_output_for_split(self._split_id)
        if self._waiting:
            if len(self._waiting) < _LOW_WATER:
                self._request_split()
            return InputStatus.MORE_AVAILABLE
        return self._out_of_splits()

    def _out_of_splits(self) -> InputStatus:
        if self._no_more_splits:
            return InputStatus.END_OF_INPUT
        self._request_split()
        return InputStatus.NOTHING_AVAILABLE

    def _request_split(self) -> None:
        if not self._requested and not self._no_more_splits:
            self._requested = True
            self._context.send_split_request()

    def is_available(self, timeout_ms: int = 0) -> bool:
        """Wait for the current split; new splits come with the next epoch only."""
        if self._cursor is not None:
            return self._cursor.is_available(timeout_ms)
        return bool(self._waiting)

    def snapshot_state(self, checkpoint_id: int) -> list[SplitT]:
        """Return the current split and those behind it."""
        del checkpoint_id
        current = [] if self._cursor is None else [self._cursor.snapshot()]
        return [*current, *self._waiting]

    def add_splits(self, splits: list[SplitT]) -> None:
        """Put splits behind the others."""
        self._waiting.extend(splits)
        self._requested = False

    def notify_no_more_splits(self) -> None:
        """End after the splits at hand."""
        self._no_more_splits = True

    def close(self) -> None:
        """Close the current split."""
        self._close_split()

    def _close_split(self) -> None:
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor.close()
