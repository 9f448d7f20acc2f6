"""A harness for the functions of joins and co-groups in windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from penstock._builders.windows.joined_functions import KeyOfTagged, grouping, joining
from penstock._engine.operators.factories.windows import WindowFactory
from penstock._engine.operators.windows.window_strategy import ElementPanes
from penstock._engine.protocol.rows import MAX_WATERMARK
from penstock.testing.stream_records import StreamRecord
from penstock.testing.two_inputs import TwoInputHarness

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._api.functions.basic import KeySelector
    from penstock._api.functions.joins import CoGroupFunction, FlatJoinFunction, JoinFunction
    from penstock._api.windows.window import WindowAssigner
    from penstock._builders.windows.joined_functions import OfBoth
    from penstock.testing._subtask import SubtaskSettings

__all__ = ["JoinHarness"]


class JoinHarness(TwoInputHarness):
    """One subtask of a window join or a co-group, made by one of the ``for_`` methods below.

    Example:
        >>> from penstock.common.time import Time
        >>> from penstock.datastream.window import TumblingEventTimeWindows
        >>> key, seconds = (lambda pair: pair[0]), TumblingEventTimeWindows.of(Time.seconds(1))
        >>> with JoinHarness.for_window_join(lambda one, other: one + other[1:], key, key, seconds) as harness:
        ...     harness.process_element(("a", 1), 100)
        ...     harness.process_elements2([("a", 2), ("a", 3)], 200)
        ...     harness.process_watermark(999)
        ...     harness.process_watermark2(999)
        ...     harness.values()
        [('a', 1, 2), ('a', 1, 3)]
    """

    @classmethod
    def for_window_join(
        cls,
        function: JoinFunction[Any, Any, Any] | FlatJoinFunction[Any, Any, Any] | Callable[[Any, Any], Any],
        key_selector1: KeySelector[Any, Any] | Callable[[Any], Any],
        key_selector2: KeySelector[Any, Any] | Callable[[Any], Any],
        window_assigner: WindowAssigner[Any, Any],
        **subtask: Unpack[SubtaskSettings],
    ) -> JoinHarness:
        """Return a harness for the function of ``DataStream.join``."""
        return cls._for_both(joining(function), key_selector1, key_selector2, window_assigner, subtask)

    @classmethod
    def for_co_group(
        cls,
        function: CoGroupFunction[Any, Any, Any],
        key_selector1: KeySelector[Any, Any] | Callable[[Any], Any],
        key_selector2: KeySelector[Any, Any] | Callable[[Any], Any],
        window_assigner: WindowAssigner[Any, Any],
        **subtask: Unpack[SubtaskSettings],
    ) -> JoinHarness:
        """Return a harness for the function of ``DataStream.co_group``."""
        return cls._for_both(grouping(function), key_selector1, key_selector2, window_assigner, subtask)

    @classmethod
    def _for_both(
        cls, function: OfBoth, one: Any, other: Any, windows: WindowAssigner[Any, Any], subtask: SubtaskSettings
    ) -> JoinHarness:
        factory = WindowFactory(
            KeyOfTagged(one, other),
            windows,
            allowed_lateness_ms=0,
            late_tag=None,
            strategy=ElementPanes,
            function=None,
            window_function=function,
            trigger=windows.get_default_trigger(None),
            evictor=None,
        )
        return cls(factory.create(), **subtask)

    def end_input(self, *, fire_timers: bool = False) -> None:
        """End both inputs, as bounded sources do.

        Args:
            fire_timers: As for one input.
        """
        self.process_watermark(MAX_WATERMARK)
        self.process_watermark2(MAX_WATERMARK)
        if fire_timers:
            self._take(self._operator.fire_left_timers())
        self._take(self._operator.end_input(0))
        self._finish()

    def _process(self, records: list[StreamRecord], input_index: int) -> None:
        super()._process([StreamRecord((input_index, record.value), record.timestamp) for record in records], 0)
