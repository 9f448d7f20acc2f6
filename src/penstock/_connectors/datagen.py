"""The generator source: a function makes a record of each index, at a limited rate, and the readers share the indices.

Each split keeps its rate by the time of day: it stores the time of its next record in its snapshot, so a reader that is
recreated at each epoch keeps the rate, too. A reader reads the time of day once and then uses the monotonic clock. If
the time of day was set back since the snapshot, the next record is due after one interval.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from penstock._api.connectors.enumerator_base import SplitQueueEnumerator
from penstock._api.connectors.generating import GeneratorFunction, RateLimiterStrategy, RateUnit
from penstock._api.connectors.reader import InputStatus, SourceReader
from penstock._api.connectors.source import Boundedness, Source
from penstock._api.connectors.split import SourceSplit
from penstock._shelf import show
from penstock.common.arguments import instance
from penstock.common.copies import copy_if_mutable
from penstock.common.option_table import OBJECT_REUSE
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._api.connectors.reader import ReaderOutput, SourceReaderContext
    from penstock._api.connectors.source import SplitEnumeratorContext
    from penstock.common.typeinfo import TypeInformation

_BLOCK = 2048
_MOST_CATCH_UP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class IndexSplit(SourceSplit):
    """Every ``step``-th index, from ``next`` on, below ``end``."""

    id: str
    next: int
    step: int
    #: None for an unbounded source.
    end: int | None
    #: The time of the next record in seconds since the epoch; None before the first, and without a rate by time.
    due: float | None = None

    def split_id(self) -> str:
        """Return the name of the share."""
        return self.id


def deal_indices(count: int | None, readers: int) -> list[IndexSplit]:
    """Deal the indices below ``count`` round-robin, in one split for each reader that gets any."""
    dealt = readers if count is None else min(readers, count)
    return [IndexSplit(str(first), first, readers, count) for first in range(dealt)]


class DataGeneratorEnumerator(SplitQueueEnumerator[IndexSplit, "list[IndexSplit]"]):
    """Assigns the splits."""

    def snapshot_state(self, checkpoint_id: int) -> list[IndexSplit]:
        """Return the unassigned splits."""
        del checkpoint_id
        return self.waiting_splits


class DataGeneratorReader(SourceReader[Any, IndexSplit]):
    """Makes the records of its splits round-robin; it has one, or after rescaling perhaps several.

    Args:
        context: The reader's context.
        function: Makes a record of an index.
        strategy: The rate.
        clock: Returns the time in seconds since the epoch; by default one that ignores later changes of the time of
            day.
        sleep: Waits for some seconds.
    """

    #: Records are copied here before the next call, because the function may return the same object each time.
    emits_new_records = True

    def __init__(
        self,
        context: SourceReaderContext,
        function: Callable[[int], Any] | GeneratorFunction[Any],
        strategy: RateLimiterStrategy,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._context, self._strategy = context, strategy
        self._clock, self._sleep = clock or _even_clock(), sleep
        self._object_reuse = context.configuration.get(OBJECT_REUSE)
        # A cast, because a test of a generic class leaves its parameter unknown.
        self._function = cast("GeneratorFunction[Any]", function) if isinstance(function, GeneratorFunction) else None
        self._call = cast("Callable[[int], Any]", function) if self._function is None else self._function.map
        # The least recently served split is first: `min` chooses it among those that are due at the same time.
        self._splits: list[IndexSplit] = []
        self._requested = False
        self._left_of_checkpoint = self._share_of_checkpoint()
        self._no_more_splits = False

    def start(self) -> None:
        """Open the function, and request a split if there is none."""
        if self._function is not None:
            self._function.open(self._context)
        if not self._splits and not self._no_more_splits:
            self._request_split()

    def poll_next(self, output: ReaderOutput[Any]) -> InputStatus:
        """Make the records that the rate allows now, at most one block."""
        if self.is_available():
            now = self._clock()
            split = min(self._splits, key=lambda split: self._due(split, now))
            self._splits.remove(split)
            indices = self._due_indices(split, min(_BLOCK, output.wanted), now)
            split_output = output.create_output_for_split(split.id)
            call = self._call
            records = [call(i) for i in indices] if self._object_reuse else [copy_if_mutable(call(i)) for i in indices]
            split_output.collect_all(records)
            split = self._moved(split, len(indices), now)
            if split.end is None or split.next < split.end:
                self._splits.append(split)
            else:
                output.release_output_for_split(split.id)
        if self._splits:
            return InputStatus.MORE_AVAILABLE if self.is_available() else InputStatus.NOTHING_AVAILABLE
        if self._no_more_splits:
            return InputStatus.END_OF_INPUT
        self._request_split()
        return InputStatus.NOTHING_AVAILABLE

    def _request_split(self) -> None:
        if not self._requested:
            self._requested = True
            self._context.send_split_request()

    def is_available(self, timeout_ms: int = 0) -> bool:
        """Wait until a record is due."""
        if not self._splits or self._left_of_checkpoint == 0:
            return False
        now = self._clock()
        wait = min(self._due(split, now) for split in self._splits) - now
        if wait <= 0:
            return True
        self._sleep(min(wait, timeout_ms / 1000))
        return wait <= timeout_ms / 1000

    def snapshot_state(self, checkpoint_id: int) -> list[IndexSplit]:
        """Return the splits; the number of records per checkpoint starts again."""
        del checkpoint_id
        self._left_of_checkpoint = self._share_of_checkpoint()
        return list(self._splits)

    def add_splits(self, splits: list[IndexSplit]) -> None:
        """Add splits; the next record of each is due within its interval, even if the clock was set back."""
        now = self._clock()
        for split in splits:
            due = None if split.due is None else min(split.due, now + split.step / self._strategy.rate)
            self._splits.append(replace(split, due=due))
        self._requested = False

    def notify_no_more_splits(self) -> None:
        """End after the current splits."""
        self._no_more_splits = True

    def close(self) -> None:
        """Close the function."""
        if self._function is not None:
            self._function.close()

    def _share_of_checkpoint(self) -> int | None:
        """Return how many records this reader may make until the next checkpoint; None without such a rate."""
        if self._strategy.unit is not RateUnit.CHECKPOINT:
            return None
        readers, index, rate = self._context.current_parallelism, self._context.index_of_subtask, self._strategy.rate
        return int(rate) * (index + 1) // readers - int(rate) * index // readers

    def _due(self, split: IndexSplit, now: float) -> float:
        """Return the time of a split's next record; the first is due at once."""
        if self._strategy.unit is not RateUnit.SECOND:
            return 0.0
        return now if split.due is None else max(split.due, now - _MOST_CATCH_UP_SECONDS)

    def _due_indices(self, split: IndexSplit, count: int, now: float) -> range:
        """Return the indices of the records that are due, at most ``count``."""
        if self._strategy.unit is RateUnit.SECOND:
            late = now - self._due(split, now)
            count = min(count, int(late * self._strategy.rate / split.step) + 1 if late >= 0 else 0)
        if self._left_of_checkpoint is not None:
            count = min(count, self._left_of_checkpoint)
        behind = split.next + count * split.step
        return range(split.next, behind if split.end is None else min(behind, split.end), split.step)

    def _moved(self, split: IndexSplit, made: int, now: float) -> IndexSplit:
        """Return a split positioned after the records just made."""
        if self._left_of_checkpoint is not None:
            self._left_of_checkpoint -= made
        due = split.due
        if self._strategy.unit is RateUnit.SECOND and made:
            # A split has one of `step` shares of the rate, even if one reader has several splits.
            due = self._due(split, now) + made * split.step / self._strategy.rate
        return replace(split, next=split.next + made * split.step, due=due)


