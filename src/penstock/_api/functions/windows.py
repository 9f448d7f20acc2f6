"""Functions of all records in one window: of one key, or of a stream without keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock._api.functions.basic import Function
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._api.state.kinds import KeyedStateStore

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Maps the contents of a key's window to any number of records.

    Returned or yielded values go to the main output, and pairs of an :class:`~penstock.datastream.OutputTag` and a
    value to that side output.

    Source: org.apache.flink.streaming.api.functions.windowing.WindowFunction.

    Example:
        >>> class Span(WindowFunction):
        ...     def apply(self, key, window, inputs):
        ...         yield key, window.start, sum(inputs)
    """

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Return or yield the results of a window; runs each time the window fires.

        Args:
            key: The key of the records.
            window: The window.
            inputs: Its records in the order of arrival, or the one result of a reduce or aggregate function.
        """


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Maps the contents of a key's window to any number of records, with access to the window's context.

    Returned or yielded values go to the main output, and pairs of an :class:`~penstock.datastream.OutputTag` and a
    value to that side output.

    Source: org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction.

    Example:
        >>> class Span(ProcessWindowFunction):
        ...     def process(self, key, context, elements):
        ...         yield key, context.window().end, len(list(elements))
    """

    class Context(ABC, Generic[W2]):
        """The context of the current window."""

        @abstractmethod
        def window(self) -> W2:
            """Return the window."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time in milliseconds since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the watermark in milliseconds since the epoch; -2**63 before the first one."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return state of this key in this window; release it in ``clear``."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return state of this key that all its windows share."""

    @abstractmethod
    def process(
        self, key: KEY, context: ProcessWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Iterable[OUT] | None:
        """Return or yield the results of a window; runs each time the window fires.

        Args:
            key: The key of the records.
            context: Valid during this call only.
            elements: Its records in the order of arrival, or the one result of a reduce or aggregate function.
        """

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        """Release the function's state of a window that has ended.

        Args:
            context: Valid during this call only.
        """


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Maps the contents of a window of a stream without keys to any number of records.

    Returned or yielded values go to the main output, and pairs of an :class:`~penstock.datastream.OutputTag` and a
    value to that side output.

    Source: org.apache.flink.streaming.api.functions.windowing.AllWindowFunction.

    Example:
        >>> class Total(AllWindowFunction):
        ...     def apply(self, window, inputs):
        ...         yield window.start, sum(inputs)
    """

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Return or yield the results of a window; runs each time the window fires.

        Args:
            window: The window.
            inputs: Its records in the order of arrival, or the one result of a reduce or aggregate function.
        """


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Maps the contents of a window without keys to any number of records, with access to the window's context.

    Returned or yielded values go to the main output, and pairs of an :class:`~penstock.datastream.OutputTag` and a
    value to that side output.

    Source: org.apache.flink.streaming.api.functions.windowing.ProcessAllWindowFunction.

    Example:
        >>> class Total(ProcessAllWindowFunction):
        ...     def process(self, context, elements):
        ...         yield context.window().end, len(list(elements))
    """

    class Context(ABC, Generic[W2]):
        """The context of the current window."""

        @abstractmethod
        def window(self) -> W2:
            """Return the window."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return state of this window; release it in ``clear``."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return state that all windows share."""

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context[W], elements: Iterable[IN]) -> Iterable[OUT] | None:
        """Return or yield the results of a window; runs each time the window fires.

        Args:
            context: Valid during this call only.
            elements: Its records in the order of arrival, or the one result of a reduce or aggregate function.
        """

    def clear(self, context: ProcessAllWindowFunction.Context[W]) -> None:
        """Release the function's state of a window that has ended.

        Args:
            context: Valid during this call only.
        """


show(
    "penstock.datastream.functions",
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
