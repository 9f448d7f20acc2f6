"""Functions that see all records of one key in one window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock._api.functions.basic import Function, KeyedStateStore
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Iterable

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Any number of records out for each window of a key.

    What is returned or yielded goes to the main output; a pair of an :class:`~penstock.datastream.OutputTag` and a
    value goes to that side output.

    Source: org.apache.flink.streaming.api.functions.windowing.WindowFunction.

    Example:
        >>> class Span(WindowFunction):
        ...     def apply(self, key, window, inputs):
        ...         yield key, window.start, sum(inputs)
    """

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Return, or yield, what becomes of a window; runs each time that the window fires.

        Args:
            key: The key of the records.
            window: The window.
            inputs: Its records in the order of their arrival; one, when it was reduced or aggregated before.
        """


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Any number of records out for each window of a key, with the window's context.

    What is returned or yielded goes to the main output; a pair of an :class:`~penstock.datastream.OutputTag` and a
    value goes to that side output.

    Source: org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction.

    Example:
        >>> class Span(ProcessWindowFunction):
        ...     def process(self, key, context, elements):
        ...         yield key, context.window().end, len(list(elements))
    """

    class Context(ABC, Generic[W2]):
        """What a function can ask about the current window."""

        @abstractmethod
        def window(self) -> W2:
            """Return the window."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the clock's time in milliseconds since the epoch."""

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
        """Return, or yield, what becomes of a window; runs each time that the window fires.

        Args:
            key: The key of the records.
            context: Valid during this call only.
            elements: Its records in the order of their arrival; one, when it was reduced or aggregated before.
        """

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        """Release what the function holds for a window that is over.

        Args:
            context: Valid during this call only.
        """


show("penstock.datastream.functions", ProcessWindowFunction, WindowFunction)
