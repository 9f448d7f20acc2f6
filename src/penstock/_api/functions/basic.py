"""Functions of one or two records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._api.runtime_context import RuntimeContext

T = TypeVar("T")
IN = TypeVar("IN")
OUT = TypeVar("OUT")
ACC = TypeVar("ACC")
KEY = TypeVar("KEY")


class Function(ABC):  # noqa: B024 - its methods are there to be overridden, none has to be
    """A function object: opened before its first record and closed after its last.

    A job runs in epochs, and each may run in another process: ``open`` may run again at each, and every opened function
    is closed. Data that has to outlive an epoch belongs into state, not into attributes.

    Source: org.apache.flink.api.common.functions.RichFunction.
    """

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027
        """Prepare the function: get state and metrics, open connections, load models.

        Args:
            runtime_context: The function's subtask, state and metrics.
        """

    def finish(self) -> Iterable[Any] | None:
        """Handle the end of all input, and yield remaining records if the class yields records; not in PyFlink.

        Runs once all input has ended or the job is drained, after the last watermark and the last timers, and before
        the last checkpoint, which covers the yielded records. It does not run if a job is suspended, cancelled or
        fails, and runs again in another object if that checkpoint does not complete. Yielded records have no timestamp,
        and there is no current key. Only a method without parameters is called.

        Source: FLIP-147, org.apache.flink.streaming.api.operators.StreamOperator.finish.

        Example:
            >>> from penstock.testing import OperatorHarness
            >>> class Pairs(FlatMapFunction):
            ...     def __init__(self):
            ...         self.waiting = []
            ...
            ...     def flat_map(self, value):
            ...         self.waiting.append(value)
            ...         if len(self.waiting) == 2:
            ...             yield tuple(self.waiting)
            ...             self.waiting.clear()
            ...
            ...     def finish(self):
            ...         if self.waiting:
            ...             yield tuple(self.waiting)
            >>> harness = OperatorHarness.for_flat_map(Pairs())
            >>> harness.process_elements([1, 2, 3])
            >>> harness.end_input()
            >>> harness.values()
            [(1, 2), (3,)]
        """
        return None

    def close(self) -> None:  # noqa: B027
        """Release the resources of ``open``; it cannot yield records."""


class TwoInputFunction(Function):
    """The base of functions of two inputs."""

    def end_input(self, input_index: int) -> Iterable[Any] | None:
        """Handle the end of one input, and yield records if the class yields records; not in PyFlink.

        Runs once for each input, at the end of the epoch in which it ended, and before ``finish``. Only a method with
        one parameter is called.

        Args:
            input_index: 0 for the first input, 1 for the second, which is the broadcast one if there is one.

        Source: org.apache.flink.streaming.api.operators.BoundedMultiInput.
        """
        return None


class MapFunction(Function, Generic[IN, OUT]):
    """Maps each record to one record.

    Source: org.apache.flink.api.common.functions.MapFunction.

    Example:
        >>> class Double(MapFunction):
        ...     def map(self, value):
        ...         return 2 * value
        >>> Double().map(4)
        8
    """

    @abstractmethod
    def map(self, value: IN) -> OUT:
        """Return the result of a record."""


class FlatMapFunction(Function, Generic[IN, OUT]):
    """Maps each record to any number of records.

    Source: org.apache.flink.api.common.functions.FlatMapFunction.

    Example:
        >>> class Words(FlatMapFunction):
        ...     def flat_map(self, value):
        ...         yield from value.split()
        >>> list(Words().flat_map("to be"))
        ['to', 'be']
    """

    @abstractmethod
    def flat_map(self, value: IN) -> Iterable[OUT] | None:
        """Return or yield the results of a record; None means none."""


class FilterFunction(Function, Generic[T]):
    """Selects the records that stay in the stream.

    Source: org.apache.flink.api.common.functions.FilterFunction.

    Example:
        >>> class Positive(FilterFunction):
        ...     def filter(self, value):
        ...         return value > 0
        >>> Positive().filter(-1)
        False
    """

    @abstractmethod
    def filter(self, value: T) -> bool:
        """Tell whether a record stays."""


class ReduceFunction(Function, Generic[T]):
    """Combines two records of one key into one of the same type.

    Attributes:
        combinable: Whether the function is associative, so that sliding windows may join the results of their parts,
            and batch jobs those of their senders.

    Source: org.apache.flink.api.common.functions.ReduceFunction.

    Example:
        >>> class Larger(ReduceFunction):
        ...     def reduce(self, value1, value2):
        ...         return max(value1, value2)
        >>> Larger().reduce(3, 2)
        3
    """

    combinable: ClassVar[bool] = True

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """Return the combination of two records.

        Args:
            value1: The combination of the records so far.
            value2: The next record.
        """


class AggregateFunction(Function, Generic[IN, ACC, OUT]):
    """Aggregates the records of one key in an accumulator, from which it makes a result.

    Attributes:
        combinable: Whether ``merge`` may join the accumulators of parts of a window: of slices of sliding windows and,
            in batch mode, of what each sender has made of its records, in the order of the senders and not of time.
            Only session windows do so else.

    Source: org.apache.flink.api.common.functions.AggregateFunction.

    Example:
        >>> class Mean(AggregateFunction):
        ...     def create_accumulator(self):
        ...         return 0, 0
        ...
        ...     def add(self, value, accumulator):
        ...         return accumulator[0] + value, accumulator[1] + 1
        ...
        ...     def get_result(self, accumulator):
        ...         return accumulator[0] / accumulator[1]
        ...
        ...     def merge(self, acc_a, acc_b):
        ...         return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
        >>> mean = Mean()
        >>> mean.get_result(mean.add(4, mean.add(2, mean.create_accumulator())))
        3.0
    """

    combinable: ClassVar[bool] = False

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """Return an empty accumulator."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """Return the accumulator with one more record; it may be the given one, changed."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """Return the result of an accumulator."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Return the accumulator of the records of two; only merging windows need it."""


