"""Threads that fetch from an external system, and the queue between them and the reader's own thread.

A :class:`SplitFetcher` drives one :class:`SplitReader`. All of a reader's fetchers share one lock: it guards their
queue, their commands and the gate that holds them between epochs, so that there is one place to reason about.
"""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock._api.connectors.split import SourceSplit
from penstock._shelf import show
from penstock.common.option_table import READER_CLOSE_TIMEOUT, READER_QUEUE_CAPACITY
from penstock.common.user_values import error_line
from penstock.errors import SplitFetchError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.common.configuration import Configuration

E = TypeVar("E")
SplitT = TypeVar("SplitT", bound=SourceSplit)


@dataclass(frozen=True)  # no slots: with them Python 3.11 cannot make a subscripted generic class
class RecordsWithSplitIds(Generic[E]):
    """The result of one fetch.

    Source: org.apache.flink.connector.base.source.reader.RecordsWithSplitIds, with lists in place of an iterator.

    Args:
        records: The fetched elements by split, in order.
        finished_splits: The splits that end after these elements.
    """

    records: Mapping[str, list[E]] = field(default_factory=dict[str, "list[E]"])
    finished_splits: frozenset[str] = frozenset()


class SplitReader(ABC, Generic[E, SplitT]):
    """Fetches from the external system, on a thread of its own; only ``wake_up`` is called from another one.

    Source: org.apache.flink.connector.base.source.reader.splitreader.SplitReader.
    """

    @abstractmethod
    def fetch(self) -> RecordsWithSplitIds[E]:
        """Wait for elements of the added splits and return them; return early, perhaps without any, when woken."""

    @abstractmethod
    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Start fetching these splits."""

    def remove_splits(self, split_ids: Sequence[str]) -> None:
        """Stop fetching these splits; elements that still arrive are dropped."""

    def pause_or_resume_splits(self, splits_to_pause: Sequence[str], splits_to_resume: Sequence[str]) -> None:
        """Pause some splits and resume others.

        Raises:
            UnsupportedOperationError: This reader cannot, as it says by default.
        """
        del splits_to_pause, splits_to_resume
        raise UnsupportedOperationError(
            f"pausing single splits of {type(self).__name__}",
            "let each subtask read one split, leave out the watermark alignment, or set "
            "pipeline.watermark-alignment.allow-unaligned-source-splits",
        )

    @abstractmethod
    def wake_up(self) -> None:
        """Make the running ``fetch`` return, or the next one when none is running."""

    def close(self) -> None:
        """Close the connection."""


class SplitFetcher(Generic[E, SplitT]):
    """One thread with one split reader; it ends when it has no splits left."""

    def __init__(self, manager: SplitFetcherManager[E, SplitT], reader: SplitReader[E, SplitT], name: str) -> None:
        self._manager, self._reader = manager, reader
        self.thread: threading.Thread = threading.Thread(target=self._run, name=name, daemon=True)
        # Below: guarded by the manager's lock.
        self.splits: set[str] = set()
        self.commands: deque[Callable[[SplitReader[E, SplitT]], None]] = deque()
        self.fetching = False

    def wake_up(self) -> None:
        """Make the thread check its commands and the gate."""
        self._reader.wake_up()

    def _run(self) -> None:
        try:
            while self._manager.await_turn(self):
                try:
                    batch = self._reader.fetch()
                finally:
                    self._manager.fetch_ended(self)
                self._manager.put(self, batch)
        except Exception as error:  # noqa: BLE001 - handed to the reader's thread, which raises it
            self._manager.fail(error)
        finally:
            self._close()

    def _close(self) -> None:
        try:
            self._reader.close()
        except Exception as error:  # noqa: BLE001 - handed to the reader's thread, which raises it
            self._manager.fail(error)
        self._manager.ended(self)

    def run_command(self, command: Callable[[SplitReader[E, SplitT]], None]) -> None:
        """Run a command on the split reader; called on this fetcher's thread."""
        command(self._reader)


