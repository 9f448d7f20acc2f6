"""The context of window assigners, with state of the current key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._api.windows.window import WindowAssigner
from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.state.key_context import KeyContext

if TYPE_CHECKING:
    from penstock._api.runtime_context import RuntimeContext
    from penstock._api.state.descriptors import StateDescriptor
    from penstock._api.state.kinds import State
    from penstock._engine.operators.base import OperatorContext
    from penstock._engine.operators.windows.trigger_context import TriggerState
    from penstock._engine.state.keyed_state import KeyedState
    from penstock._engine.state.table import Table


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """The context of a window assigner.

    Args:
        context: The context of the operator.
        store: The operator's store.
        state: Has the clock.
    """

    def __init__(self, context: OperatorContext, store: KeyedState, state: TriggerState) -> None:
        self._state = state
        #: The key of the current record.
        self.key = KeyContext()
        self._runtime = _AssignerState(context, store, self.key)

    def get_current_processing_time(self) -> int:
        return self._state.get_current_processing_time()

    def get_runtime_context(self) -> RuntimeContext:
        return self._runtime


class _AssignerState(EngineRuntimeContext):
    """The runtime context of an assigner, which accesses its state for each record."""

    def __init__(self, context: OperatorContext, store: KeyedState, key: KeyContext) -> None:
        super().__init__(context, store, key)
        self._states: dict[str, State] = {}

    def _keyed_state(self, call: str, kind: type[StateDescriptor], descriptor: StateDescriptor) -> State:
        name = descriptor.get_name()
        state = self._states.get(name)
        if state is None:
            state = self._states[name] = super()._keyed_state(call, kind, descriptor)
        return state

    def _table(self, name: str, kind: str) -> Table:
        # The prefix separates it from states of the function, which may have the same name.
        return super()._table(f"assigner-{name}", kind)