class KeySelector(Function, Generic[IN, KEY]):
    """Extracts the key of a record.

    Keys are compared by value: records with equal keys meet in one subtask. A selector runs both in the sending and in
    the receiving tasks and is opened in both; it must return the same key for the same record everywhere.

    Source: org.apache.flink.api.java.functions.KeySelector.

    Example:
        >>> class ByUser(KeySelector):
        ...     def get_key(self, value):
        ...         return value["user"]
        >>> ByUser().get_key({"user": "ada"})
        'ada'
    """

    @abstractmethod
    def get_key(self, value: IN) -> KEY:
        """Return a record's key."""


class Partitioner(Function, Generic[KEY]):
    """Selects the subtask that gets the records of a key.

    Source: org.apache.flink.api.common.functions.Partitioner.

    Example:
        >>> class ByLength(Partitioner):
        ...     def partition(self, key, num_partitions):
        ...         return len(key) % num_partitions
        >>> ByLength().partition("abc", 2)
        1
    """

    @abstractmethod
    def partition(self, key: KEY, num_partitions: int) -> int:
        """Return the receiving subtask, from 0 to ``num_partitions`` - 1; anything else fails the job.

        Args:
            key: The record's key.
            num_partitions: The parallelism of the receiving operator.
        """


class _CallableReduce(ReduceFunction[Any]):
    """A plain callable as a ReduceFunction."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._function = function

    def reduce(self, value1: Any, value2: Any) -> Any:
        return self._function(value1, value2)


def as_reduce_function(function: object) -> ReduceFunction[Any]:
    """Return a reduce function as an object; raise TypeError if it is none."""
    if isinstance(function, ReduceFunction):
        return cast("ReduceFunction[Any]", function)
    if not callable(function):
        msg = f"reduce_function must be a ReduceFunction or a callable, not {function!r}."
        raise TypeError(msg)
    return _CallableReduce(function)


show(
    "penstock.datastream.functions",
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeySelector,
    MapFunction,
    Partitioner,
    ReduceFunction,
)
