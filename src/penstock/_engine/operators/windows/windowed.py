"""What the operators of windows have in common: how they walk a batch, the window function, and late records."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.operators.keyed import KeyedOperator
from penstock._engine.operators.side_outputs import SideOutputs
from penstock._engine.operators.windows.late_records import LateRecords

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._engine.operators.base import EpochContext, OperatorContext, Output
    from penstock._engine.operators.batch import Batch, RowBatch
    from penstock._engine.operators.windows.window_function import WindowResults


class WindowedOperator(KeyedOperator):
    """Adds records to windows, and emits the results of windows that fire.

    Args:
        key_selector: The key selector of the stream.
        function: What folds records into contents; None where windows hold all records.
        results: Emits the results of a firing window.
        late_tag: The id of the side output for late records; None drops them.
    """

    parts_tagged = True

    def __init__(self, key_selector: Any, function: Any, results: WindowResults, late_tag: str | None) -> None:
        super().__init__(key_selector)
        self._function = function
        self.results = results
        self.late_tag = late_tag
        self.late: LateRecords

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.late = LateRecords(context)

    def open_functions(self, epoch: EpochContext) -> None:
        self.open_function(self._function, EngineRuntimeContext(self.context), epoch)
        function = self.results.prepare(self.context, self.store)
        if function is not None:
            self.open_function(*function, epoch, yields=True)

    def leave_keys(self) -> None:
        self.results.leave_keys()

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        return self.walk(batch)

    def walk(self, batch: Batch) -> Iterator[Output]:
        """Walk through a batch, and yield the results."""
        out = self.new_outputs()
        for start, stop, watermark in batch.segments():
            if start < stop:
                self.take(batch if stop - start == len(batch) else batch.run(start, stop), out)
            if watermark is not None:
                yield from self.advance(watermark, out)
                out.watermark(watermark)
        yield from out.outputs()

    def take(self, batch: Any, out: SideOutputs) -> None:
        """Take the records between two watermarks."""
        self.add(batch.records, batch.stamps(), out)

    def side_output_late(self, batch: Batch, watermark: int, out: SideOutputs) -> None:
        """Drop late records, or emit them to the side output."""
        self.late.side_output_late(batch, self.late_tag, watermark, out)

    def new_outputs(self) -> SideOutputs:
        """Return empty outputs."""
        return SideOutputs(with_timestamps=True, object_reuse=self.object_reuse)

    @abstractmethod
    def add(self, records: list[Any], stamps: list[int], out: SideOutputs) -> None:
        """Add records to their windows; those that are late fire them again, or are set aside."""

    @abstractmethod
    def advance(self, watermark: int, out: SideOutputs) -> Iterable[Output]:
        """Fire and clear the windows that are due by a watermark; yield results that are too many to be held."""
