"""Factories of the operators of windows, of records and of columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from penstock._api.windows.session_windows import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)
from penstock._api.windows.time_windows import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock._api.windows.triggers import EventTimeTrigger, ProcessingTimeTrigger
from penstock._api.windows.unaligned_windows import EndOfStreamTrigger, EndOfStreamWindows, GlobalWindows
from penstock._api.windows.window import MergingWindowAssigner
from penstock._engine.operators.columnar.column_windows import ColumnPanes, ColumnWindowOperator
from penstock._engine.operators.columnar.record_columns import DeclaredColumns
from penstock._engine.operators.factories.keyed import KeyedFactory, is_combinable
from penstock._engine.operators.operator_factory import OperatorFactory, OperatorRole
from penstock._engine.operators.sorting.sorted_input import SortedInputOperator
from penstock._engine.operators.windows.aligned_windows import AlignedWindowOperator
from penstock._engine.operators.windows.clock_firing import ClockFiring
from penstock._engine.operators.windows.keyed_windows import KeyedWindowOperator
from penstock._engine.operators.windows.pane_contents import PaneContents
from penstock._engine.operators.windows.partials import Accumulators, CombineWindowOperator, Partials
from penstock._engine.operators.windows.session_firing import SessionFiring
from penstock._engine.operators.windows.slice_contents import SliceContents
from penstock._engine.operators.windows.trigger_firing import TriggerFiring
from penstock._engine.operators.windows.watermark_firing import WatermarkFiring
from penstock._engine.operators.windows.window_contents import EvictedContents, WindowContents
from penstock._engine.operators.windows.window_function import KeyedWindowContext, MergingWindowContext, window_results
from penstock._engine.operators.windows.window_namespaces import WindowNamespaces
from penstock._engine.operators.windows.window_strategy import AggregatePanes, ReducePanes

if TYPE_CHECKING:
    from penstock._api.windows.evictors import Evictor
    from penstock._api.windows.time_windows import AlignedWindows
    from penstock._api.windows.triggers import Trigger
    from penstock._api.windows.window import WindowAssigner
    from penstock._engine.operators.base import Operator
    from penstock._engine.operators.columnar.column_aggregates import ColumnAggregates
    from penstock._engine.operators.keyed import KeyedOperator
    from penstock._engine.operators.windows.pane_contents import AlignedContents
    from penstock._engine.operators.windows.window_strategy import PaneStrategy
    from penstock.common.typeinfo import TypeInformation

#: The windows that a record tells by itself, with their own trigger: other ones depend on other records or the clock.
_KNOWN_BY_A_RECORD: Final = frozenset(
    {
        (TumblingEventTimeWindows, EventTimeTrigger),
        (SlidingEventTimeWindows, EventTimeTrigger),
        (EndOfStreamWindows, EndOfStreamTrigger),
        (GlobalWindows, EndOfStreamTrigger),
    }
)

#: The assigners whose windows all keys share; classes of the program below them may have other windows.
_ALIGNED: Final[frozenset[type[Any]]] = frozenset({TumblingEventTimeWindows, SlidingEventTimeWindows})

#: The firing of windows of single keys that are filled by blocks where they fire at their end, by the assigner.
_BY_BLOCKS: Final[dict[type[Any], type[TriggerFiring]]] = {
    EventTimeSessionWindows: SessionFiring,
    ProcessingTimeSessionWindows: SessionFiring,
    DynamicEventTimeSessionWindows: SessionFiring,
    DynamicProcessingTimeSessionWindows: SessionFiring,
    TumblingProcessingTimeWindows: ClockFiring,
    SlidingProcessingTimeWindows: ClockFiring,
}


def _aligned_contents(windows: AlignedWindows, strategy: PaneStrategy, lateness_ms: int) -> AlignedContents:
    """Return where windows that all keys share have their contents."""
    contents = PaneContents if isinstance(windows, TumblingEventTimeWindows) else SliceContents
    return contents(windows, strategy, WatermarkFiring(lateness_ms))


@dataclass(frozen=True, eq=False)
class WindowFactory(KeyedFactory):
    kind = "window"
    key_selector: Any
    assigner: WindowAssigner[Any, Any]
    allowed_lateness_ms: int
    late_tag: str | None
    #: How the records of a window are held.
    strategy: type[PaneStrategy]
    #: A ReduceFunction or an AggregateFunction; None where windows hold their elements.
    function: Any
    #: A WindowFunction or a ProcessWindowFunction; None gives what the function has made.
    window_function: Any
    trigger: Trigger[Any, Any]
    evictor: Evictor[Any, Any] | None

    def create(self) -> KeyedOperator:
        strategy = self.strategy(self.function)
        at_the_end = self._fires_at_the_end
        if at_the_end and type(self.assigner) in _ALIGNED:
            aligned = _aligned_contents(cast("AlignedWindows", self.assigner), strategy, self.allowed_lateness_ms)
            results = window_results(strategy, self.window_function)
            return AlignedWindowOperator(self.key_selector, aligned, late_tag=self.late_tag, results=results)
        namespaces = WindowNamespaces(self.assigner.get_window_serializer())
        merges = isinstance(self.assigner, MergingWindowAssigner)
        context = MergingWindowContext if merges else partial(KeyedWindowContext, namespaces=namespaces)
        by_blocks = _BY_BLOCKS.get(type(self.assigner)) if at_the_end else None
        firing = (by_blocks or TriggerFiring)(
            self.assigner,
            self.trigger,
            WindowContents(strategy) if self.evictor is None else EvictedContents(strategy, self.evictor),
            namespaces=namespaces,
            lateness_ms=self.allowed_lateness_ms,
        )
        results = window_results(strategy, self.window_function, context)
        return KeyedWindowOperator(self.key_selector, firing, late_tag=self.late_tag, results=results)

    @property
    def _fires_at_the_end(self) -> bool:
        """Whether windows fire at their end, and only there."""
        at_the_end = EventTimeTrigger if self.assigner.is_event_time() else ProcessingTimeTrigger
        return type(self.trigger) is at_the_end and self.evictor is None

    @property
    def is_combinable(self) -> bool:
        windows = type(self.assigner), type(self.trigger)
        if windows not in _KNOWN_BY_A_RECORD or self.evictor is not None or self.late_tag is not None:
            return False
        if self.strategy is AggregatePanes:
            return is_combinable(self.function, by_itself=False)
        # Records of event-time windows have timestamps, which order what a reduce folds.
        has_no_timestamps = windows[1] is EndOfStreamTrigger
        may_reduce = self.strategy is ReducePanes and has_no_timestamps
        return may_reduce and is_combinable(self.function, by_itself=True)

    @classmethod
    def combined(cls) -> tuple[type[OperatorFactory], type[OperatorFactory]]:
        return CombineWindowFactory, WindowCombinedFactory


class CombineWindowFactory(WindowFactory):
    """Sends partial results, each with its key."""

    kind = "combine_window"
    role: ClassVar[OperatorRole] = OperatorRole.COMBINING

    def create_in_batch(self) -> Operator:
        aggregates = self.strategy is AggregatePanes
        return CombineWindowOperator(self.key_selector, self.assigner, self.function, aggregates=aggregates)


class WindowCombinedFactory(WindowFactory):
    """Makes windows of partial results, which have their keys beside them."""

    kind = "window_combined"

    def create_in_batch(self) -> Operator:
        function = (Accumulators if self.strategy is AggregatePanes else Partials)(self.function)
        of_pairs = replace(self, key_selector=itemgetter(0), strategy=AggregatePanes, function=function)
        return SortedInputOperator(of_pairs.create())


@dataclass(frozen=True, eq=False)
class ColumnWindowFactory(OperatorFactory):
    kind = "column_window"
    always_keeps_state: ClassVar[bool] = True
    assigner: AlignedWindows
    aggregates: ColumnAggregates
    input_type: TypeInformation | None
    allowed_lateness_ms: int
    late_tag: str | None

    def create(self) -> Operator:
        contents = _aligned_contents(self.assigner, ColumnPanes(self.aggregates), self.allowed_lateness_ms)
        return ColumnWindowOperator(contents, DeclaredColumns.of(self.input_type), late_tag=self.late_tag)
