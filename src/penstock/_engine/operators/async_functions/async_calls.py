"""The calls of an async function, from the record to its answer: attempts, pauses between them, the timeout.

A call runs on the event loop of the worker, and its operator on the thread of the task. Ended calls pass from the one
to the other through a queue; an operator reads the outcome of a call only after taking the call from there.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Collection
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from penstock.common.copies import copy_if_mutable
from penstock.common.types import Row

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from penstock._api.functions.async_retry import AsyncRetryStrategy
    from penstock._api.functions.asynchronous import AsyncFunction
    from penstock._engine.operators.async_functions.event_loop import WorkerLoop

#: How long `close` waits for cancelled calls.
_CANCEL_MS: Final = 1_000
#: What can be read more than once.
_RE_READABLE: Final[Any] = Collection


@dataclass(slots=True, eq=False)
class Call:
    """A record, and the call for it once that was made."""

    #: The id of the record, valid in all processes.
    id: str
    value: Any
    timestamp: int
    #: The watermark of the input before the record.
    watermark: int
    #: Whether another process, or the job before a restart, has made a call for the record.
    was_made: bool = False
    #: Whether this call has been made.
    is_made: bool = False
    #: Whether its answer is no longer needed.
    is_dropped: bool = False
    #: Whether the operator knows its outcome.
    is_answered: bool = False
    results: list[Any] = field(default_factory=list[Any])
    error: BaseException | None = None
    #: The following fields are used on the loop only.
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    has_ended: bool = False


class AsyncCalls:
    """Makes the calls of one operator.

    Args:
        function: The function.
        timeout_ms: The longest time of a call with all of its attempts; 0 for no limit.
        strategy: Decides when a call is tried again.
        loop: The loop of the worker.
        object_reuse: Records and results are passed on without a copy.
    """

    def __init__(
        self,
        function: AsyncFunction[Any, Any],
        timeout_ms: int,
        strategy: AsyncRetryStrategy[Any],
        loop: WorkerLoop,
        *,
        object_reuse: bool,
    ) -> None:
        self._function = function
        self._timeout_s = timeout_ms / 1000
        self._strategy = strategy
        predicate = strategy.get_retry_predicate()
        self._again_after: Callable[[Any], bool] | None = predicate.result_predicate()
        self._again_after_error: Callable[[Exception], bool] | None = predicate.exception_predicate()
        self._loop = loop
        self._given: Callable[[Any], Any] = (lambda record: record) if object_reuse else copy_if_mutable
        #: The ended calls that the operator has not taken yet.
        self._ended: SimpleQueue[Call] = SimpleQueue()

    # ----------------------------------------------------------------------------------------- on the operator's thread

    def now_ms(self) -> float:
        """Return the time of the loop's monotonic clock."""
        return self._loop.now_ms()

    def make(self, calls: list[Call]) -> None:
        """Start some calls."""
        for call in calls:
            call.is_made = True
        self._loop.run(self._start, calls)

    def next_ended(self, limit_ms: float = 0) -> Call | None:
        """Wait for the next ended call at most this long; return None without one."""
        try:
            return self._ended.get_nowait()
        except Empty:
            return self._loop.wait(self._ended, limit_ms) if limit_ms > 0 else None

    def drop(self, calls: Iterable[Call], *, wait: bool = False) -> None:
        """Cancel calls whose answers are no longer needed.

        Args:
            calls: The calls.
            wait: Whether to wait for their end, for a bounded time.
        """
        made = [call for call in calls if call.is_made]
        for call in made:
            call.is_dropped = True
        if not made:
            return
        if wait:
            self._loop.complete(self._cancelled(made), _CANCEL_MS)
        else:
            self._loop.run(self._cancel, made)

    # ------------------------------------------------------------------------------------------------------ on the loop

    def _start(self, calls: list[Call]) -> None:
        loop = asyncio.get_running_loop()
        for call in calls:
            call.task = loop.create_task(self._answer(call, self._attempts))
            if self._timeout_s:
                call.timer = loop.call_later(self._timeout_s, self._time_out, call)

    async def _attempts(self, call: Call) -> Any:
        """Return the result of the function, after the attempts that the strategy asks for."""
        attempts = 1
        while True:
            try:
                results: Any = await self._function.async_invoke(self._given(call.value))
            except Exception as error:
                again, attempts_left = self._again_after_error, self._strategy.can_retry(attempts)
                if again is None or not attempts_left or not again(error):
                    raise
            else:
                again = self._again_after
                if again is None or results is None:
                    return results
                if not isinstance(results, _RE_READABLE):  # a predicate may read what can be read once only
                    results = [*self._checked(results)]
                if not again(results) or not self._strategy.can_retry(attempts):
                    return results
            await asyncio.sleep(self._strategy.get_backoff_time_millis(attempts) / 1000)
            attempts += 1

    def _time_out(self, call: Call) -> None:
        if call.has_ended or call.task is None:
            return
        late, call.timer = call.task, None
        call.task = asyncio.get_running_loop().create_task(self._answer(call, self._timed_out))
        late.cancel()

    async def _timed_out(self, call: Call) -> Any:
        results: Any = self._function.timeout(self._given(call.value))
        return await results if inspect.isawaitable(results) else results

    async def _answer(self, call: Call, attempts: Callable[[Call], Awaitable[Any]]) -> None:
        """Run the attempts of a call and keep their outcome; errors are raised by the operator, never on the loop."""
        task = asyncio.current_task()
        try:
            results = list(map(self._given, self._checked(await attempts(call))))
        except BaseException as error:  # noqa: BLE001 - the loop must outlive the functions of users
            if call.task is task:
                self._end(call, error=error)
        else:
            if call.task is task:
                self._end(call, results=results)

    def _checked(self, results: Any) -> Iterable[Any]:
        if isinstance(results, (str, bytes, dict, Row)) or not hasattr(results, "__iter__"):
            name = type(self._function).__qualname__
            msg = (
                f"async_invoke and timeout of {name} must return a list of the record's results, which may be empty, "
                f"not {results!r:.200}."
            )
            raise TypeError(msg)
        return results

    def _end(self, call: Call, *, results: list[Any] | None = None, error: BaseException | None = None) -> None:
        call.has_ended, call.task = True, None
        call.results, call.error = results or [], error
        if call.timer is not None:
            call.timer.cancel()
            call.timer = None
        self._ended.put(call)

    @staticmethod
    def _cancel(calls: list[Call]) -> list[asyncio.Task[None]]:
        tasks = [call.task for call in calls if call.task is not None]
        for call in calls:
            call.has_ended, call.task = True, None
            if call.timer is not None:
                call.timer.cancel()
        for task in tasks:
            task.cancel()
        return tasks

    async def _cancelled(self, calls: list[Call]) -> None:
        tasks = self._cancel(calls)
        if tasks:
            await asyncio.wait(tasks, timeout=_CANCEL_MS / 1000)
