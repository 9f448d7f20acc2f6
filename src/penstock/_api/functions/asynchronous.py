"""Async functions: coroutines that call other systems, many at a time."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._api.functions.async_retry import AsyncRetryStrategy, NoRetryStrategy
from penstock._api.functions.basic import Function
from penstock._shelf import show
from penstock.common.time import Duration, Time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class AsyncFunction(Function, Generic[IN, OUT]):
    """Calls another system for each record, with many pending calls at a time.

    All calls of a worker run on one event loop in a thread of its own, so blocking code in one call blocks all. A call
    is made at least once: if its worker is lost, or the subtask moves to another worker, a pending call is made again.
    Its result is emitted exactly once.

    Source: FLIP-12, org.apache.flink.streaming.api.functions.async.AsyncFunction.

    Example:
        >>> import asyncio
        >>> class Doubled(AsyncFunction):
        ...     async def async_invoke(self, value):
        ...         await asyncio.sleep(0)
        ...         return [value * 2]
        >>> asyncio.run(Doubled().async_invoke(21))
        [42]
    """

    @abstractmethod
    async def async_invoke(self, value: IN) -> Iterable[OUT]:
        """Return a list of the results for a record, which may be empty.

        Args:
            value: The record.
        """

    def timeout(self, value: IN) -> Iterable[OUT] | Awaitable[Iterable[OUT]]:
        """Return the results for a record whose call has taken too long; the default fails the job.

        The method may also be a coroutine.

        Args:
            value: The record.

        Raises:
            TimeoutError: Always, unless a subclass does otherwise.
        """
        msg = f"{type(self).__name__}.async_invoke has not answered within the timeout for {value!r:.200}."
        raise TimeoutError(msg)


@dataclass(frozen=True)
class AsyncFunctionDescriptor:
    """An AsyncFunction with the settings of its calls.

    Args:
        async_function: The function.
        timeout: The longest time of a call with all of its retries; 0 for no limit.
        capacity: The maximum number of pending calls of a subtask.
        async_retry_strategy: Decides when a call is tried again.
        output_mode: Whether results keep the order of the records.

    Raises:
        TypeError: The function's ``async_invoke`` is no coroutine function, or a setting is of another type.
        ValueError: The capacity is below 1, the timeout is negative, or there are retries without a timeout.
    """

    class OutputMode(Enum):
        """Whether results keep the order of the records; watermarks keep their places in both modes."""

        ORDERED = 0
        UNORDERED = 1

    async_function: AsyncFunction[Any, Any]
    timeout: Time | Duration
    capacity: int
    async_retry_strategy: AsyncRetryStrategy[Any]
    output_mode: OutputMode

    def __post_init__(self) -> None:
        name = type(self.async_function).__qualname__
        if not inspect.iscoroutinefunction(self.async_function.async_invoke):
            msg = f"async_invoke of {name} must be declared as 'async def', and return a list without any yield."
            raise TypeError(msg)
        if not isinstance(self.timeout, (Time, Duration)):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"timeout must be a Time, such as Time.seconds(10), not {self.timeout!r}."
            raise TypeError(msg)
        if self.timeout_ms < 0:
            msg = f"The timeout of {name} cannot be negative: {self.timeout}."
            raise ValueError(msg)
        if type(self.capacity) is not int or self.capacity < 1:
            msg = f"The capacity of {name} must be a whole number of at least 1, not {self.capacity!r}."
            raise ValueError(msg)
        strategy = self.async_retry_strategy
        if not isinstance(strategy, AsyncRetryStrategy):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"async_retry_strategy must be an AsyncRetryStrategy, not {strategy!r}."
            raise TypeError(msg)
        if self.timeout_ms == 0 and not isinstance(strategy, NoRetryStrategy):
            msg = f"{name} needs a timeout above 0, because its calls are retried."
            raise ValueError(msg)

    @property
    def timeout_ms(self) -> int:
        """The timeout in milliseconds."""
        return self.timeout.to_milliseconds() if isinstance(self.timeout, Time) else self.timeout.to_millis()


show("penstock.datastream.functions", AsyncFunction, AsyncFunctionDescriptor)
