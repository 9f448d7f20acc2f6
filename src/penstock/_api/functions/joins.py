"""Functions of two streams that are joined: by intervals of time, or window by window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock._api.functions.basic import Function
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Iterable

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")


class ProcessJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Maps each pair of an interval join to any number of records.

    Returned or yielded values go to the main output, with the later timestamp of the two, and pairs of an
    :class:`~penstock.datastream.OutputTag` and a value to that side output.

    Source: org.apache.flink.streaming.api.functions.co.ProcessJoinFunction.

    Example:
        >>> class Wait(ProcessJoinFunction):
        ...     def process_element(self, left, right, ctx):
        ...         yield left, right, ctx.get_right_timestamp() - ctx.get_left_timestamp()
    """

    class Context(ABC):
        """The times of a pair."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Return the timestamp of the left record, in milliseconds since the epoch."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Return the timestamp of the right record, in milliseconds since the epoch."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Return the timestamp of the results: the later one of the two, in milliseconds since the epoch."""

    @abstractmethod
    def process_element(self, left: IN1, right: IN2, ctx: ProcessJoinFunction.Context) -> Iterable[OUT] | None:
        """Return or yield the results of a pair; None means none.

        Args:
            left: The record of the first stream.
            right: The record of the second stream.
            ctx: Valid during this call only.
        """


class JoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Maps each pair of records with one key in one window to one record.

    Source: org.apache.flink.api.common.functions.JoinFunction.

    Example:
        >>> class Both(JoinFunction):
        ...     def join(self, first, second):
        ...         return first, second
    """

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> OUT:
        """Return the result of a pair.

        Args:
            first: The record of the first stream.
            second: The record of the second stream.
        """


class FlatJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Maps each pair of records with one key in one window to any number of records.

    Source: org.apache.flink.api.common.functions.FlatJoinFunction.

    Example:
        >>> class Smaller(FlatJoinFunction):
        ...     def join(self, first, second):
        ...         if first < second:
        ...             yield first
    """

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> Iterable[OUT] | None:
        """Return or yield the results of a pair; None means none.

        Args:
            first: The record of the first stream.
            second: The record of the second stream.
        """


class CoGroupFunction(Function, Generic[IN1, IN2, OUT]):
    """Maps all records of two streams with one key in one window to any number of records.

    It is also called if only one of the streams has such records, so it can implement outer joins.

    Source: org.apache.flink.api.common.functions.CoGroupFunction.

    Example:
        >>> class Alone(CoGroupFunction):
        ...     def co_group(self, first, second):
        ...         return () if second else first
    """

    @abstractmethod
    def co_group(self, first: list[IN1], second: list[IN2]) -> Iterable[OUT] | None:
        """Return or yield the results of a window of a key; None means none.

        Args:
            first: The records of the first stream, in the order of arrival; it may be empty.
            second: The records of the second stream; one of the two has records.
        """


show("penstock.datastream.functions", CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction)
