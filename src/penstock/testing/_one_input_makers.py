"""How a harness for each kind of function of one stream is made; ``OperatorHarness`` has these methods."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from penstock._api.functions.basic import FilterFunction, FlatMapFunction, MapFunction, ReduceFunction
from penstock._api.functions.partitions import MapPartitionFunction
from penstock._api.functions.process import KeyedProcessFunction, ProcessFunction
from penstock._builders.checks import BatchFormat, check_format, check_function, checked_key_selector
from penstock._builders.keyed_functions import KeyedFilter, KeyedFlatMap, KeyedMap
from penstock._engine.operators.factories.functions import (
    FilterFactory,
    FlatMapFactory,
    MapBatchesFactory,
    MapFactory,
    ProcessFactory,
)
from penstock._engine.operators.factories.keyed import KeyedProcessFactory, ReduceFactory
from penstock._engine.operators.factories.partitions import KeyedMapPartitionFactory, MapPartitionFactory
from penstock._engine.operators.factories.windows import WindowFactory
from penstock._engine.operators.windows.window_strategy import AggregatePanes, ElementPanes, ReducePanes
from penstock.testing._of_stream import operator_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock._api.functions.basic import AggregateFunction, KeySelector
    from penstock._api.functions.windows import ProcessWindowFunction, WindowFunction
    from penstock._api.windows.window import WindowAssigner
    from penstock._builders.data_stream import DataStream
    from penstock._engine.operators.base import Operator
    from penstock._engine.operators.operator_factory import OperatorFactory
    from penstock.common.typeinfo import TypeInformation
    from penstock.testing._subtask import SubtaskSettings, WindowedSettings


class OneInputMakers:
    """The ``for_`` methods for functions of one stream."""

    @abstractmethod
    def __init__(self, operator: Operator | OperatorFactory, **subtask: Unpack[SubtaskSettings]) -> None:
        """Make a harness of an operator."""

    @classmethod
    def for_stream(
        cls,
        program: Callable[[DataStream[Any]], object],
        type_info: TypeInformation | None = None,
        **subtask: Unpack[SubtaskSettings],
    ) -> Self:
        """Return a harness for the operator that a piece of a program adds to a stream, whichever it is.

        As in a job, its functions are pickled: the harness has copies of them.

        Args:
            program: Is called with the stream, on which it may call ``key_by`` and the like first.
            type_info: The declared type of the stream.
            **subtask: ``subtask_index``, ``parallelism`` and the other arguments of the class, here and below.

        Raises:
            ValueError: It adds several operators, or none.

        Example:
            >>> from penstock.common import Order
            >>> from penstock.testing import OperatorHarness
            >>> def ascending(stream):
            ...     stream.full_window_partition().sort_partition(0, Order.ASCENDING)
            >>> with OperatorHarness.for_stream(ascending) as harness:
            ...     harness.process_elements([(2, "b"), (1, "a")])
            ...     harness.end_input()
            ...     harness.values()
            [(1, 'a'), (2, 'b')]
        """
        batch_mode = subtask.pop("batch_mode", False)
        return cls(operator_of(program, type_info, batch_mode=batch_mode), **subtask)

    @classmethod
    def for_map(
        cls,
        function: MapFunction[Any, Any] | Callable[[Any], Any],
        key_selector: KeySelector[Any, Any] | Callable[[Any], Any] | str | None = None,
        **subtask: Unpack[SubtaskSettings],
    ) -> Self:
        """Return a harness for the function of ``DataStream.map``, or of ``KeyedStream.map``.

        Args:
            function: The function.
            key_selector: Of the keyed stream, on which ``open`` may get state, or the name of a field; here and in the
                next two.
            **subtask: As above.
        """
        check_function("function", function, MapFunction)
        return cls(_one(MapFactory, KeyedMap, function, key_selector), **subtask)

    @classmethod
    def for_flat_map(
        cls,
        function: FlatMapFunction[Any, Any] | Callable[[Any], Any],
        key_selector: KeySelector[Any, Any] | Callable[[Any], Any] | str | None = None,
        **subtask: Unpack[SubtaskSettings],
    ) -> Self:
        """Return a harness for the function of ``DataStream.flat_map``."""
        check_function("function", function, FlatMapFunction)
        return cls(_one(FlatMapFactory, KeyedFlatMap, function, key_selector), **subtask)

    @classmethod
    def for_filter(
        cls,
        function: FilterFunction[Any] | Callable[[Any], bool],
        key_selector: KeySelector[Any, Any] | Callable[[Any], Any] | str | None = None,
        **subtask: Unpack[SubtaskSettings],
    ) -> Self:
        """Return a harness for the function of ``DataStream.filter``."""
        check_function("function", function, FilterFunction)
        return cls(_one(FilterFactory, KeyedFilter, function, key_selector), **subtask)

    @classmethod
    def for_map_batches(
        cls,
        function: Callable[[Any], Any] | MapFunction[Any, Any],
        batch_format: BatchFormat = "arrow",
        *,
        input_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
        **subtask: Unpack[SubtaskSettings],
    ) -> Self:
        """Return a harness for the function of ``DataStream.map_batches``; records go in and come out.

        Args:
            function: The function.
            batch_format: The form of the batches that it takes.
            input_type: The type of the stream before it; None without one.
            output_type: The declared type of the rows that it returns.
            **subtask: ``subtask_index``, ``parallelism`` and the other arguments of the class.
        """
        check_function("function", function, MapFunction, may_yield=True)
        check_format("for_map_batches", batch_format)
        return cls(MapBatchesFactory(function, batch_format, input_type, output_type), **subtask)

    @classmethod
    def for_map_partition(
        cls,
        function: MapPartitionFunction[Any, Any] | Callable[[Iterator[Any]], Iterable[Any] | None],
        key_selector: KeySelector[Any, Any] | Callable[[Any], Any] | str | None = None,
        **subtask: Unpack[SubtaskSettings],
    ) -> Self:
        """Return a harness for the function of ``map_partition``, which runs when the input ends.

        Args:
            function: The function.
            key_selector: Of the keyed stream, each key of which is a partition; None for the partition of a subtask.
            **subtask: ``subtask_index``, ``parallelism`` and the other arguments of the class.

        Example:
            >>> from penstock.testing import OperatorHarness
            >>> with OperatorHarness.for_map_partition(lambda values: [sum(values)]) as harness:
            ...     harness.process_elements([1, 2, 3])
            ...     harness.end_input()
            ...     harness.values()
            [6]
        """
        check_function("function", function, MapPartitionFunction)
        if key_selector is None:
            return cls(MapPartitionFactory(function), **subtask)
        return cls(KeyedMapPartitionFactory(function, _key(key_selector)), **subtask)

    @classmethod
    def for_process(cls, function: ProcessFunction[Any, Any], **subtask: Unpack[SubtaskSettings]) -> Self:
        """Return a harness for the function of ``DataStream.process``."""
        check_function("function", function, ProcessFunction, or_callable=False)
        return cls(ProcessFactory(function), **subtask)

    @classmethod
    def for_keyed_process(
        cls,
        function: KeyedProcessFunction[Any, Any, Any],
        key_selector: KeySelector[Any, Any] | Callable[[Any], Any] | str,
        **subtask: Unpack[SubtaskSettings],
    ) -> Self:
        """Return a harness for the function of ``KeyedStream.process``."""
        check_function("function", function, KeyedProcessFunction, or_callable=False)
        return cls(KeyedProcessFactory(function, _key(key_selector)), **subtask)

    @classmethod
    def for_reduce(
        cls,
        function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        key_selector: KeySelector[Any, Any] | Callable[[Any], Any] | str,
        **subtask: Unpack[SubtaskSettings],
    ) -> Self:
        """Return a harness for the function of ``KeyedStream.reduce``."""
        check_function("function", function, ReduceFunction)
        return cls(ReduceFactory(function, _key(key_selector)), **subtask)

    @classmethod
    def for_window(
        cls,
        key_selector: KeySelector[Any, Any] | Callable[[Any], Any] | str,
        window_assigner: WindowAssigner[Any, Any],
        *,
        reduce: ReduceFunction[Any] | Callable[[Any, Any], Any] | None = None,
        aggregate: AggregateFunction[Any, Any, Any] | None = None,
        function: WindowFunction[Any, Any, Any, Any] | ProcessWindowFunction[Any, Any, Any, Any] | None = None,
        **settings: Unpack[WindowedSettings],
    ) -> Self:
        """Return a harness for the functions of a ``WindowedStream``.

        Args:
            key_selector: Of the keyed stream.
            window_assigner: The windows.
            reduce: The function of ``reduce``.
            aggregate: The function of ``aggregate``, in its place.
            function: The function of ``apply`` or ``process``, or the window function beside one of those two.
            **settings: ``allowed_lateness_ms``, ``side_output_late_data``, ``trigger`` and ``evictor``, as the methods
                of a ``WindowedStream`` set them; ``subtask_index`` and the other arguments of the class.

        Raises:
            ValueError: Both reduce and aggregate are given, or no function at all.

        Example:
            >>> from penstock.common.time import Time
            >>> from penstock.datastream.window import TumblingEventTimeWindows
            >>> from penstock.testing import OperatorHarness
            >>> minutes = TumblingEventTimeWindows.of(Time.minutes(1))
            >>> with OperatorHarness.for_window(lambda pair: pair[0], minutes, reduce=max) as harness:
            ...     harness.process_element(("a", 7), 10_000)
            ...     harness.process_element(("a", 9), 20_000)
            ...     harness.process_watermark(59_999)
            ...     harness.output()
            [StreamRecord(value=('a', 9), timestamp=59999), Watermark(timestamp=59999)]
        """
        if reduce is not None and aggregate is not None:
            msg = "A window has either a reduce or an aggregate function, not both."
            raise ValueError(msg)
        if reduce is None and aggregate is None and function is None:
            msg = "A window needs a function: reduce, aggregate, or one for all records of a window."
            raise ValueError(msg)
        strategy = ReducePanes if reduce is not None else AggregatePanes if aggregate is not None else ElementPanes
        late = settings.pop("side_output_late_data", None)
        factory = WindowFactory(
            _key(key_selector),
            window_assigner,
            allowed_lateness_ms=settings.pop("allowed_lateness_ms", 0),
            late_tag=None if late is None else late.tag_id,
            strategy=strategy,
            function=aggregate if reduce is None else reduce,
            window_function=function,
            trigger=settings.pop("trigger", None) or window_assigner.get_default_trigger(None),
            evictor=settings.pop("evictor", None),
        )
        return cls(factory, **cast("SubtaskSettings", settings))


def _one(
    plain: Callable[[Any], OperatorFactory], wrapper: Callable[[Any], Any], function: Any, key_selector: Any
) -> OperatorFactory:
    """Return the factory of a function's operator, which has keyed state where there is a selector."""
    if key_selector is None:
        return plain(function)
    return KeyedProcessFactory(wrapper(function), _key(key_selector))


def _key(selector: object) -> Any:
    return checked_key_selector("key_selector", selector)
