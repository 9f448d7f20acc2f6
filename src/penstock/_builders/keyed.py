"""KeyedStream: a stream whose functions work on one key at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never

from penstock._api.functions.basic import FilterFunction, FlatMapFunction, KeySelector, MapFunction, ReduceFunction
from penstock._api.functions.process import KeyedProcessFunction
from penstock._builders.aggregations import Max, MaxBy, Min, MinBy, Sum
from penstock._builders.checks import check_function
from penstock._builders.held_functions import held_reduce
from penstock._builders.keyed_functions import KeyedFilter, KeyedFlatMap, KeyedMap
from penstock._builders.stream import DataStream
from penstock._builders.windowed import WindowedStream
from penstock._engine.graph.job_graph import OperatorKind, PartitionerKind
from penstock._shelf import show
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._api.window import WindowAssigner
    from penstock._engine.graph.stream_graph import StreamEdge, StreamNode
    from penstock.common.typeinfo import TypeInformation

_SETTINGS = {
    "name": "Set name",
    "get_name": "Get name",
    "uid": "Set uid",
    "set_parallelism": "Set parallelism",
    "set_max_parallelism": "Set max parallelism",
    "force_non_parallel": "Set force non-parallel",
    "set_buffer_timeout": "Set buffer timeout",
    "start_new_chain": "Start new chain",
    "disable_chaining": "Disable chaining",
    "slot_sharing_group": "Setting slot sharing group",
    "set_description": "Set description",
    "get_side_output": "Get side output",
}


class KeyedStream(DataStream):
    """A stream that ``key_by`` made: records of one key are together, and functions may keep state for each key.

    Source: org.apache.flink.streaming.api.datastream.KeyedStream.

    Example:
        >>> from penstock.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> keyed = env.from_collection([("a", 1), ("b", 2), ("a", 3)]).key_by(lambda pair: pair[0])
        >>> keyed.sum(1).get_name()
        'Sum'
    """

    def __init__(
        self, origin: DataStream, edges: tuple[StreamEdge, ...], key_selector: KeySelector | Callable[[Any], Any]
    ) -> None:
        super().__init__(origin._environment, origin._pipeline, edges, origin._type_info)
        self._key_selector = key_selector
        self._origin = origin

    def key_by(
        self, key_selector: KeySelector | Callable[[Any], Any], key_type: TypeInformation | None = None
    ) -> KeyedStream:
        """Bring the records together by another key, in place of this one."""
        return self._origin.key_by(key_selector, key_type)

    # --------------------------------------------------------------------------------------------- record by record

    def map(self, func: MapFunction | Callable[[Any], Any], output_type: TypeInformation | None = None) -> DataStream:
        """Make one record out of each record; the ``open`` of a MapFunction may take keyed state."""
        if isinstance(func, MapFunction):
            check_function("func", func, MapFunction)
            return self._keyed_process("Map", KeyedMap(func), output_type)
        return super().map(func, output_type)

    def flat_map(
        self,
        func: FlatMapFunction | Callable[[Any], Iterable[Any] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Make any number of records out of each one; the ``open`` of a FlatMapFunction may take keyed state."""
        if isinstance(func, FlatMapFunction):
            check_function("func", func, FlatMapFunction)
            return self._keyed_process("FlatMap", KeyedFlatMap(func), output_type)
        return super().flat_map(func, output_type)

    def filter(self, func: FilterFunction | Callable[[Any], bool]) -> DataStream:
        """Keep the records for which a function is true; the ``open`` of a FilterFunction may take keyed state."""
        if isinstance(func, FilterFunction):
            check_function("func", func, FilterFunction)
            return self._keyed_process("Filter", KeyedFilter(func), self._type_info, conform=False)
        return super().filter(func)

    def process(  # pyright: ignore[reportIncompatibleMethodOverride] - PyFlink's signature
        self, func: KeyedProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Run a process function over the records: state, timers and side outputs.

        Args:
            func: The function.
            output_type: The type of what goes to the main output; records are held to it.

        Raises:
            TypeError: The function is no KeyedProcessFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("func", func, KeyedProcessFunction, or_callable=False)
        return self._keyed_process("KeyedProcess", func, output_type)

    def _keyed_process(
        self, name: str, func: KeyedProcessFunction, output_type: TypeInformation | None, *, conform: bool = True
    ) -> DataStream:
        members = {"function": func, "key_selector": self._key_selector}
        return self._transform(OperatorKind.KEYED_PROCESS, name, members, output_type, conform=conform)

    # --------------------------------------------------------------------------------------------------- aggregation

    def reduce(self, func: ReduceFunction | Callable[[Any, Any], Any]) -> DataStream:
        """Fold the records of each key into one; every record gives the result so far.

        Args:
            func: Takes the result so far and the next record; the first record of a key is its first result.

        Raises:
            TypeError: The function is neither a ReduceFunction nor a callable.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("func", func, ReduceFunction)
        return self._reduce("Reduce", func)

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Add up a field of the records of each key; the other fields stay those of the key's first record.

        Args:
            position_to_sum: The field's index, or its name in a Row. For records that are plain numbers, 0.
        """
        return self._aggregate("Sum", Sum, position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Find the smallest value of a field for each key; the other fields stay those of the key's first record.

        NaN counts as greater than all other values, in whatever order the records come.

        Args:
            position_to_min: The field's index, or its name in a Row. For records without fields, 0.
        """
        return self._aggregate("Min", Min, position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Find the greatest value of a field for each key; the other fields stay those of the key's first record.

        NaN counts as greater than all other values, in whatever order the records come.

        Args:
            position_to_max: The field's index, or its name in a Row. For records without fields, 0.
        """
        return self._aggregate("Max", Max, position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Find the record with the smallest value of a field for each key; of equal ones the first.

        NaN counts as greater than all other values, in whatever order the records come.

        Args:
            position_to_min_by: The field's index, or its name in a Row. For records without fields, 0.
        """
        return self._aggregate("MinBy", MinBy, position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Find the record with the greatest value of a field for each key; of equal ones the first.

        NaN counts as greater than all other values, in whatever order the records come.

        Args:
            position_to_max_by: The field's index, or its name in a Row. For records without fields, 0.
        """
        return self._aggregate("MaxBy", MaxBy, position_to_max_by)

    def _aggregate(self, name: str, function: Callable[[int | str], ReduceFunction], position: int | str) -> DataStream:
        if not isinstance(position, (int, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"The field of {name} must be an index or a name, not {position!r}."
            raise TypeError(msg)
        return self._reduce(name, function(position))

    def _reduce(self, name: str, func: object) -> DataStream:
        members = {"function": held_reduce(func, self._type_info), "key_selector": self._key_selector}
        return self._transform(OperatorKind.REDUCE, name, members, self._type_info, conform=False)

    # ------------------------------------------------------------------------------------------------------- windows

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """Group the records of each key into windows.

        Args:
            window_assigner: Says which windows a record belongs to.

        Raises:
            TypeError: The assigner is no WindowAssigner.
        """
        return WindowedStream(self, window_assigner)

    # ------------------------------------------------------------------------------- what a keyed stream does not have

    def broadcast(self, *args: object) -> Never:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Refuse, as all partitioning of a keyed stream.

        Raises:
            UnsupportedOperationError: Always.
        """
        del args
        self._partitioned(PartitionerKind.BROADCAST)

    def _partitioned(self, kind: PartitionerKind, payload: bytes = b"") -> Never:
        del kind, payload
        operation = "Partitioning a KeyedStream"
        raise UnsupportedOperationError(operation, "Cannot override partitioning for KeyedStream")

    def _operator_for(self, method: str) -> StreamNode:
        operation = f"{_SETTINGS[method]} for KeyedStream"
        raise UnsupportedOperationError(
            operation, "call it on the stream before key_by, or on the result of the next operation"
        )


show("penstock.datastream.data_stream", KeyedStream)
