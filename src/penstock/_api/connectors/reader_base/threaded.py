"""A reader whose threads fetch elements; it emits them as records on the engine's thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._api.connectors.reader import InputStatus, SourceOutput, SourceReader
from penstock._api.connectors.split import SourceSplit
from penstock._shelf import show
from penstock.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._api.connectors.reader import ReaderOutput, SourceReaderContext
    from penstock._api.connectors.reader_base.fetching import RecordsWithSplitIds, SplitFetcherManager

E = TypeVar("E")
T = TypeVar("T")
SplitT = TypeVar("SplitT", bound=SourceSplit)
SplitStateT = TypeVar("SplitStateT")

_BLOCK = 2048


class RecordEmitter(ABC, Generic[E, T, SplitStateT]):
    """Turns fetched elements into records and notes the progress in the split's state.

    Source: org.apache.flink.connector.base.source.reader.RecordEmitter.
    """

    @abstractmethod
    def emit_record(self, element: E, output: SourceOutput[T], split_state: SplitStateT) -> None:
        """Emit the records of one element, then move the split's state past it."""

    def emit_records(self, elements: list[E], output: SourceOutput[T], split_state: SplitStateT) -> None:
        """Emit a block of elements; faster emitters override it."""
        for element in elements:
            self.emit_record(element, output, split_state)


class RecordEvaluator(ABC, Generic[T]):
    """Decides whether a split ends early, at a certain record.

    Source: org.apache.flink.connector.base.source.reader.RecordEvaluator.
    """

    @abstractmethod
    def is_end_of_stream(self, record: T) -> bool:
        """Tell whether the split ends at this record, which is then not emitted."""


class _EvaluatedOutput(SourceOutput[Any]):
    """Passes records on until their split ends."""

    def __init__(self, output: SourceOutput[Any], evaluator: RecordEvaluator[Any]) -> None:
        self._output, self._evaluator = output, evaluator
        self.ended = False

    @property
    def wanted(self) -> int:
        return self._output.wanted

    def collect(self, record: Any, timestamp: int | None = None) -> None:
        self.ended = self.ended or self._evaluator.is_end_of_stream(record)
        if not self.ended:
            self._output.collect(record, timestamp)

    def collect_all(self, records: list[Any], timestamps: Sequence[int] | None = None) -> None:
        if self.ended:
            return
        end = next((at for at, record in enumerate(records) if self._evaluator.is_end_of_stream(record)), None)
        self.ended = end is not None
        self._output.collect_all(records[:end], None if timestamps is None else timestamps[:end])

    def records_of(self, batch: Any) -> list[Any]:
        return self._output.records_of(batch)

    def emit_watermark(self, watermark: int) -> None:
        self._output.emit_watermark(watermark)

    def mark_idle(self) -> None:
        self._output.mark_idle()

    def mark_active(self) -> None:
        self._output.mark_active()


