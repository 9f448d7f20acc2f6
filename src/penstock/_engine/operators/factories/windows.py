"""Factories of the operators of windows, of records and of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock._api.windows.time_windows import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock._api.windows.triggers import EventTimeTrigger
from penstock._api.windows.unaligned_windows import EndOfStreamTrigger, EndOfStreamWindows, GlobalWindows
from penstock._engine.operators.columnar.column_windows import column_window_operator
from penstock._engine.operators.factories.keyed import KeyedFactory, is_combinable
from penstock._engine.operators.operator_factory import OperatorFactory, OperatorRole
from penstock._engine.operators.sorting.sorted_input import SortedInputOperator
from penstock._engine.operators.windows.partials import CombineWindowOperator, window_of_partials
from penstock._engine.operators.windows.window_choice import window_operator

if TYPE_CHECKING:
    from penstock._api.windows.evictors import Evictor
    from penstock._api.windows.time_windows import AlignedWindows
    from penstock._api.windows.triggers import Trigger
    from penstock._api.windows.window import WindowAssigner
    from penstock._engine.operators.base import Operator
    from penstock._engine.operators.columnar.column_aggregates import ColumnAggregates
    from penstock._engine.operators.keyed import KeyedOperator
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


@dataclass(frozen=True, eq=False)
class WindowFactory(KeyedFactory):
    kind = "window"
    key_selector: Any
    assigner: WindowAssigner[Any, Any]
    allowed_lateness_ms: int
    late_tag: str | None
    #: How records are held: "reduce", "aggregate" or "elements".
    strategy: str
    #: A ReduceFunction or an AggregateFunction; None where windows hold their elements.
    function: Any
    #: A WindowFunction or a ProcessWindowFunction; None gives what the function has made.
    window_function: Any
    trigger: Trigger[Any, Any]
    evictor: Evictor[Any, Any] | None

    def create(self) -> KeyedOperator:
        return window_operator(**self.members())

    @property
    def is_combinable(self) -> bool:
        windows = type(self.assigner), type(self.trigger)
        if windows not in _KNOWN_BY_A_RECORD or self.evictor is not None or self.late_tag is not None:
            return False
        if self.strategy == "aggregate":
            return is_combinable(self.function, by_itself=False)
        # Records of event-time windows have timestamps, which order what a reduce folds.
        has_no_timestamps = windows[1] is EndOfStreamTrigger
        return self.strategy == "reduce" and has_no_timestamps and is_combinable(self.function, by_itself=True)

    @classmethod
    def combined(cls) -> tuple[type[OperatorFactory], type[OperatorFactory]]:
        return CombineWindowFactory, WindowCombinedFactory


class CombineWindowFactory(WindowFactory):
    """Sends partial results, each with its key."""

    kind = "combine_window"
    role: ClassVar[OperatorRole] = OperatorRole.COMBINING

    def create_in_batch(self) -> Operator:
        return CombineWindowOperator(self.key_selector, self.assigner, strategy=self.strategy, function=self.function)


class WindowCombinedFactory(WindowFactory):
    """Makes windows of partial results, which have their keys beside them."""

    kind = "window_combined"

    def create_in_batch(self) -> Operator:
        return SortedInputOperator(window_of_partials(**self.members()))


@dataclass(frozen=True, eq=False)
class ColumnWindowFactory(OperatorFactory):
    kind = "column_window"
    assigner: AlignedWindows
    aggregates: ColumnAggregates
    input_type: TypeInformation | None
    allowed_lateness_ms: int
    late_tag: str | None

    def create(self) -> Operator:
        return column_window_operator(**self.members())

    @property
    def keeps_state(self) -> bool:
        return True
