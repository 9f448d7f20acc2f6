"""The operator of functions that get all records of a checkpoint together."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from penstock._engine.operators.base import NOTHING, EpochContext, Operator, Output
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.sinks.sink import WriterContext
from penstock._engine.protocol.control import OperatorAck, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._api.connectors.topology import CheckpointFunction


class CheckpointProcessOperator(Operator):
    """Keeps the records of an epoch in memory, and calls the function at its end.

    Args:
        function: The function.
    """

    def __init__(self, function: CheckpointFunction[Any, Any]) -> None:
        super().__init__()
        self._function = function
        self._records: list[Any] = []
        #: The newest watermark, which follows the results.
        self._watermark: int | None = None
        self._state: list[Any] = []
        self._function_context: WriterContext | None = None

    def begin_epoch(self, epoch: EpochContext) -> None:
        self._records, self._watermark = [], None
        self._function_context = WriterContext(self.context, epoch)
        if not epoch.current:
            state = epoch.restore.state
            self._state = [] if state is None else [pickle.loads(item) for item in decode(state, list[bytes])]

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        self._records += batch.records
        if batch.watermarks:
            self._watermark = batch.watermarks[-1][1]
        return NOTHING

    def prepare_snapshot(self) -> Iterable[Output]:
        return self._called(end_of_input=False)

    def finish(self) -> Iterable[Output]:
        return self._called(end_of_input=True)

    def _called(self, *, end_of_input: bool) -> Iterable[Output]:
        assert self._function_context is not None
        records, self._records = self._records, []
        self.iterate([])
        made = self._function.process_checkpoint(records, self._state, self._function_context, end_of_input)
        out = [] if made is None else list(made)
        return ((None, RowBatch(out, None, () if self._watermark is None else [(len(out), self._watermark)])),)

    def snapshot(self, epoch: EpochContext, *, finished: bool) -> OperatorAck:
        return OperatorAck(state=encode([pickle.dumps(item) for item in self._state]))
