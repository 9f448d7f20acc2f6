"""The half of a hybrid source that runs in tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.connectors.reader import InputStatus, SourceReader
from penstock._connectors.hybrid.messages import (
    AnySource,
    EndOfSource,
    HybridSplit,
    HybridStep,
    InnerEvent,
    NoMoreSplitsOfSource,
    SwitchSource,
    made_source,
    unwrapped,
    wrapped,
)

if TYPE_CHECKING:
    from penstock._api.connectors.reader import ReaderOutput, SourceReaderContext
    from penstock._api.connectors.split import SourceEvent
    from penstock.common.configuration import Configuration
    from penstock.metrics.metricbase import MetricGroup


class _InnerReaderContext:
    """The context of the reader of one of the sources."""

    def __init__(self, outer: SourceReaderContext, index: int) -> None:
        self._outer, self._index = outer, index

    @property
    def metric_group(self) -> MetricGroup:
        return self._outer.metric_group

    @property
    def configuration(self) -> Configuration:
        return self._outer.configuration

    @property
    def index_of_subtask(self) -> int:
        return self._outer.index_of_subtask

    @property
    def current_parallelism(self) -> int:
        return self._outer.current_parallelism

    def send_split_request(self) -> None:
        self._outer.send_split_request()

    def send_source_event_to_coordinator(self, source_event: SourceEvent) -> None:
        self._outer.send_source_event_to_coordinator(InnerEvent(self._index, source_event))

    def end_job_input(self) -> None:
        self._outer.end_job_input()


class HybridReader(SourceReader[Any, HybridSplit]):
    def __init__(self, steps: tuple[HybridStep, ...], context: SourceReaderContext) -> None:
        self._steps, self._context = steps, context
        self._index = 0
        self._made: bytes | None = None
        self._source: AnySource | None = None
        self._inner: SourceReader[Any, Any] | None = None
        #: Whether `start` was called; whether this source has no more splits; whether its end was told.
        self._started = self._no_more = self._told = False
        #: Whether the last source has no more splits, which may be said first; whether its end was reached.
        self._no_more_at_all = self._ended = False

    @property
    def _is_last(self) -> bool:
        return self._index == len(self._steps) - 1

    def start(self) -> None:
        self._started = True
        self._reader().start()

    def _reader(self) -> SourceReader[Any, Any]:
        """Return the reader of the current source."""
        if self._inner is None:
            self._source = made_source(self._steps, self._index, self._made)
            self._inner = self._source.create_reader(_InnerReaderContext(self._context, self._index))
            if self._no_more:
                self._inner.notify_no_more_splits()
        return self._inner

    def _turn_to(self, index: int, made: bytes | None) -> None:
        if index <= self._index:
            return
        if self._inner is not None:
            self._inner.close()
        self._inner, self._index, self._made, self._told = None, index, made, False
        self._no_more = self._is_last and self._no_more_at_all
        if self._started:
            self._reader().start()

    def add_splits(self, splits: list[HybridSplit]) -> None:
        for split in splits:
            if split.is_position:
                self._turn_to(split.index, split.made)
                self._no_more |= split.no_more and split.index == self._index
        others = [split for split in splits if not split.is_position]
        for split in others:
            self._turn_to(split.index, split.made)
        reader, source = self._reader(), self._source
        if others and source is not None:
            reader.add_splits([unwrapped(split, source) for split in others])

    def notify_no_more_splits(self) -> None:
        self._no_more_at_all = True
        if self._is_last:
            self._end_splits()

    def _end_splits(self) -> None:
        self._no_more = True
        self._reader().notify_no_more_splits()

    def handle_source_events(self, source_event: SourceEvent) -> None:
        match source_event:
            case SwitchSource(index, made):
                self._turn_to(index, made)
            case NoMoreSplitsOfSource(index) if index == self._index:
                self._end_splits()
            case InnerEvent(index, event) if index == self._index:
                self._reader().handle_source_events(event)
            case _:
                pass

    def poll_next(self, output: ReaderOutput[Any]) -> InputStatus:
        if self._told:
            return InputStatus.NOTHING_AVAILABLE
        status = self._reader().poll_next(output)
        if status is not InputStatus.END_OF_INPUT:
            return status
        if self._is_last:
            self._ended = True
            return status
        self._told = True
        self._context.send_source_event_to_coordinator(EndOfSource(self._index))
        return InputStatus.NOTHING_AVAILABLE

    def is_available(self, timeout_ms: int = 0) -> bool:
        return not self._told and self._reader().is_available(timeout_ms)

    def snapshot_state(self, checkpoint_id: int) -> list[HybridSplit]:
        reader = self._reader()
        assert self._source is not None
        serializer = self._source.get_split_serializer()
        splits = [wrapped(self._index, serializer, split, self._made) for split in reader.snapshot_state(checkpoint_id)]
        if self._ended:
            return []
        name = f"position of {self._context.index_of_subtask}"
        return [HybridSplit(self._index, name, made=self._made, no_more=self._no_more), *splits]

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        self._reader().pause_or_resume_splits(splits_to_pause, splits_to_resume)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._reader().notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._reader().notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()