class SplitFetcherManager(Generic[E, SplitT]):
    """Starts and stops the fetchers of one reader and holds the queue of their results.

    Source: org.apache.flink.connector.base.source.reader.fetcher.SplitFetcherManager.

    Args:
        split_reader_supplier: Makes the split reader of a fetcher.
        configuration: The job's configuration, with the size of the queue and the timeout of closing.
        fetcher_per_split: Whether each split gets its own thread.
        fetchers: How many threads share all splits otherwise; a new split goes to the one that has the fewest.
    """

    def __init__(
        self,
        split_reader_supplier: Callable[[], SplitReader[E, SplitT]],
        configuration: Configuration,
        fetcher_per_split: bool = False,
        fetchers: int = 1,
    ) -> None:
        self._supplier = split_reader_supplier
        self._most_fetchers: float = math.inf if fetcher_per_split else max(1, fetchers)
        self._queue_capacity = configuration.get(READER_QUEUE_CAPACITY)
        self._close_timeout_ms = configuration.get(READER_CLOSE_TIMEOUT).to_millis()
        self._changed = threading.Condition()
        self._fetchers: list[SplitFetcher[E, SplitT]] = []
        self._queue: deque[RecordsWithSplitIds[E]] = deque()
        self._held = False
        self._closed = False
        self._error: Exception | None = None
        self._fetchers_made = 0

    # ------------------------------------------------------------------------------------- the reader's own thread

    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Fetch splits, by running fetchers or by new ones."""
        groups = int(min(self._most_fetchers, len(splits)))
        for group in (list(splits[place::groups]) for place in range(groups)):
            with self._changed:
                is_full = len(self._fetchers) >= self._most_fetchers
                fetcher = min(self._fetchers, key=lambda one: len(one.splits)) if is_full else None
                if fetcher is not None:
                    self._hand_splits(fetcher, group)
            if fetcher is None:
                self._start_fetcher(group)
            else:
                fetcher.wake_up()

    def _start_fetcher(self, splits: list[SplitT]) -> None:
        self._fetchers_made += 1
        fetcher = SplitFetcher(self, self._supplier(), f"source fetcher {self._fetchers_made}")
        with self._changed:
            self._hand_splits(fetcher, splits)
            self._fetchers.append(fetcher)
        fetcher.thread.start()

    def _hand_splits(self, fetcher: SplitFetcher[E, SplitT], splits: list[SplitT]) -> None:
        fetcher.splits.update(split.split_id() for split in splits)
        fetcher.commands.append(lambda reader: reader.add_splits(splits))
        self._changed.notify_all()

    def remove_splits(self, split_ids: Sequence[str]) -> None:
        """Stop fetching splits."""
        self._command(split_ids, lambda mine: lambda reader: reader.remove_splits(mine))
        with self._changed:
            for fetcher in self._fetchers:
                fetcher.splits.difference_update(split_ids)

    def pause_or_resume_splits(self, splits_to_pause: Sequence[str], splits_to_resume: Sequence[str]) -> None:
        """Pause some splits and resume others."""
        self._command(splits_to_pause, lambda mine: lambda reader: reader.pause_or_resume_splits(mine, []))
        self._command(splits_to_resume, lambda mine: lambda reader: reader.pause_or_resume_splits([], mine))

    def _command(
        self, split_ids: Sequence[str], command: Callable[[list[str]], Callable[[SplitReader[E, SplitT]], None]]
    ) -> None:
        with self._changed:
            owners = [
                (fetcher, [split for split in split_ids if split in fetcher.splits]) for fetcher in self._fetchers
            ]
            for fetcher, mine in owners:
                if mine:
                    fetcher.commands.append(command(mine))
            self._changed.notify_all()
        for fetcher, mine in owners:
            if mine:
                fetcher.wake_up()

    def poll(self) -> RecordsWithSplitIds[E] | None:
        """Return the oldest fetched batch, or None.

        Raises:
            SplitFetchError: A fetcher failed; its exception is the cause. Every later poll raises again.
        """
        with self._changed:
            if self._error is not None:
                raise _fetch_error(self._error)
            batch = self._queue.popleft() if self._queue else None
            self._changed.notify_all()
            return batch

    def wait(self, timeout_ms: int) -> bool:
        """Wait for a batch or an error, at most for a time; return whether there is one."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._queue) or self._error is not None, timeout_ms / 1000)

    def hold(self) -> None:
        """Hold all fetchers, and return when none is in a fetch any more."""
        with self._changed:
            self._held = True
            busy = [fetcher for fetcher in self._fetchers if fetcher.fetching]
        for fetcher in busy:
            fetcher.wake_up()
        with self._changed:
            self._changed.wait_for(lambda: not any(fetcher.fetching for fetcher in self._fetchers))

    def go_on(self) -> None:
        """Undo ``hold``."""
        with self._changed:
            if self._held:
                self._held = False
                self._changed.notify_all()

    def close(self) -> None:
        """Stop all fetchers and wait until their threads have ended, for ``source.reader.close.timeout``.

        Raises:
            SplitFetchError: A split reader failed to close, or a thread did not end in time.
        """
        with self._changed:
            first_time, self._closed = not self._closed, True
            failed_before = self._error is not None
            fetchers = list(self._fetchers)
            self._changed.notify_all()
        deadline = time.monotonic() + self._close_timeout_ms / 1000
        for fetcher in fetchers:
            fetcher.wake_up()
        for fetcher in fetchers:
            fetcher.thread.join(max(0.0, deadline - time.monotonic()))
            if fetcher.thread.is_alive():
                reason = f"{fetcher.thread.name} did not end within {self._close_timeout_ms} ms of being closed"
                raise SplitFetchError(reason)
        if first_time and not failed_before and self._error is not None:
            raise _fetch_error(self._error)

    # ------------------------------------------------------------------------------------------ the fetchers' threads

    def await_turn(self, fetcher: SplitFetcher[E, SplitT]) -> bool:
        """Run a fetcher's commands and wait until it may fetch; False tells it to end."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or not self._held)
                if self._closed:
                    return False
                if not fetcher.commands:
                    if not fetcher.splits:
                        # Under the lock, so that no split is handed to a fetcher that has decided to end.
                        self._fetchers.remove(fetcher)
                        return False
                    fetcher.fetching = True
                    return True
                command = fetcher.commands.popleft()
            fetcher.run_command(command)

    def fetch_ended(self, fetcher: SplitFetcher[E, SplitT]) -> None:
        """Note that a fetch returned or raised."""
        with self._changed:
            fetcher.fetching = False
            self._changed.notify_all()

    def put(self, fetcher: SplitFetcher[E, SplitT], batch: RecordsWithSplitIds[E]) -> None:
        """Queue a batch, as soon as there is room."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._queue) < self._queue_capacity)
            fetcher.splits -= batch.finished_splits
            if batch.records or batch.finished_splits:
                self._queue.append(batch)
                self._changed.notify_all()

    def fail(self, error: Exception) -> None:
        """Keep the first error for the reader's thread."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def ended(self, fetcher: SplitFetcher[E, SplitT]) -> None:
        """Forget a fetcher whose thread ends."""
        with self._changed:
            if fetcher in self._fetchers:
                self._fetchers.remove(fetcher)
            self._changed.notify_all()


def _fetch_error(cause: Exception) -> SplitFetchError:
    error = SplitFetchError(error_line(cause))
    error.__cause__ = cause
    return error


show("penstock.datastream.connectors.reader_base", RecordsWithSplitIds, SplitFetcherManager, SplitReader)
