"""WindowedStream: the records of each key in windows, to which a function is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from penstock._api.functions.windows import ProcessWindowFunction, WindowFunction
from penstock._builders.checks import check_function
from penstock._builders.column_aggregation import aggregated_type, column_aggregates
from penstock._builders.windows.window_settings import WindowSettings
from penstock._engine.operators.columnar.column_windows import WINDOW_COLUMNS
from penstock._engine.operators.windows.window_strategy import ElementPanes
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._api.functions.basic import AggregateFunction, ReduceFunction
    from penstock._api.windows.window import WindowAssigner
    from penstock._builders.data_stream import DataStream
    from penstock._builders.environment import StreamExecutionEnvironment
    from penstock._builders.keyed_stream import KeyedStream
    from penstock._engine.operators.operator_factory import OperatorFactory
    from penstock.common.typeinfo import TypeInformation

T = TypeVar("T")
K = TypeVar("K")
W = TypeVar("W")
ACC = TypeVar("ACC")
R = TypeVar("R")
OUT = TypeVar("OUT")


class WindowedStream(WindowSettings[T, W], Generic[T, K, W]):
    """The records of each key in windows.

    A window fires when its trigger decides so: by default when the watermark passes its end. An empty window never
    fires.

    Source: org.apache.flink.streaming.api.datastream.WindowedStream.

    Args:
        keyed_stream: The records.
        window_assigner: Says which windows a record belongs to.

    Raises:
        TypeError: The assigner is no WindowAssigner.

    Example:
        >>> from penstock.common.time import Time
        >>> from penstock.datastream import StreamExecutionEnvironment
        >>> from penstock.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> keyed = env.from_collection([("a", 1), ("a", 2)]).key_by(lambda pair: pair[0])
        >>> windows = keyed.window(TumblingEventTimeWindows.of(Time.minutes(1))).allowed_lateness(5000)
        >>> windows.reduce(lambda a, b: (a[0], a[1] + b[1])).get_name()
        'Window'
    """

    def __init__(self, keyed_stream: KeyedStream[T, K], window_assigner: WindowAssigner[Any, W]) -> None:
        super().__init__(keyed_stream, window_assigner)
        self._keyed_stream = keyed_stream

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
        window_function: WindowFunction[T, OUT, K, W] | ProcessWindowFunction[T, OUT, K, W],
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]: ...

    def reduce(
        self,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        window_function: WindowFunction[T, Any, K, W] | ProcessWindowFunction[T, Any, K, W] | None = None,
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
        window_function: WindowFunction[R, OUT, K, W] | ProcessWindowFunction[R, OUT, K, W],
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]: ...

    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, ACC, R],
        window_function: WindowFunction[R, Any, K, W] | ProcessWindowFunction[R, Any, K, W] | None = None,
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
        self, window_function: WindowFunction[T, OUT, K, W], output_type: TypeInformation | None = None
    ) -> DataStream[OUT]:
        """Call a function with all records of a window, which are kept until it fires.

        Args:
            window_function: The function.
            output_type: The type of the output.

        Raises:
            TypeError: The function is no WindowFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("window_function", window_function, WindowFunction, or_callable=False)
        return self._add(self._factory(ElementPanes, None, window_function), output_type)

    def process(
        self,
        process_window_function: ProcessWindowFunction[T, OUT, K, W],
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Call a function with all records of a window and its context; records are kept until it fires.

        Args:
            process_window_function: The function.
            output_type: The type of the output.

        Raises:
            TypeError: The function is no ProcessWindowFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("process_window_function", process_window_function, ProcessWindowFunction, or_callable=False)
        return self._add(self._factory(ElementPanes, None, process_window_function), output_type)

    def aggregate_batches(self, aggregates: Mapping[str, str | Sequence[str]]) -> DataStream[Any]:
        """Aggregate columns in tumbling or sliding event-time windows, without a Python object for each record; ours.

        A result has the key's column, ``window_start`` and ``window_end`` in milliseconds, and a column for each
        aggregate, such as ``price_sum``. Records are late by the rule of all windows; one within the allowed lateness
        fires its window again, once for all such records of a batch.

        Args:
            aggregates: As for ``KeyedStream.aggregate_batches``.

        Raises:
            ValueError: There is no such aggregate, or none at all, or a result is named as the key is.
            UnsupportedOperationError: The windows are others, or have a trigger or an evictor of their own; or the
                stream is not keyed by the name of a column, or its declared type does not have a column.

        Example:
            >>> from penstock.common.time import Time
            >>> from penstock.datastream import StreamExecutionEnvironment
            >>> from penstock.datastream.window import TumblingEventTimeWindows
            >>> env = StreamExecutionEnvironment.get_execution_environment()
            >>> orders = env.from_collection([{"item": "tea", "price": 2}]).key_by("item")
            >>> orders.window(TumblingEventTimeWindows.of(Time.minutes(1))).aggregate_batches(
            ...     {"price": "sum"}
            ... ).get_name()
            'Window'
        """
        wanted = column_aggregates(self._keyed_stream._key_selector, aggregates, WINDOW_COLUMNS)
        output_type = aggregated_type(self._keyed_stream._declared_type(), wanted, WINDOW_COLUMNS)
        return self._add(self._column_factory(wanted), output_type, conform=False)

    def _add(
        self, factory: OperatorFactory, output_type: TypeInformation | None, *, conform: bool = True
    ) -> DataStream[Any]:
        return self._keyed_stream._transform(factory, "Window", output_type, conform=conform)

    def _check_result_function(self, window_function: object) -> None:
        check_function("window_function", window_function, WindowFunction, ProcessWindowFunction, or_callable=False)


show("penstock.datastream.data_stream", WindowedStream)