class SourceReaderBase(SourceReader[T, SplitT], Generic[E, T, SplitT, SplitStateT]):
    """A reader for systems that keep it waiting: threads fetch batches, and the reader emits them.

    A subclass converts a split into a mutable state and back. The state moves with each emitted element, so a snapshot
    in the middle of a fetched batch neither repeats nor skips anything. Fetchers are held from a snapshot until the
    next poll: between epochs nothing is read.

    Source: org.apache.flink.connector.base.source.reader.SourceReaderBase, FLIP-27.

    Args:
        split_fetcher_manager: Runs the fetchers.
        record_emitter: Emits the fetched elements.
        context: The reader's context.
        record_evaluator: Ends splits early; None lets each split end by itself.
    """

    def __init__(
        self,
        split_fetcher_manager: SplitFetcherManager[E, SplitT],
        record_emitter: RecordEmitter[E, T, SplitStateT],
        context: SourceReaderContext,
        record_evaluator: RecordEvaluator[T] | None = None,
    ) -> None:
        self._context = context
        self._manager = split_fetcher_manager
        self._emitter = record_emitter
        self._evaluator = record_evaluator
        self._states: dict[str, SplitStateT] = {}
        self._batch: list[tuple[str, list[E]]] = []
        self._position = 0
        self._finishing: frozenset[str] = frozenset()
        self._no_more_splits = False

    @abstractmethod
    def initialized_state(self, split: SplitT) -> SplitStateT:
        """Return the state of a split at the position that the split holds."""

    @abstractmethod
    def to_split_type(self, split_id: str, split_state: SplitStateT) -> SplitT:
        """Return the split at the position of its state."""

    @abstractmethod
    def on_split_finished(self, finished_split_ids: dict[str, SplitStateT]) -> None:
        """Note splits that ended, with their last states; a place to ask for the next split."""

    def poll_next(self, output: ReaderOutput[T]) -> InputStatus:
        """Emit the next elements of the current batch, or begin the next batch."""
        self._manager.go_on()
        if not self._batch and not self._finishing:
            fetched = self._manager.poll()
            if fetched is None:
                return self._nothing_fetched()
            self._begin(fetched)
        if self._batch:
            self._emit_block(output)
        if not self._batch:
            finished, self._finishing = self._finishing, frozenset()
            self._finish(finished, output)
        return InputStatus.MORE_AVAILABLE

    def _nothing_fetched(self) -> InputStatus:
        # A split leaves `_states` only through the queue, so no states means that nothing is fetched or under way.
        if self._no_more_splits and not self._states:
            return InputStatus.END_OF_INPUT
        return InputStatus.NOTHING_AVAILABLE

    def _begin(self, fetched: RecordsWithSplitIds[E]) -> None:
        # Reversed, so that the current split is the last one. Splits that ended early are passed over.
        self._batch = [(split, list(part)) for split, part in fetched.records.items() if part and split in self._states]
        self._batch.reverse()
        self._position = 0
        self._finishing = fetched.finished_splits

    def _emit_block(self, output: ReaderOutput[T]) -> None:
        split_id, elements = self._batch[-1]
        block = elements[self._position : self._position + min(_BLOCK, output.wanted)]
        self._position += len(block)
        split_output = output.create_output_for_split(split_id)
        evaluated = None if self._evaluator is None else _EvaluatedOutput(split_output, self._evaluator)
        self._emitter.emit_records(block, split_output if evaluated is None else evaluated, self._states[split_id])
        ended_early = evaluated is not None and evaluated.ended
        if ended_early:
            self._manager.remove_splits([split_id])
            self._finish(frozenset({split_id}), output)
        if ended_early or self._position >= len(elements):
            self._batch.pop()
            self._position = 0

    def _finish(self, split_ids: frozenset[str], output: ReaderOutput[T]) -> None:
        finished = {split_id: self._states.pop(split_id) for split_id in sorted(split_ids) if split_id in self._states}
        for split_id in finished:
            output.release_output_for_split(split_id)
        if finished:
            self.on_split_finished(finished)

    def is_available(self, timeout_ms: int = 0) -> bool:
        """Wait for a fetched batch; a reader without splits does not, because new ones come with the next epoch."""
        if self._batch or self._finishing:
            return True
        return self._manager.wait(timeout_ms if self._states else 0)

    def snapshot_state(self, checkpoint_id: int) -> list[SplitT]:
        """Hold the fetchers and return the splits, each positioned after its last emitted element."""
        del checkpoint_id
        self._manager.hold()
        return [self.to_split_type(split_id, state) for split_id, state in self._states.items()]

    def add_splits(self, splits: list[SplitT]) -> None:
        """Have splits fetched.

        Raises:
            InternalError: A split is already being read.
        """
        for split in splits:
            if split.split_id() in self._states:
                raise InternalError(f"Split {split.split_id()!r} was assigned twice to one reader.")
            self._states[split.split_id()] = self.initialized_state(split)
        if splits:
            self._manager.add_splits(splits)

    def notify_no_more_splits(self) -> None:
        """End after the current splits."""
        self._no_more_splits = True

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        """Pause some splits and resume others in the fetchers."""
        self._manager.pause_or_resume_splits(splits_to_pause, splits_to_resume)

    def close(self) -> None:
        """Stop the fetchers, within ``source.reader.close.timeout``."""
        self._manager.close()


show("penstock.datastream.connectors.reader_base", RecordEmitter, RecordEvaluator, SourceReaderBase)
