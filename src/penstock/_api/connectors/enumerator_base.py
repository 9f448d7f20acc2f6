"""An enumerator that assigns splits from a queue, as most sources need.

Flink has one such class for each source. The readers' side is :mod:`penstock.datastream.connectors.reader_base`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock._api.connectors.source import SplitEnumerator
from penstock._api.connectors.split import SourceSplit
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._api.connectors.source import SplitEnumeratorContext

__all__ = ["SplitQueueEnumerator"]

SplitT = TypeVar("SplitT", bound=SourceSplit)
CheckpointT = TypeVar("CheckpointT")


class SplitQueueEnumerator(SplitEnumerator[SplitT, CheckpointT], Generic[SplitT, CheckpointT]):
    """Gives each reader the next split of the queue when it registers and for each of its requests.

    Assignments reach a reader with the next epoch, so waiting for its first request would cost an epoch. Once the queue
    is empty and complete, all readers get the signal of no more splits and end in the epoch of their last split. A
    subclass defines its checkpoint (``snapshot_state``), and may add splits as it finds them (``add_splits``).

    Args:
        context: The enumerator's context.
        splits: The unassigned splits, in the order of assignment.
        complete: Whether these are all splits. If not, ``add_splits`` adds more.
    """

    def __init__(
        self, context: SplitEnumeratorContext[SplitT], splits: Iterable[SplitT], complete: bool = True
    ) -> None:
        self._context = context
        self._queue = deque(splits)
        self._complete = complete
        self._waiting: set[int] = set()
        self._told_no_more: set[int] = set()
        # Flink's name: SplitEnumeratorMetricGroup.setUnassignedSplitsGauge.
        context.metric_group.gauge("unassignedSplits", lambda: len(self._queue))

    @property
    def waiting_splits(self) -> list[SplitT]:
        """The splits that are not assigned."""
        return list(self._queue)

    def add_splits(self, splits: Iterable[SplitT]) -> None:
        """Add new splits, and assign one to each waiting reader."""
        self._queue.extend(splits)
        self._serve_waiting()

    def start(self) -> None:
        """Do nothing: the splits are known."""

    def add_reader(self, subtask_id: int) -> None:
        """Give the reader its first split."""
        self._told_no_more.discard(subtask_id)
        self._serve(subtask_id)

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        """Give the reader its next split."""
        del requester_hostname
        self._serve(subtask_id)

    def add_splits_back(self, splits: list[SplitT], subtask_id: int) -> None:
        """Put the splits in front of the queue; the reader that lost them registers again."""
        self._queue.extendleft(reversed(splits))
        self._told_no_more.discard(subtask_id)
        self._serve_waiting()

    def _serve(self, subtask_id: int) -> None:
        if self._queue:
            self._waiting.discard(subtask_id)
            self._context.assign_split(self._queue.popleft(), subtask_id)
        else:
            self._waiting.add(subtask_id)
        self._end_if_done()

    def _serve_waiting(self) -> None:
        for subtask_id in sorted(self._waiting):
            if self._queue:
                self._serve(subtask_id)

    def _end_if_done(self) -> None:
        if self._queue or not self._complete:
            return
        for subtask_id in sorted(self._context.registered_readers):
            if subtask_id not in self._told_no_more:
                self._told_no_more.add(subtask_id)
                self._context.signal_no_more_splits(subtask_id)


show("penstock.datastream.connectors.enumerator_base", SplitQueueEnumerator)
