"""The context of triggers and evictors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.windows.evictors import Evictor
from penstock._api.windows.triggers import Trigger
from penstock._engine.operators.expiring import declare_life
from penstock._engine.operators.timer_times import TimerTimes, checked_timer
from penstock._engine.protocol.rows import MIN_WATERMARK
from penstock._engine.state.key_context import KeyContext
from penstock._engine.state.kinds.kind import StateScope
from penstock._engine.state.kinds.registry import kind_of

if TYPE_CHECKING:
    from penstock._api.state.descriptors import StateDescriptor
    from penstock._api.state.kinds import State
    from penstock._api.windows.window import Window
    from penstock._engine.operators.base import OperatorContext
    from penstock._engine.operators.windows.window_namespaces import WindowNamespaces
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.keyed_state import KeyedState
    from penstock._engine.state.rows import Composite, Namespace
    from penstock._engine.state.timers import Timers
    from penstock.metrics.metricbase import MetricGroup


class TriggerState(Trigger.OnMergeContext, Evictor.EvictorContext):
    """The context of the current window and key, moved from one to the next."""

    def __init__(
        self,
        context: OperatorContext,
        store: KeyedState,
        timers: tuple[Timers, Timers],
        namespaces: WindowNamespaces,
        times: TimerTimes,
    ) -> None:
        self._context = context
        self._namespace_of = namespaces.of
        self._store = store
        self._event, self._processing = timers
        #: Checks the times of event-time timers.
        self.times = times
        self._states: dict[str, State] = {}
        #: The row of the trigger's state: key and window.
        self._row = KeyContext()
        self._namespace: Namespace = ()
        self._parts: list[Namespace] = []
        self.watermark = MIN_WATERMARK
        self.key: Any = None
        self.normal: NormalKey = b""

    @property
    def operator_name(self) -> str:
        """The operator's name, for errors."""
        return self._context.operator_name

    def turn_to(self, key: Any, normal: NormalKey) -> None:
        """Make a key the current one."""
        self.key, self.normal = key, normal

    def address(self, window: Window) -> Composite:
        """Return the address of the row of a window of the current key."""
        return self.normal, self._namespace_of(window), None

    def at(self, window: Window) -> TriggerState:
        """Make a window of the key the current one."""
        return self.under(self._namespace_of(window))

    def under(self, namespace: Namespace) -> TriggerState:
        """Make the window of a namespace the current one."""
        self._namespace, self._parts = namespace, []
        self._row.key, self._row.normal = self.key, (self.normal, namespace, None)
        return self

    def merging(self, window: Window, parts: list[Window]) -> TriggerState:
        """Make a merged window the current one."""
        self.at(window)
        self._parts = [self._namespace_of(part) for part in parts if part != window]
        return self

    # ---------------------------------------------------------------------------------------------------------- clocks

    def get_current_processing_time(self) -> int:
        return self._context.clock()

    def get_current_watermark(self) -> int:
        return self.watermark

    def get_metric_group(self) -> MetricGroup:
        return self._context.metrics

    def register(self, time: int, *, is_event: bool) -> None:
        """Set a timer of the current window."""
        timers, checked = (self._event, self.times.checked) if is_event else (self._processing, checked_timer)
        timers.register(checked(time), self.normal, self._namespace, self.key)

    def delete(self, time: int, *, is_event: bool) -> None:
        """Delete a timer of the current window."""
        timers, checked = (self._event, self.times.checked) if is_event else (self._processing, checked_timer)
        timers.delete(checked(time), self.normal, self._namespace)

    def register_processing_time_timer(self, time: int) -> None:
        self.register(time, is_event=False)

    def register_event_time_timer(self, time: int) -> None:
        self.register(time, is_event=True)

    def delete_processing_time_timer(self, time: int) -> None:
        self.delete(time, is_event=False)

    def delete_event_time_timer(self, time: int) -> None:
        self.delete(time, is_event=True)

    # ----------------------------------------------------------------------------------------------------------- state

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
        name = state_descriptor.get_name()
        state = self._states.get(name)
        if state is None:
            state = self._states[name] = self._state(state_descriptor, self._row)
        return state

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        others: list[State] = []
        for part in self._parts:
            row = KeyContext()
            row.key, row.normal = self.key, (self.normal, part, None)
            others.append(self._state(state_descriptor, row))
        kind_of(state_descriptor).merge(self.get_partitioned_state(state_descriptor), others)
        for other in others:
            other.clear()

    def _state(self, descriptor: StateDescriptor, row: KeyContext) -> State:
        kind = kind_of(descriptor)
        # The prefix separates it from states of the function, which may have the same name.
        table = self._store.table(f"trigger-{descriptor.get_name()}", kind=kind.declared(descriptor))
        declare_life(table, kind, descriptor, self._context)
        return kind.state(descriptor, StateScope(table, row, self._context.operator_name))
