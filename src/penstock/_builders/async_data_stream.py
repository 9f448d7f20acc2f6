"""AsyncDataStream: adds async functions to streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from penstock._api.functions.async_retry import NO_RETRY_STRATEGY, AsyncRetryStrategy
from penstock._api.functions.asynchronous import AsyncFunction, AsyncFunctionDescriptor
from penstock._builders.checks import check_function
from penstock._builders.data_stream import DataStream
from penstock._engine.operators.factories.functions import AsyncWaitFactory
from penstock._shelf import show
from penstock.common.arguments import instance

if TYPE_CHECKING:
    from penstock.common.time import Duration, Time
    from penstock.common.typeinfo import TypeInformation

IN = TypeVar("IN")
OUT = TypeVar("OUT")

_Mode = AsyncFunctionDescriptor.OutputMode


class AsyncDataStream:
    """Adds an :class:`AsyncFunction` to a stream.

    Parameters of all four methods:

    Args:
        data_stream: The stream.
        async_function: The function.
        timeout: The longest time of a call with all of its retries; after it, ``AsyncFunction.timeout`` gives the
            result. 0 means no limit, and is allowed without retries only.
        capacity: The maximum number of pending calls of a subtask.
        output_type: The type of the results, to which they are converted.
        async_retry_strategy: Decides when a call is tried again.

    Raises:
        TypeError: The stream, the function or a setting is of another type, or ``async_invoke`` is not ``async def``.
        ValueError: The capacity is below 1, the timeout is negative, or there are retries without a timeout.
        UnpicklableFunctionError: The function captured something that cannot be pickled.

    Source: FLIP-12, FLIP-232, org.apache.flink.streaming.api.datastream.AsyncDataStream.

    Example:
        >>> from penstock.common.time import Time
        >>> from penstock.datastream import AsyncFunction, StreamExecutionEnvironment
        >>> class Upper(AsyncFunction):
        ...     async def async_invoke(self, value):
        ...         return [value.upper()]
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> words = env.from_collection(["to", "be"])
        >>> AsyncDataStream.ordered_wait(words, Upper(), Time.seconds(5)).get_name()
        'async wait operator'
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream[IN],
        async_function: AsyncFunction[IN, OUT],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Emit results in the order in which calls end; no result passes a watermark."""
        descriptor = _described(async_function, timeout, capacity, NO_RETRY_STRATEGY, _Mode.UNORDERED)
        return _add(data_stream, descriptor, output_type)

    @staticmethod
    def unordered_wait_with_retry(  # noqa: PLR0917 - PyFlink's signature
        data_stream: DataStream[IN],
        async_function: AsyncFunction[IN, OUT],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[OUT],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Emit results in the order in which calls end, with retries of failed calls."""
        descriptor = _described(async_function, timeout, capacity, async_retry_strategy, _Mode.UNORDERED)
        return _add(data_stream, descriptor, output_type)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream[IN],
        async_function: AsyncFunction[IN, OUT],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Emit results in the order of the records."""
        descriptor = _described(async_function, timeout, capacity, NO_RETRY_STRATEGY, _Mode.ORDERED)
        return _add(data_stream, descriptor, output_type)

    @staticmethod
    def ordered_wait_with_retry(  # noqa: PLR0917 - PyFlink's signature
        data_stream: DataStream[IN],
        async_function: AsyncFunction[IN, OUT],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[OUT],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Emit results in the order of the records, with retries of failed calls."""
        descriptor = _described(async_function, timeout, capacity, async_retry_strategy, _Mode.ORDERED)
        return _add(data_stream, descriptor, output_type)


def _described(
    async_function: AsyncFunction[Any, Any],
    timeout: Time | Duration,
    capacity: int,
    strategy: AsyncRetryStrategy[Any],
    mode: AsyncFunctionDescriptor.OutputMode,
) -> AsyncFunctionDescriptor:
    check_function("async_function", async_function, AsyncFunction, or_callable=False)
    return AsyncFunctionDescriptor(async_function, timeout, capacity, strategy, mode)


def _add(
    data_stream: DataStream[Any], descriptor: AsyncFunctionDescriptor, output_type: TypeInformation | None
) -> DataStream[Any]:
    instance("data_stream", data_stream, DataStream)
    factory = AsyncWaitFactory(
        descriptor.async_function,
        timeout_ms=descriptor.timeout_ms,
        capacity=descriptor.capacity,
        is_ordered=descriptor.output_mode is _Mode.ORDERED,
        retry_strategy=descriptor.async_retry_strategy,
    )
    return data_stream._transform(factory, "async wait operator", output_type)


show("penstock.datastream.async_data_stream", AsyncDataStream)
