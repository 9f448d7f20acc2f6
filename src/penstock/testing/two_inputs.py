"""A harness for functions of two connected streams, as ``OperatorHarness`` is for functions of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from penstock._api.functions.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from penstock._api.functions.co import CoFlatMapFunction, CoMapFunction, CoProcessFunction, KeyedCoProcessFunction
from penstock._api.functions.joins import ProcessJoinFunction
from penstock._builders.checks import check_function, checked_key_selector
from penstock._engine.operators.factories.functions import (
    BroadcastProcessFactory,
    CoFlatMapFactory,
    CoMapFactory,
    CoProcessFactory,
)
from penstock._engine.operators.factories.keyed import (
    IntervalJoinFactory,
    KeyedBroadcastProcessFactory,
    KeyedCoProcessFactory,
)
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock.testing.harness import OperatorHarness
from penstock.testing.stream_records import StreamRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._api.functions.basic import KeySelector
    from penstock._api.output_tag import OutputTag
    from penstock._api.state.kinds import MapStateDescriptor
    from penstock._engine.operators.base import Operator
    from penstock._engine.operators.operator_factory import OperatorFactory
    from penstock.testing._subtask import SubtaskSettings
    from penstock.testing.operator_snapshot import OperatorSnapshot

__all__ = ["TwoInputHarness"]


class TwoInputHarness(OperatorHarness):
    """One subtask of an operator with two inputs, made by one of the ``for_`` methods below.

    The methods with a 1 in their names feed the first input, as do those of an
    :class:`~penstock.testing.harness.OperatorHarness`; those with a 2 feed the second. The watermark is the smaller one
    of the two inputs.

    Args:
        operator: The operator.
        **subtask: ``subtask_index``, ``parallelism`` and the other arguments of the class.

    Source: org.apache.flink.streaming.util.KeyedTwoInputStreamOperatorTestHarness.

    Example:
        >>> from penstock.datastream.functions import CoMapFunction
        >>> class Either(CoMapFunction):
        ...     def map1(self, value):
        ...         return "number", value
        ...
        ...     def map2(self, value):
        ...         return "word", value
        >>> with TwoInputHarness.for_co_map(Either()) as harness:
        ...     harness.process_element1(1)
        ...     harness.process_element2("a")
        ...     harness.values()
        [('number', 1), ('word', 'a')]
    """

    def __init__(self, operator: Operator | OperatorFactory, **subtask: Unpack[SubtaskSettings]) -> None:
        super().__init__(operator, **subtask)
        self._marks = [MIN_WATERMARK, MIN_WATERMARK]

    @classmethod
    def for_co_map(cls, function: CoMapFunction[Any, Any, Any], **subtask: Unpack[SubtaskSettings]) -> TwoInputHarness:
        """Return a harness for the function of ``ConnectedStreams.map``, without keys."""
        check_function("function", function, CoMapFunction, or_callable=False)
        return cls(CoMapFactory(function), **subtask)

    @classmethod
    def for_co_flat_map(
        cls, function: CoFlatMapFunction[Any, Any, Any], **subtask: Unpack[SubtaskSettings]
    ) -> TwoInputHarness:
        """Return a harness for the function of ``ConnectedStreams.flat_map``, without keys."""
        check_function("function", function, CoFlatMapFunction, or_callable=False)
        return cls(CoFlatMapFactory(function), **subtask)

    @classmethod
    def for_co_process(
        cls, function: CoProcessFunction[Any, Any, Any], **subtask: Unpack[SubtaskSettings]
    ) -> TwoInputHarness:
        """Return a harness for the function of ``ConnectedStreams.process``, without keys."""
        check_function("function", function, CoProcessFunction, or_callable=False)
        return cls(CoProcessFactory(function), **subtask)

    @classmethod
    def for_keyed_co_process(
        cls,
        function: KeyedCoProcessFunction[Any, Any, Any, Any],
        key_selector1: KeySelector[Any, Any] | Callable[[Any], Any] | str,
        key_selector2: KeySelector[Any, Any] | Callable[[Any], Any] | str,
        **subtask: Unpack[SubtaskSettings],
    ) -> TwoInputHarness:
        """Return a harness for the function of ``ConnectedStreams.process`` after ``key_by``."""
        check_function("function", function, KeyedCoProcessFunction, or_callable=False)
        return cls(KeyedCoProcessFactory(function, *_keys(key_selector1, key_selector2)), **subtask)

    @classmethod
    def for_interval_join(
        cls,
        function: ProcessJoinFunction[Any, Any, Any],
        key_selector1: KeySelector[Any, Any] | Callable[[Any], Any] | str,
        key_selector2: KeySelector[Any, Any] | Callable[[Any], Any] | str,
        *,
        lower_ms: int,
        upper_ms: int,
        late: tuple[OutputTag | None, OutputTag | None] = (None, None),
        **subtask: Unpack[SubtaskSettings],
    ) -> TwoInputHarness:
        """Return a harness for the function of ``KeyedStream.interval_join``.

        Args:
            function: The function.
            key_selector1: Of the left stream.
            key_selector2: Of the right stream.
            lower_ms: How long after a left record a right one is at least, in milliseconds; may be negative.
            upper_ms: How long after it at most.
            late: The side outputs for late records of each side.
            **subtask: ``subtask_index``, ``parallelism`` and the other arguments of the class.
        """
        check_function("function", function, ProcessJoinFunction, or_callable=False)
        tags = [None if tag is None else tag.tag_id for tag in late]
        operator = IntervalJoinFactory(
            function,
            *_keys(key_selector1, key_selector2),
            lower_ms=lower_ms,
            upper_ms=upper_ms,
            late_tags=(tags[0], tags[1]),
        )
        return cls(operator, **subtask)

    @classmethod
    def for_broadcast_process(
        cls,
        function: BroadcastProcessFunction[Any, Any, Any],
        *descriptors: MapStateDescriptor,
        **subtask: Unpack[SubtaskSettings],
    ) -> TwoInputHarness:
        """Return a harness for the function of ``BroadcastConnectedStream.process``; the second input is broadcast.

        Args:
            function: The function.
            *descriptors: The descriptors that were given to ``broadcast``.
            **subtask: ``subtask_index``, ``parallelism`` and the other arguments of the class.
        """
        check_function("function", function, BroadcastProcessFunction, or_callable=False)
        return cls(BroadcastProcessFactory(function, descriptors), **subtask)

    @classmethod
    def for_keyed_broadcast_process(
        cls,
        function: KeyedBroadcastProcessFunction[Any, Any, Any, Any],
        key_selector: KeySelector[Any, Any] | Callable[[Any], Any] | str,
        *descriptors: MapStateDescriptor,
        **subtask: Unpack[SubtaskSettings],
    ) -> TwoInputHarness:
        """Return a harness for the same on a keyed stream."""
        check_function("function", function, KeyedBroadcastProcessFunction, or_callable=False)
        return cls(KeyedBroadcastProcessFactory(function, _keys(key_selector)[0], descriptors), **subtask)

    def process_element1(self, value: Any, timestamp: int | None = None) -> None:
        """Process one record of the first input; the same as ``process_element``."""
        self.process_element(value, timestamp)

    def process_elements1(self, values: Iterable[Any], timestamp: int | None = None) -> None:
        """Process several records of the first input; the same as ``process_elements``."""
        self.process_elements(values, timestamp)

    def process_records2(self, records: Iterable[StreamRecord]) -> None:
        """Process several records of the second input; like ``process_records``."""
        self._process(list(records), 1)

    def process_element2(self, value: Any, timestamp: int | None = None) -> None:
        """Process one record of the second input; like ``process_element``."""
        self.process_elements2([value], timestamp)

    def process_elements2(self, values: Iterable[Any], timestamp: int | None = None) -> None:
        """Process several records of the second input; like ``process_elements``."""
        self.process_records2(StreamRecord(value, timestamp) for value in values)

    def restore(self, *snapshots: OperatorSnapshot) -> None:
        """Continue from snapshots, as for one input; both inputs are at the watermark of the snapshots."""
        super().restore(*snapshots)
        self._marks = [self._start.watermark] * 2

    def process_watermark(self, timestamp: int) -> None:
        """Process a watermark of the first input; the smaller of the two inputs' watermarks counts."""
        self._rise(0, timestamp)

    def process_watermark1(self, timestamp: int) -> None:
        """Process a watermark of the first input; the same as ``process_watermark``."""
        self._rise(0, timestamp)

    def process_watermark2(self, timestamp: int) -> None:
        """Process a watermark of the second input; the smaller of the two inputs' watermarks counts."""
        self._rise(1, timestamp)

    def end_input(self, *, fire_timers: bool = False) -> None:
        """End both inputs as bounded sources do: the last watermark, then the ends, then the operator's own.

        Args:
            fire_timers: As for one input.
        """
        self.process_watermark(MAX_WATERMARK)
        self.process_watermark2(MAX_WATERMARK)
        if fire_timers:
            self._take(self._operator.fire_left_timers())
        for index in (0, 1):
            self._take(self._operator.end_input(index))
        self._finish()

    def _rise(self, input_index: int, timestamp: int) -> None:
        self._marks[input_index] = max(self._marks[input_index], timestamp)
        super().process_watermark(min(self._marks))


def _keys(*selectors: object) -> list[Any]:
    return [checked_key_selector("key_selector", selector) for selector in selectors]
