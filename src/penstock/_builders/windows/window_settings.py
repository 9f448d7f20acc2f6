"""The settings of windows with and without keys: trigger, evictor, lateness, late output."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from penstock._api.functions.basic import AggregateFunction, ReduceFunction
from penstock._api.output_tag import OutputTag
from penstock._api.windows.evictors import Evictor
from penstock._api.windows.time_windows import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock._api.windows.triggers import Trigger
from penstock._api.windows.window import MergingWindowAssigner, WindowAssigner
from penstock._builders.checks import check_function
from penstock._builders.typed_functions import typed_aggregate, typed_reduce
from penstock._engine.operators.factories.windows import ColumnWindowFactory, WindowFactory
from penstock._engine.operators.windows.window_strategy import AggregatePanes, ReducePanes
from penstock.common.arguments import instance, whole_number
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._builders.outputs import StreamOutputs
    from penstock._engine.operators.columnar.column_aggregates import ColumnAggregates
    from penstock._engine.operators.windows.window_strategy import PaneStrategy
    from penstock.common.typeinfo import TypeInformation

T = TypeVar("T")
W = TypeVar("W")


class WindowSettings(Generic[T, W]):
    """The settings of windows.

    Args:
        keyed_stream: The records.
        window_assigner: Says which windows a record belongs to.

    Raises:
        TypeError: The assigner is no WindowAssigner, or its trigger no Trigger.
        UnsupportedOperationError: The windows merge, and their default trigger does not support that.
    """

    def __init__(self, keyed_stream: StreamOutputs[T], window_assigner: WindowAssigner[Any, W]) -> None:
        self._input = keyed_stream
        instance("window_assigner", window_assigner, WindowAssigner)
        self._window_assigner = window_assigner
        self._allowed_lateness_ms = 0
        self._late_tag: OutputTag | None = None
        self._trigger: Trigger[Any, Any] | None = None
        self._evictor: Evictor[Any, Any] | None = None

    @abstractmethod
    def get_execution_environment(self) -> Any:
        """Return the environment that the stream belongs to."""

    def get_input_type(self) -> TypeInformation:
        """Return the type of the records."""
        return self._input.get_type()

    def trigger(self, trigger: Trigger[T, W]) -> Self:
        """Replace the windows' default trigger.

        Args:
            trigger: Decides when a window fires.

        Raises:
            TypeError: It is no Trigger.
            UnsupportedOperationError: The windows merge, and the trigger does not support that.
        """
        self._trigger = self._checked_trigger("trigger", trigger)
        return self

    def evictor(self, evictor: Evictor[T, W]) -> Self:
        """Set the evictor, which removes records from firing windows; in Flink's Java API, not in PyFlink.

        Args:
            evictor: The evictor. With it, windows keep all of their records, even if a function reduces these.

        Raises:
            TypeError: It is no Evictor.
        """
        self._evictor = instance("evictor", evictor, Evictor)
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Keep windows open for late records, each of which fires its window again.

        Args:
            time_ms: How long after a window's end, in milliseconds of the watermark; records that are later still are
                dropped, or go to the late side output.

        Raises:
            TypeError: It is no whole number.
            ValueError: It is negative.
        """
        if whole_number("allowed_lateness in milliseconds", time_ms) < 0:
            msg = f"allowed_lateness cannot be negative: {time_ms} ms."
            raise ValueError(msg)
        self._allowed_lateness_ms = time_ms
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Send records that are too late to a side output in place of dropping them.

        Args:
            output_tag: The output; ``get_side_output`` of the resulting stream returns it.

        Raises:
            TypeError: The tag is no OutputTag.
        """
        self._late_tag = instance("output_tag", output_tag, OutputTag)
        return self

    @abstractmethod
    def _check_result_function(self, window_function: object) -> None:
        """Raise TypeError unless a function of the results is of a kind that these windows take."""

    def _reducing(
        self, function: Any, window_function: object, output_type: TypeInformation | None
    ) -> tuple[WindowFactory, TypeInformation | None]:
        """Return the operator that reduces records, and the type of its output."""
        check_function("reduce_function", function, ReduceFunction)
        if window_function is not None:
            self._check_result_function(window_function)
        elif output_type is None:
            output_type = self.get_input_type()
        return self._factory(ReducePanes, typed_reduce(function, self.get_input_type()), window_function), output_type

    def _aggregating(
        self, function: Any, window_function: object, accumulator_type: TypeInformation | None
    ) -> WindowFactory:
        """Return the operator that aggregates records."""
        check_function("aggregate_function", function, AggregateFunction, or_callable=False)
        if window_function is not None:
            self._check_result_function(window_function)
        return self._factory(AggregatePanes, typed_aggregate(function, accumulator_type), window_function)

    def _factory(self, strategy: type[PaneStrategy], function: object, window_function: object) -> WindowFactory:
        """Return the operator, as the windows are set now."""
        trigger = self._trigger
        if trigger is None:
            default = self._window_assigner.get_default_trigger(self.get_execution_environment())
            trigger = self._checked_trigger(f"the default trigger of {self._window_assigner!r}", default)
        return WindowFactory(
            self._input._key_selector,
            self._window_assigner,
            allowed_lateness_ms=self._allowed_lateness_ms,
            late_tag=None if self._late_tag is None else self._late_tag.tag_id,
            strategy=strategy,
            function=function,
            window_function=window_function,
            trigger=trigger,
            evictor=self._evictor,
        )

    def _column_factory(self, aggregates: ColumnAggregates) -> ColumnWindowFactory:
        """Return the operator of windows of columns.

        Raises:
            UnsupportedOperationError: The windows are others, or have a trigger or an evictor of their own.
        """
        assigner = self._window_assigner
        is_aligned = isinstance(assigner, (TumblingEventTimeWindows, SlidingEventTimeWindows))
        if not is_aligned or self._trigger is not None or self._evictor is not None:
            reason = (
                "columns are aggregated in tumbling and sliding event-time windows, without trigger and evictor; use "
                "aggregate() or reduce(), which take records"
            )
            raise UnsupportedOperationError(f"aggregate_batches() in {assigner!r}", reason)
        return ColumnWindowFactory(
            assigner,
            aggregates,
            self._input._declared_type(),
            allowed_lateness_ms=self._allowed_lateness_ms,
            late_tag=None if self._late_tag is None else self._late_tag.tag_id,
        )

    def _checked_trigger(self, what: str, trigger: Trigger[Any, Any]) -> Trigger[Any, Any]:
        instance(what, trigger, Trigger)
        if isinstance(self._window_assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise UnsupportedOperationError(
                f"trigger({trigger!r})", "its can_merge() is False, and these windows merge"
            )
        return trigger
