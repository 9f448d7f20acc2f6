"""WindowedStream: the records of each key in windows, before it is said what to make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from penstock._api.functions.basic import AggregateFunction, ReduceFunction
from penstock._api.functions.windows import ProcessWindowFunction, WindowFunction
from penstock._api.output_tag import OutputTag
from penstock._api.window import TumblingEventTimeWindows, WindowAssigner
from penstock._builders.checks import check_function
from penstock._builders.held_functions import held_aggregate, held_reduce
from penstock._engine.graph.job_graph import OperatorKind
from penstock._shelf import show
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._builders.environment import StreamExecutionEnvironment
    from penstock._builders.stream import DataStream, KeyedStream
    from penstock.common.typeinfo import TypeInformation

T = TypeVar("T")
K = TypeVar("K")
W = TypeVar("W")
ACC = TypeVar("ACC")
R = TypeVar("R")
OUT = TypeVar("OUT")


class WindowedStream(Generic[T, K, W]):
    """The records of each key in windows.

    A window fires when the watermark passes its end, and at the end of the input; a window without records never does.

    Source: org.apache.flink.streaming.api.datastream.WindowedStream.

    Args:
        keyed_stream: The records.
        window_assigner: Says which windows a record belongs to.

    Raises:
        TypeError: The assigner is no WindowAssigner.
        UnsupportedOperationError: The windows are not tumbling event-time windows.

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
        if not isinstance(window_assigner, WindowAssigner):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"window_assigner must be a WindowAssigner, not {window_assigner!r}."
            raise TypeError(msg)
        if not isinstance(window_assigner, TumblingEventTimeWindows):
            operation = f"window({window_assigner!r})"
            raise UnsupportedOperationError(operation, "this version has TumblingEventTimeWindows only")
        self._keyed_stream = keyed_stream
        self._window_assigner = window_assigner
        self._allowed_lateness_ms = 0
        self._late_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment that the stream belongs to."""
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """Return the type of the records."""
        return self._keyed_stream.get_type()

    def allowed_lateness(self, time_ms: int) -> WindowedStream[T, K, W]:
        """Keep windows open for late records, each of which fires its window again.

        Args:
            time_ms: How long after a window's end, in milliseconds of the watermark; records that are later still are
                dropped, or go to the late side output.

        Raises:
            ValueError: It is negative.
        """
        if time_ms < 0:
            msg = f"allowed_lateness cannot be negative: {time_ms} ms."
            raise ValueError(msg)
        self._allowed_lateness_ms = time_ms
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> WindowedStream[T, K, W]:
        """Send records that are too late to a side output in place of dropping them.

        Args:
            output_tag: The output; ``get_side_output`` of the resulting stream returns it.

        Raises:
            TypeError: The tag is no OutputTag.
        """
        if not isinstance(output_tag, OutputTag):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"output_tag must be an OutputTag, not {output_tag!r}."
            raise TypeError(msg)
        self._late_tag = output_tag
        return self

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
        check_function("reduce_function", reduce_function, ReduceFunction)
        if window_function is None and output_type is None:
            output_type = self.get_input_type()
        held = held_reduce(reduce_function, self.get_input_type())
        return self._build("reduce", held, window_function, output_type)

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
            accumulator_type: The type that accumulators are held to.
            output_type: The type of the output.

        Raises:
            TypeError: A function is not of its kind.
            UnpicklableFunctionError: A function captured something that cannot be pickled.
        """
        check_function("aggregate_function", aggregate_function, AggregateFunction, or_callable=False)
        held = held_aggregate(aggregate_function, accumulator_type)
        return self._build("aggregate", held, window_function, output_type)

    def apply(
        self, window_function: WindowFunction[T, OUT, K, W], output_type: TypeInformation | None = None
    ) -> DataStream[OUT]:
        """Hand all records of a window to a function; they are kept until then.

        Args:
            window_function: The function.
            output_type: The type of the output.

        Raises:
            TypeError: The function is no WindowFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("window_function", window_function, WindowFunction, or_callable=False)
        return self._build("elements", None, window_function, output_type)

    def process(
        self,
        process_window_function: ProcessWindowFunction[T, OUT, K, W],
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Hand all records of a window, and its context, to a function; they are kept until then.

        Args:
            process_window_function: The function.
            output_type: The type of the output.

        Raises:
            TypeError: The function is no ProcessWindowFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("process_window_function", process_window_function, ProcessWindowFunction, or_callable=False)
        return self._build("elements", None, process_window_function, output_type)

    def _build(
        self, strategy: str, function: object, window_function: object, output_type: TypeInformation | None
    ) -> DataStream[Any]:
        if window_function is not None:
            check_function("window_function", window_function, WindowFunction, ProcessWindowFunction, or_callable=False)
        members = {
            "key_selector": self._keyed_stream._key_selector,
            "assigner": self._window_assigner,
            "allowed_lateness_ms": self._allowed_lateness_ms,
            "late_tag": None if self._late_tag is None else self._late_tag.tag_id,
            "strategy": strategy,
            "function": function,
            "window_function": window_function,
        }
        return self._keyed_stream._transform(OperatorKind.WINDOW, "Window", members, output_type)


show("penstock.datastream.data_stream", WindowedStream)
