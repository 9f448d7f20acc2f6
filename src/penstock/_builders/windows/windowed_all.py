"""AllWindowedStream: all records of a stream in windows, in one subtask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from penstock._api.functions.windows import AllWindowFunction, ProcessAllWindowFunction
from penstock._builders.checks import check_function
from penstock._builders.windows.all_windows import OneKey, with_key
from penstock._builders.windows.window_settings import WindowSettings
from penstock._engine.operators.windows.window_strategy import ElementPanes
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._api.functions.basic import AggregateFunction, ReduceFunction
    from penstock._api.windows.window import WindowAssigner
    from penstock._builders.data_stream import DataStream
    from penstock._builders.environment import StreamExecutionEnvironment
    from penstock._engine.operators.factories.windows import WindowFactory
    from penstock._engine.operators.windows.window_strategy import PaneStrategy
    from penstock.common.typeinfo import TypeInformation

T = TypeVar("T")
W = TypeVar("W")
ACC = TypeVar("ACC")
R = TypeVar("R")
OUT = TypeVar("OUT")


class AllWindowedStream(WindowSettings[T, W]):
    """All records of a stream in windows, regardless of keys and in one subtask.

    Source: org.apache.flink.streaming.api.datastream.AllWindowedStream.

    Args:
        data_stream: The records.
        window_assigner: Says which windows a record belongs to.

    Raises:
        TypeError: The assigner is no WindowAssigner.

    Example:
        >>> from penstock.common.time import Time
        >>> from penstock.datastream import StreamExecutionEnvironment
        >>> from penstock.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> minutes = env.from_collection([1, 2]).window_all(TumblingEventTimeWindows.of(Time.minutes(1)))
        >>> minutes.reduce(lambda a, b: a + b).get_name()
        'Window'
    """

    def __init__(self, data_stream: DataStream[T], window_assigner: WindowAssigner[Any, W]) -> None:
        self._keyed_stream = data_stream.key_by(OneKey())
        super().__init__(self._keyed_stream, window_assigner)

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment that the stream belongs to."""
        return self._keyed_stream.get_execution_environment()

    @overload
    def reduce(
        self,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        window_function: None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[T]: ...

    @overload
    def reduce(
        self,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        window_function: AllWindowFunction[T, OUT, W] | ProcessAllWindowFunction[T, OUT, W],
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]: ...

    def reduce(
        self,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        window_function: AllWindowFunction[T, Any, W] | ProcessAllWindowFunction[T, Any, W] | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """Fold the records of each window into one as they arrive.

        Args:
            reduce_function: Takes the result so far and the next record.
            window_function: Makes the output of the result; it is handed an iterable of one.
            output_type: The type of the output; that of the records when both this and the window function are left
                out.

        Raises:
            TypeError: A function is not of its kind.
            UnpicklableFunctionError: A function captured something that cannot be pickled.
        """
        return self._add(*self._reducing(reduce_function, window_function, output_type))

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, ACC, R],
        window_function: None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, ACC, R],
        window_function: AllWindowFunction[R, OUT, W] | ProcessAllWindowFunction[R, OUT, W],
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]: ...

    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, ACC, R],
        window_function: AllWindowFunction[R, Any, W] | ProcessAllWindowFunction[R, Any, W] | None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """Fold the records of each window into an accumulator as they arrive.

        Args:
            aggregate_function: The function.
            window_function: Makes the output of the result; it is handed an iterable of one.
            accumulator_type: The type that accumulators are converted to.
            output_type: The type of the output.

        Raises:
            TypeError: A function is not of its kind.
            UnpicklableFunctionError: A function captured something that cannot be pickled.
        """
        return self._add(self._aggregating(aggregate_function, window_function, accumulator_type), output_type)

    def apply(
        self, window_function: AllWindowFunction[T, OUT, W], output_type: TypeInformation | None = None
    ) -> DataStream[OUT]:
        """Call a function with all records of a window, which are kept until it fires.

        Args:
            window_function: The function.
            output_type: The type of the output.

        Raises:
            TypeError: The function is no AllWindowFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("window_function", window_function, AllWindowFunction, or_callable=False)
        return self._add(self._factory(ElementPanes, None, window_function), output_type)

    def process(
        self, process_window_function: ProcessAllWindowFunction[T, OUT, W], output_type: TypeInformation | None = None
    ) -> DataStream[OUT]:
        """Call a function with all records of a window and its context; records are kept until it fires.

        Args:
            process_window_function: The function.
            output_type: The type of the output.

        Raises:
            TypeError: The function is no ProcessAllWindowFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        kind: Any = ProcessAllWindowFunction
        check_function("process_window_function", process_window_function, kind, or_callable=False)
        return self._add(self._factory(ElementPanes, None, process_window_function), output_type)

    def _check_result_function(self, window_function: object) -> None:
        kinds: Any = (AllWindowFunction, ProcessAllWindowFunction)
        check_function("window_function", window_function, *kinds, or_callable=False)

    def _factory(self, strategy: type[PaneStrategy], function: object, window_function: Any) -> WindowFactory:
        of_the_key = None if window_function is None else with_key(window_function)
        return super()._factory(strategy, function, of_the_key)

    def _add(self, factory: WindowFactory, output_type: TypeInformation | None) -> DataStream[Any]:
        return self._keyed_stream._transform(factory, "Window", output_type).force_non_parallel()


show("penstock.datastream.data_stream", AllWindowedStream)
