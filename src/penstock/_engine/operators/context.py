"""The engine as user functions see it: runtime context, clocks, timers and the current key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock._api.functions.co import CoProcessFunction, KeyedCoProcessFunction
from penstock._api.functions.process import KeyedProcessFunction, ProcessFunction
from penstock._api.runtime_context import RuntimeContext
from penstock._api.state.refusals import needs_key
from penstock._api.time_domain import TimeDomain
from penstock._api.timer_service import TimerService
from penstock._engine.operators.expiring import declare_life
from penstock._engine.operators.timer_times import TimerTimes, checked_timer
from penstock._engine.protocol.rows import MIN_WATERMARK, NO_TIMESTAMP
from penstock._engine.state.kinds.kind import StateScope
from penstock._engine.state.kinds.registry import kind_of
from penstock.common.accumulators import DoubleCounter, Histogram, IntCounter
from penstock.common.configuration import Configuration
from penstock.common.option_table import GLOBAL_JOB_PARAMETERS
from penstock.common.user_values import short_repr
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._api.state.descriptors import StateDescriptor
    from penstock._api.state.kinds import State
    from penstock._engine.operators.accumulators import AccumulatorRegistry
    from penstock._engine.operators.base import OperatorContext
    from penstock._engine.state.key_context import KeyContext
    from penstock._engine.state.keyed_state import KeyedState
    from penstock._engine.state.table import Table
    from penstock._engine.state.timers import Timers
    from penstock.common.accumulators import Accumulator
    from penstock.metrics.metricbase import MetricGroup

_COUNTS_TWICE = (
    "a key selector and a partitioner run wherever a key is needed, not once for each record; count in the function "
    "before them"
)


class EngineRuntimeContext(RuntimeContext):
    """The runtime context of one operator subtask; with keyed state where the operator has a store."""

    def __init__(
        self,
        context: OperatorContext,
        store: KeyedState | None = None,
        key: KeyContext | None = None,
        *,
        counts: bool = True,
    ) -> None:
        self._context = context
        #: Whether its function sees each record once, and may use accumulators.
        self._counts = counts
        self._store = store
        self._key = key

    def get_task_name(self) -> str:
        return self._context.operator_name

    def get_number_of_parallel_subtasks(self) -> int:
        return self._context.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._context.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        return self._context.subtask

    def get_attempt_number(self) -> int:
        return self._context.job_attempt

    def get_task_name_with_subtasks(self) -> str:
        context = self._context
        return f"{context.operator_name} ({context.subtask + 1}/{context.parallelism})#{context.job_attempt}"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        parameters = Configuration.from_dict(self._context.configuration).get(GLOBAL_JOB_PARAMETERS)
        return parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        return self._context.metrics

    def add_accumulator(self, name: str, accumulator: Accumulator[Any, Any]) -> None:
        self._accumulators("add_accumulator", name).add(name, accumulator)

    def get_accumulator(self, name: str) -> Accumulator[Any, Any] | None:
        return self._accumulators("get_accumulator", name).get(name)

    def get_int_counter(self, name: str) -> IntCounter:
        return self._accumulators("get_int_counter", name).get_or_add(name, IntCounter)

    def get_double_counter(self, name: str) -> DoubleCounter:
        return self._accumulators("get_double_counter", name).get_or_add(name, DoubleCounter)

    def get_histogram(self, name: str) -> Histogram[Any]:
        return self._accumulators("get_histogram", name).get_or_add(name, cast("type[Histogram[Any]]", Histogram))

    def _accumulators(self, operation: str, name: str) -> AccumulatorRegistry:
        if not self._counts:
            raise UnsupportedOperationError(f"{operation}({name!r})", _COUNTS_TWICE)
        return self._context.accumulators

    def _keyed_state(self, call: str, kind: type[StateDescriptor], descriptor: StateDescriptor) -> State:
        if self._store is None or self._key is None:
            raise needs_key(f"{call}({descriptor.get_name()!r})")
        if not isinstance(descriptor, kind):
            msg = f"{call} takes a {kind.__name__}, not {short_repr(descriptor)}."
            raise TypeError(msg)
        of_kind = kind_of(descriptor)
        table = self._table(descriptor.get_name(), of_kind.declared(descriptor))
        declare_life(table, of_kind, descriptor, self._context)
        return of_kind.state(descriptor, self._scope(table, self._key))

    def state_of(self, descriptor: StateDescriptor) -> State:
        """Return the state of a descriptor, whatever its kind."""
        return self._keyed_state(f"{kind_of(descriptor).name} state", type(descriptor), descriptor)

    def _table(self, name: str, kind: str) -> Table:
        return cast("KeyedState", self._store).table(name, kind=kind, keep_keys=True)

    def _scope(self, table: Table, key: KeyContext) -> StateScope:
        return StateScope(table, key, self._context.operator_name)


class EngineTimerService(TimerService):
    """The clocks of an operator, and on keyed streams the timers of the current key."""

    def __init__(self, context: OperatorContext) -> None:
        self._clock = context.clock
        self.watermark = MIN_WATERMARK

    def current_processing_time(self) -> int:
        return self._clock()

    def current_watermark(self) -> int:
        return self.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        raise self._no_timers("register_processing_time_timer")

    def register_event_time_timer(self, timestamp: int) -> None:
        raise self._no_timers("register_event_time_timer")

    def delete_processing_time_timer(self, timestamp: int) -> None:
        raise self._no_timers("delete_processing_time_timer")

    def delete_event_time_timer(self, timestamp: int) -> None:
        raise self._no_timers("delete_event_time_timer")

    @staticmethod
    def _no_timers(call: str) -> UnsupportedOperationError:
        return UnsupportedOperationError(call, "timers belong to a key; use them after key_by")


class KeyedTimerService(EngineTimerService):
    """Timers of the current key, in both domains."""

    def __init__(
        self, context: OperatorContext, key: KeyContext, event: Timers, processing: Timers, times: TimerTimes
    ) -> None:
        super().__init__(context)
        self._key = key
        #: Checks the times of event-time timers.
        self.times = times
        self._event = event
        self._processing = processing

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._processing.register(checked_timer(timestamp), self._key.normal, (), self._key.key)

    def register_event_time_timer(self, timestamp: int) -> None:
        self._event.register(self.times.checked(timestamp), self._key.normal, (), self._key.key)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._processing.delete(checked_timer(timestamp), self._key.normal)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._event.delete(self.times.checked(timestamp), self._key.normal)


class RecordContext(ProcessFunction.Context, CoProcessFunction.Context):
    """The context of the current record, moved from one to the next."""

    __slots__ = ("_timers", "at")

    def __init__(self, timers: EngineTimerService) -> None:
        self._timers = timers
        self.at = NO_TIMESTAMP

    def timer_service(self) -> TimerService:
        return self._timers

    def timestamp(self) -> int:
        return self.at


class KeyedRecordContext(KeyedProcessFunction.OnTimerContext, KeyedCoProcessFunction.OnTimerContext):
    """The context of the current record or timer, with its key."""

    __slots__ = ("_key", "_timers", "at", "domain")

    def __init__(self, timers: KeyedTimerService, key: KeyContext) -> None:
        self._timers = timers
        self._key = key
        self.at = NO_TIMESTAMP
        self.domain = TimeDomain.EVENT_TIME

    def get_current_key(self) -> Any:
        return self._key.key

    def timer_service(self) -> TimerService:
        return self._timers

    def timestamp(self) -> int:
        return self.at

    def time_domain(self) -> TimeDomain:
        return self.domain
