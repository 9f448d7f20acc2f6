"""Watermark alignment in a source's subtask: holds a reader, or some of its splits, that are ahead of their group.

The driver tells each subtask with every epoch how far the others of its group are (`coordinator.epochs.acks`).
Within an epoch that does not change, and what the subtask itself may read follows from its own watermark, too.

Source: FLIP-182 and FLIP-217, Flink's SourceOperator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._engine.protocol.control import AlignmentReport
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._api.connectors.reader import SourceReader
    from penstock._engine.operators.sources.source_output import EpochReaderOutput
    from penstock.common.watermark_strategy import WatermarkAlignment


class SourceAlignment:
    """The alignment of one reader with its group.

    Args:
        alignment: Names the group, and how far a reader may be ahead of it.
        reader: The reader.
        output: Its output, with its watermark and that of each split.
        lets_splits_go: Whether a reader that cannot pause single splits may let them run ahead of each other.
    """

    def __init__(
        self,
        alignment: WatermarkAlignment,
        reader: SourceReader[Any, Any],
        output: EpochReaderOutput,
        *,
        lets_splits_go: bool,
    ) -> None:
        self._group, self._drift_ms = alignment.group, alignment.max_drift_ms
        self._reader, self._output = reader, output
        self._lets_splits_go = lets_splits_go
        self._pauses_splits = True
        #: The smallest watermark of all others in the group; MAX_WATERMARK where none holds the group back.
        self.others = MAX_WATERMARK

    def holds_reader(self) -> bool:
        """Pause and resume splits; tell whether the whole reader has to wait for others in the group."""
        if self._is_ahead:
            return True
        if self._pauses_splits:
            self._pause_or_resume_splits()
        return False

    @property
    def _is_ahead(self) -> bool:
        limit = self.others + self._drift_ms
        return self._output.top > limit or self._output.combined > limit  # a split that held it back may have ended

    @property
    def _limit_of_own(self) -> int:
        """The greatest watermark that a split may have because of the reader's other splits."""
        top = self._output.top
        return MAX_WATERMARK if top == MIN_WATERMARK else top + self._drift_ms

    def _pause_or_resume_splits(self) -> None:
        splits = self._output.splits
        limit = min(self.others + self._drift_ms, self._limit_of_own)
        ahead = {name for name, split in splits.items() if split.watermark > limit} if len(splits) > 1 else set[str]()
        paused = {name for name, split in splits.items() if split.paused}
        if ahead == paused:
            return
        to_pause, to_resume = sorted(ahead - paused), sorted(paused - ahead)
        try:
            self._reader.pause_or_resume_splits(to_pause, to_resume)
        except UnsupportedOperationError:
            if not self._lets_splits_go:
                raise
            self._pauses_splits = False
            return
        for name in to_pause:
            splits[name].pause()
        for name in to_resume:
            splits[name].resume()

    def report(self, *, ended: bool) -> AlignmentReport:
        """Return what the group has to know of this reader at the end of an epoch."""
        output = self._output
        has_nothing = not (output.splits or output.main.used or output.records)
        is_silent = ended or has_nothing or output.is_idle() or output.top == MIN_WATERMARK
        watermark = MAX_WATERMARK if is_silent else output.top
        return AlignmentReport(self._group, watermark, None if ended else self._awaited())

    def _awaited(self) -> int | None:
        """Return the smallest watermark of the others with which this reader could read what it may not read now."""
        held = [split.watermark for split in self._output.splits.values() if split.paused]
        held = [self._output.top] if self._is_ahead else [mark for mark in held if mark <= self._limit_of_own]
        return min(held) - self._drift_ms if held else None