def _even_clock() -> Callable[[], float]:
    """Return a clock that begins with the time of day and continues with the monotonic clock."""
    begun = time.time() - time.monotonic()
    return lambda: begun + time.monotonic()


class DataGeneratorSource(Source[Any, "IndexSplit", "list[IndexSplit]"]):
    """Calls a function with 0, 1, 2 and so on, and emits the results.

    The readers share the indices round-robin (reader 0 of 2 has 0, 2, 4, …), so with timestamps that grow with the
    index no reader runs far ahead of the others. At parallelism 1 the records are in order.

    Source: org.apache.flink.connector.datagen.source.DataGeneratorSource.

    Args:
        generator_function: Makes a record of an index: a callable or a :class:`GeneratorFunction`.
        count: The number of records; None makes the source unbounded.
        rate_limiter_strategy: The rate; unlimited by default.
        type_info: The type of the records; None without one.

    Raises:
        TypeError: The rate is no RateLimiterStrategy.
        ValueError: ``count`` is negative.

    Example:
        >>> squares = DataGeneratorSource(lambda index: index * index, 100, RateLimiterStrategy.per_second(10))
        >>> squares.get_boundedness()
        <Boundedness.BOUNDED: 'bounded'>
    """

    def __init__(
        self,
        generator_function: Callable[[int], Any] | GeneratorFunction[Any],
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        type_info: TypeInformation | None = None,
    ) -> None:
        if count is not None and count < 0:
            msg = f"count cannot be negative: {count}."
            raise ValueError(msg)
        self._function, self._count, self._type_info = generator_function, count, type_info
        strategy = rate_limiter_strategy or RateLimiterStrategy.no_op()
        otherwise = "RateLimiterStrategy.per_second(500) is one"
        self._strategy = instance("rate_limiter_strategy", strategy, RateLimiterStrategy, otherwise)

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED if there is a count."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self._count is None else Boundedness.BOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that was given."""
        return self._type_info

    def create_enumerator(self, enum_context: SplitEnumeratorContext[IndexSplit]) -> DataGeneratorEnumerator:
        """Deal the indices among the readers.

        Raises:
            ConfigurationError: A rate by checkpoint has not a record for each reader.
        """
        splits = deal_indices(self._count, enum_context.current_parallelism)
        return self.restore_enumerator(enum_context, splits)

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[IndexSplit], checkpoint: list[IndexSplit]
    ) -> DataGeneratorEnumerator:
        """Continue with the unassigned splits; the readers have kept theirs."""
        readers, strategy = enum_context.current_parallelism, self._strategy
        if strategy.unit is RateUnit.CHECKPOINT and strategy.rate < readers:  # some would never make a record
            reason = f"each of the {readers} subtasks of the source needs a record; lower its parallelism, or raise it"
            raise ConfigurationError("RateLimiterStrategy.per_checkpoint", str(strategy.rate), reason)
        return DataGeneratorEnumerator(enum_context, checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> DataGeneratorReader:
        """Make a reader that calls the function."""
        return DataGeneratorReader(reader_context, self._function, self._strategy)


show("penstock.datastream.connectors.datagen", DataGeneratorSource)
