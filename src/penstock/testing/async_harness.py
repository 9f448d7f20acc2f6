"""A harness for async functions: their calls run on an event loop whose time a test moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from penstock._api.functions.async_retry import NO_RETRY_STRATEGY, AsyncRetryStrategy
from penstock._engine.operators.async_functions.async_wait import AsyncWaitOperator
from penstock.testing._virtual_loop import VirtualLoop
from penstock.testing.harness import OperatorHarness

if TYPE_CHECKING:
    from penstock._api.functions.asynchronous import AsyncFunction
    from penstock.testing._subtask import SubtaskSettings

__all__ = ["AsyncHarness"]


class AsyncHarness(OperatorHarness):
    """One subtask of an async function, made by one of the two ``for_async_`` methods.

    Coroutines sleep, time out and are tried again in no real time, always in the same order: time passes with
    :meth:`pass_ms`, with ``set_processing_time``, and where the operator waits for a free call or for the end.

    Args:
        operator: The operator.
        **subtask: ``subtask_index``, ``parallelism`` and the other arguments of the class.

    Example:
        >>> import asyncio
        >>> from penstock.datastream.functions import AsyncFunction
        >>> class Later(AsyncFunction):
        ...     async def async_invoke(self, value):
        ...         await asyncio.sleep(value / 1000)
        ...         return [value]
        >>> with AsyncHarness.for_async_unordered(Later()) as harness:
        ...     harness.process_elements([300, 100])
        ...     harness.pass_ms(200)
        ...     harness.values()
        [100]
    """

    def __init__(self, operator: AsyncWaitOperator, **subtask: Unpack[SubtaskSettings]) -> None:
        super().__init__(operator, **subtask)
        self._loop = operator.loop = VirtualLoop()

    @classmethod
    def for_async_ordered(
        cls,
        function: AsyncFunction[Any, Any],
        *,
        timeout_ms: int = 0,
        capacity: int = 100,
        retry_strategy: AsyncRetryStrategy[Any] = NO_RETRY_STRATEGY,
        **subtask: Unpack[SubtaskSettings],
    ) -> AsyncHarness:
        """Return a harness for the function of ``AsyncDataStream.ordered_wait`` and ``ordered_wait_with_retry``.

        Args:
            function: The function.
            timeout_ms: The longest time of a call with all its retries, in milliseconds; 0: no limit.
            capacity: The maximum number of pending calls.
            retry_strategy: Decides when a call is tried again.
            **subtask: ``subtask_index``, ``parallelism`` and the other arguments of the class.
        """
        return cls(AsyncWaitOperator(function, timeout_ms, capacity, True, retry_strategy), **subtask)

    @classmethod
    def for_async_unordered(
        cls,
        function: AsyncFunction[Any, Any],
        *,
        timeout_ms: int = 0,
        capacity: int = 100,
        retry_strategy: AsyncRetryStrategy[Any] = NO_RETRY_STRATEGY,
        **subtask: Unpack[SubtaskSettings],
    ) -> AsyncHarness:
        """Return a harness for the function of ``AsyncDataStream.unordered_wait``; with the arguments of the other."""
        return cls(AsyncWaitOperator(function, timeout_ms, capacity, False, retry_strategy), **subtask)

    def pass_ms(self, by_ms: int) -> None:
        """Let milliseconds pass: calls go on, and results that are there come out."""
        self.set_processing_time(self.clock.now_ms() + by_ms)

    def set_processing_time(self, now_ms: int) -> None:
        """Let time pass up to a time of day; as :meth:`pass_ms`."""
        self.open()
        self._loop.pass_ms(max(0, now_ms - self.clock.now_ms()))
        super().set_processing_time(now_ms)

    def close(self) -> None:
        """Close the function; calls that are still open are cancelled."""
        super().close()
        self._loop.close()
