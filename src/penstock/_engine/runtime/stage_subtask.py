"""One subtask of a stage, whose blocks are all stored before it starts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock._engine.operators.base import ReadingOperator
from penstock._engine.operators.first_error import FirstError
from penstock._engine.runtime.failures import OperatorError
from penstock._engine.runtime.subtask import SubtaskRuntime

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._engine.operators.batch import Batch

#: A block: its channel, its batch, and its bytes.
Block = tuple[int, "Batch", int]


class StageSubtask(SubtaskRuntime):
    """A subtask whose head may read the blocks itself."""

    def receive_all(self, blocks: Iterable[Block]) -> Iterator[None]:
        """Process all blocks of the subtask; a head that reads its input gets each when it asks for it."""
        head = self._nodes[0].operator
        if not isinstance(head, ReadingOperator):
            for channel, batch, size in blocks:
                yield from self.receive(channel, batch, size)
            return
        start = time.perf_counter()
        batches = FirstError(self._taken(blocks))
        try:
            for tag, batch in self._outputs(0, head.read_all, batches):
                yield from self._forward(0, tag, batch)
                yield from self.on_processing_time(first=1)  # the head is in the midst of its records
        except OperatorError:
            if batches.error is not None:  # it is not the function's
                raise batches.error from None
            raise
        self._figures.busy_s += time.perf_counter() - start

    def _taken(self, blocks: Iterable[Block]) -> Iterator[Batch]:
        for channel, batch, size in blocks:
            self._figures.records_in += len(batch)
            self._figures.bytes_in += size
            batch.watermarks = self.valve.combine(channel, batch.watermarks)
            yield batch
