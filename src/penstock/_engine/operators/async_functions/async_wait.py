"""The operator of async functions: it makes a call for each record on the worker's event loop, and emits the results.

The records of pending calls are the operator's state, in the order of their arrival. Calls outlive an epoch: if the
next epoch of the subtask runs in this worker, they continue; in another worker they are made again (decision 42).
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.operators.async_functions.async_calls import AsyncCalls, Call
from penstock._engine.operators.async_functions.async_queues import CallQueue, OrderedQueue, UnorderedQueue
from penstock._engine.operators.async_functions.event_loop import WORKER_LOOP, WorkerLoop
from penstock._engine.operators.batch import BatchBuilder, RowBatch
from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.operators.user_functions import UserFunctionOperator
from penstock._engine.protocol.rows import MIN_WATERMARK
from penstock._engine.protocol.state_handle import StateMode
from penstock.common.configuration import Configuration
from penstock.common.option_table import CHECKPOINTING_INTERVAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._api.functions.async_retry import AsyncRetryStrategy
    from penstock._api.functions.asynchronous import AsyncFunction
    from penstock._engine.operators.base import EpochContext, OperatorContext, Output
    from penstock._engine.protocol.control import OperatorAck

#: The list state of records with pending calls: (id, value, timestamp, watermark before it, whether a call was made).
_STATE: Final = "async-records"
#: The metric of repeated calls: another worker, or the job before a restart, has made them before.
REPEATED_CALLS: Final = "numRepeatedCalls"
_CALLS_IN_FLIGHT: Final = "numCallsInFlight"

#: How long records wait for free capacity in an epoch without an interval.
_PATIENCE_MS: Final = 1_000
#: How long the end of an epoch waits for results: at most, and as a share of the interval.
_GRACE_MS: Final = 100
_GRACE_SHARE: Final = 0.1
#: The number of records without a call that may be left to the next epoch; with more, the epoch waits for results.
_MOST_WAITING: Final = 10_000
#: Waiting is interrupted after this time, so that a task can be cancelled.
_LOOK_MS: Final = 1_000
#: The pause before the next epoch in milliseconds if calls are pending: short after an epoch with results, else long.
_SOON_MS, _LATER_MS = 200, 1_000


class AsyncWaitOperator(UserFunctionOperator):
    """Calls an AsyncFunction for each record, and passes on its results with the record's timestamp.

    Args:
        function: The function.
        timeout_ms: The longest time of a call with all of its attempts; 0 for no limit.
        capacity: The maximum number of pending calls.
        is_ordered: Whether the results keep the order of the records.
        retry_strategy: Decides when a call is tried again.
    """

    #: Runs the calls.
    loop: WorkerLoop = WORKER_LOOP

    def __init__(
        self,
        function: AsyncFunction[Any, Any],
        timeout_ms: int,
        capacity: int,
        is_ordered: bool,
        retry_strategy: AsyncRetryStrategy[Any],
    ) -> None:
        super().__init__()
        self.function = function
        self._timeout_ms = timeout_ms
        self._capacity = capacity
        self._is_ordered = is_ordered
        self._retry_strategy = retry_strategy
        #: Pending calls, and after them records that wait for free capacity.
        self._made: CallQueue = self._new_queue()
        self._waiting: deque[Call] = deque()
        self._input_watermark = self._emitted = MIN_WATERMARK
        self._calls: AsyncCalls
        self._count = 0
        self._has_answers = False

    def _new_queue(self) -> CallQueue:
        return OrderedQueue() if self._is_ordered else UnorderedQueue()

    # --------------------------------------------------------------------------------------------------------- its life

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.loop.begin_use()
        self._calls = AsyncCalls(
            self.function, self._timeout_ms, self._retry_strategy, self.loop, object_reuse=self.object_reuse
        )
        interval = Configuration.from_dict(context.configuration).get(CHECKPOINTING_INTERVAL)
        self._patience_ms = _PATIENCE_MS if interval is None else interval.to_millis()
        self._grace_ms = min(_GRACE_MS, self._patience_ms * _GRACE_SHARE)
        self._repeated = context.metrics.counter(REPEATED_CALLS)
        context.metrics.gauge(_CALLS_IN_FLIGHT, lambda: len(self._made))

    def open_functions(self, epoch: EpochContext) -> None:
        self.open_function(self.function, EngineRuntimeContext(self.context), epoch, yields=True)

    def begin_epoch(self, epoch: EpochContext) -> None:
        super().begin_epoch(epoch)
        self._input_watermark = epoch.watermark
        self._prefix, self._count = f"{epoch.checkpoint_id}-{epoch.token:x}-", 0
        self._deadline_ms = self._calls.now_ms() + self._patience_ms
        self._has_answers = False
        if not epoch.current:
            self._restore(epoch.watermark)
        self._emitted = self.output_watermark(epoch.watermark)

    def _restore(self, watermark: int) -> None:
        """Restore the records of the last checkpoint; calls for them that this object has made continue."""
        known = {call.id: call for call in self._pending()}
        self._made, self._waiting = self._new_queue(), deque()
        for id_, value, timestamp, before, was_made in self.operator_state.list_state(_STATE, StateMode.LIST).get():
            call = known.pop(id_, None) or Call(id_, value, timestamp, before, was_made)
            # After rescaling, records of several subtasks are here, so their watermarks do not apply.
            call.watermark = min(before, watermark)
            self._waiting.append(call)
        self._calls.drop(known.values())

    def output_watermark(self, input_watermark: int) -> int:
        first = next(self._pending(), None)
        return input_watermark if first is None else first.watermark

    def is_idle(self, *, upstream_idle: bool) -> bool:
        return upstream_idle and not self._is_pending

    def next_timer_ms(self) -> int | None:
        if not self._is_pending:
            return None
        return self.context.clock() + (_SOON_MS if self._has_answers else _LATER_MS)

    def snapshot(self, epoch: EpochContext, *, finished: bool) -> OperatorAck:
        items = [
            (call.id, call.value, call.timestamp, call.watermark, call.is_made or call.was_made)
            for call in self._pending()
        ]
        self.operator_state.list_state(_STATE, StateMode.LIST).update(items)
        return super().snapshot(epoch, finished=finished)

    def close(self) -> None:
        if self._is_pending:
            self._calls.drop(self._pending(), wait=True)
        try:
            super().close()
        finally:
            self.loop.end_use()

    def _pending(self) -> Iterator[Call]:
        return chain(self._made, self._waiting)

    @property
    def _is_pending(self) -> bool:
        return bool(self._waiting) or len(self._made) > 0

    # ---------------------------------------------------------------------------------------------------------- records

    def process(self, batch: RowBatch, input_index: int) -> Iterator[Output]:
        stamps, waiting = batch.stamps(), self._waiting
        for start, stop, watermark in batch.segments():
            for value, timestamp in zip(batch.records[start:stop], stamps[start:stop], strict=True):
                waiting.append(Call(f"{self._prefix}{self._count}", value, timestamp, self._input_watermark))
                self._count += 1
            if watermark is not None:
                self._input_watermark = watermark
        yield from self._advance()
        while self._waiting:
            left_ms = self._deadline_ms - self._calls.now_ms()
            if left_ms <= 0 and len(self._waiting) <= _MOST_WAITING:
                return
            yield from self._wait(_LOOK_MS if left_ms <= 0 else min(left_ms, _LOOK_MS))

    def on_processing_time(self, now_ms: int) -> Iterable[Output]:
        return self._advance()

    def prepare_snapshot(self) -> Iterator[Output]:
        until_ms = self._calls.now_ms() + self._grace_ms
        while len(self._made) and (left_ms := until_ms - self._calls.now_ms()) > 0:
            yield from self._wait(left_ms)

    def finish(self) -> Iterator[Output]:
        yield from self._advance()
        while self._is_pending:
            yield from self._wait(_LOOK_MS)
        yield from super().finish()

    def _wait(self, limit_ms: float) -> Iterable[Output]:
        """Wait until a call ends, and advance."""
        self._on_answer(self._calls.next_ended(limit_ms))
        return self._advance()

    def _advance(self) -> Iterable[Output]:
        """Return the results that can be emitted, and make calls up to the capacity."""
        while (ended := self._calls.next_ended()) is not None:
            self._on_answer(ended)
        out = BatchBuilder()
        self._pass_on(out)
        self._make_calls()
        return ((None, out.build()),) if out.records or out.watermarks else ()

    def _on_answer(self, call: Call | None) -> None:
        if call is None or call.is_dropped:
            return
        call.is_answered = self._has_answers = True
        if call.error is not None:
            next(self.iterate([call.value]))  # the record that the error is about
            raise call.error
        self._made.answered(call)

    def _pass_on(self, out: BatchBuilder) -> None:
        for call in self._made.take():
            self._raise_watermark(call.watermark, out)
            out.records.extend(call.results)
            out.timestamps.extend([call.timestamp] * len(call.results))
        self._raise_watermark(self.output_watermark(self._input_watermark), out)

    def _raise_watermark(self, watermark: int, out: BatchBuilder) -> None:
        if watermark > self._emitted:
            self._emitted = watermark
            out.add_watermark(watermark)

    def _make_calls(self) -> None:
        made: list[Call] = []
        while self._waiting and len(self._made) < self._capacity:
            call = self._waiting.popleft()
            self._made.add(call)
            if not call.is_made:
                made.append(call)
        if made:
            self._repeated.inc(sum(call.was_made for call in made))
            self._calls.make(made)
