"""The driver's half of a hybrid source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.connectors.serializer import PickleSerializer
from penstock._api.connectors.source import SplitEnumerator, SplitsAssignment
from penstock._connectors.hybrid.messages import (
    AnySource,
    EndOfSource,
    HybridSplit,
    HybridState,
    HybridStep,
    InnerEvent,
    NoMoreSplitsOfSource,
    SourceSwitchContext,
    SwitchSource,
    made_source,
    unwrapped,
    wrapped,
)
from penstock.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._api.connectors.source import ReaderInfo, SplitEnumeratorContext
    from penstock._api.connectors.split import SourceEvent
    from penstock.metrics.metricbase import MetricGroup


class _InnerContext:
    """The context of the enumerator of one of the sources."""

    def __init__(self, owner: HybridEnumerator, index: int, source: AnySource, made: bytes | None) -> None:
        self._owner, self._outer, self._index, self._made = owner, owner.context, index, made
        self._serializer = source.get_split_serializer()
        self.is_batch = owner.context.is_batch

    @property
    def metric_group(self) -> MetricGroup:
        return self._outer.metric_group

    @property
    def current_parallelism(self) -> int:
        return self._outer.current_parallelism

    @property
    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        return self._outer.registered_readers

    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        self._outer.send_event_to_source_reader(subtask_id, InnerEvent(self._index, event))

    def assign_splits(self, new_split_assignments: SplitsAssignment[Any]) -> None:
        assignment = new_split_assignments.assignment
        self._outer.assign_splits(
            SplitsAssignment(
                {subtask: [self._outside(split) for split in splits] for subtask, splits in assignment.items()}
            )
        )

    def assign_split(self, split: Any, subtask: int) -> None:
        self.assign_splits(SplitsAssignment({subtask: [split]}))

    def _outside(self, split: Any) -> HybridSplit:
        return wrapped(self._index, self._serializer, split, self._made)

    def signal_no_more_splits(self, subtask: int) -> None:
        if self._owner.is_last:
            self._outer.signal_no_more_splits(subtask)
        else:
            self._outer.send_event_to_source_reader(subtask, NoMoreSplitsOfSource(self._index))

    def call_async(
        self,
        callable: Callable[[], Any],  # noqa: A002 - Flink's name
        handler: Callable[[Any, Exception | None], None],
        initial_delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> None:
        def handle(result: Any, error: Exception | None) -> None:
            if self._owner.index == self._index:  # else it is closed
                handler(result, error)

        self._outer.call_async(callable, handle, initial_delay_ms, period_ms)

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        if self._owner.is_last:
            self._outer.set_is_processing_backlog(is_processing_backlog)


class HybridEnumerator(SplitEnumerator[HybridSplit, HybridState]):
    def __init__(
        self,
        steps: tuple[HybridStep, ...],
        context: SplitEnumeratorContext[HybridSplit],
        state: HybridState | None = None,
    ) -> None:
        self.context = context
        self._steps = steps
        self.index: int = 0 if state is None else state.index
        self._made = None if state is None else state.made
        self._ended: set[int] = set()
        self._source = made_source(steps, self.index, self._made)
        inner = _InnerContext(self, self.index, self._source, self._made)
        if state is None:
            self._inner = self._source.create_enumerator(inner)
        else:
            serializer = self._source.get_enumerator_checkpoint_serializer()
            self._inner = self._source.restore_enumerator(inner, serializer.deserialize(state.version, state.inner))

    @property
    def is_last(self) -> bool:
        """Whether no source follows."""
        return self.index == len(self._steps) - 1

    def start(self) -> None:
        self.context.set_is_processing_backlog(not self.is_last)
        self._inner.start()

    def add_reader(self, subtask_id: int) -> None:
        self._ended.discard(subtask_id)
        if self.index:
            self.context.send_event_to_source_reader(subtask_id, SwitchSource(self.index, self._made))
        self._inner.add_reader(subtask_id)

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        if subtask_id not in self._ended:  # it has asked before it came to the end
            self._inner.handle_split_request(subtask_id, requester_hostname)

    def handle_source_event(self, subtask_id: int, source_event: SourceEvent) -> None:
        match source_event:
            case EndOfSource(index) if index == self.index and not self.is_last:
                self._ended.add(subtask_id)
                if len(self._ended) == self.context.current_parallelism:
                    self._switch()
            case InnerEvent(index, event) if index == self.index:
                self._inner.handle_source_event(subtask_id, event)
            case _:  # of a source that has ended
                pass

    def _switch(self) -> None:
        """Begin the next source: every reader has come to the end of this one."""
        previous, self._ended = self._inner, set()
        step = self._steps[self.index + 1]
        if step.factory is not None:
            made = step.factory(SourceSwitchContext(previous))
            self._made = PickleSerializer().serialize(made)
        else:
            self._made = None
        previous.close()
        self.index += 1
        self._source = made_source(self._steps, self.index, self._made)
        self._inner = self._source.create_enumerator(_InnerContext(self, self.index, self._source, self._made))
        self.start()
        for subtask in sorted(self.context.registered_readers):
            self.add_reader(subtask)

    def add_splits_back(self, splits: list[HybridSplit], subtask_id: int) -> None:
        self._ended.discard(subtask_id)
        others = [split for split in splits if not split.is_position]
        if any(split.index != self.index for split in others):
            raise InternalError(f"Splits of a source that has ended come back to a HybridSource: {others}.")
        if others:
            self._inner.add_splits_back([unwrapped(split, self._source) for split in others], subtask_id)

    def snapshot_state(self, checkpoint_id: int) -> HybridState:
        serializer = self._source.get_enumerator_checkpoint_serializer()
        inner = serializer.serialize(self._inner.snapshot_state(checkpoint_id))
        return HybridState(self.index, self._made, serializer.get_version(), inner)

    def find_new_splits(self) -> None:
        self._inner.find_new_splits()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._inner.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._inner.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        self._inner.close()
