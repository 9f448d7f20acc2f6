"""The base of operators with user functions: it initializes and opens them, and keeps their operator state.

A function object with operator state may keep it in attributes between snapshots. So it continues only after its
own last epoch. If another process ran that epoch, or if a union list needs all subtasks to start from one checkpoint,
the runtime creates the operator again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._api.functions.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from penstock._api.functions.endings import call_silent, ending
from penstock._api.functions.wrapping import unwrapped
from penstock._api.functions.wrong_results import called
from penstock._api.state.operator import OperatorStateStore
from penstock._api.state.refusals import refuse_time_to_live
from penstock._engine.operators.base import EpochContext, Operator
from penstock._engine.operators.side_outputs import SideOutputs
from penstock._engine.protocol.control import OperatorAck
from penstock._engine.protocol.rows import NO_TIMESTAMP
from penstock._engine.protocol.state_handle import StateMode
from penstock._engine.state.kinds.typed import typed_broadcast, typed_list
from penstock._engine.state.operator_state import OperatorStateBackend
from penstock.common.types import Row
from penstock.common.user_values import short_repr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._api.runtime_context import RuntimeContext
    from penstock._api.state.kinds import (
        BroadcastState,
        KeyedStateStore,
        ListState,
        ListStateDescriptor,
        MapStateDescriptor,
    )
    from penstock._engine.operators.base import Output
    from penstock._engine.protocol.state_handle import StateHandle

_log = logging.getLogger("penstock")
#: Iterables that a process function may return in place of a list with one of them, and what each record is then.
_LIKE_ONE_RECORD: Final = {str: ("text", "characters"), dict: ("dict", "keys"), Row: ("Row", "values")}


class UserFunctionOperator(Operator):
    """An operator with user functions.

    At the start, each function's `initialize_state` runs before its `open`, and both see the state at the start of the
    epoch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operator_state: OperatorStateBackend = OperatorStateBackend()
        self._checkpointed: list[CheckpointedFunction] = []
        self._listeners: list[CheckpointListener] = []
        self._has_begun = False
        self._has_noted_it = False
        #: The functions whose `finish` and `end_input` may yield.
        self._yielding: list[Any] = []

    def begin_epoch(self, epoch: EpochContext) -> None:
        if not epoch.current:
            self.operator_state.restore(epoch.restore.operator_state, self.context.read_state)
        if not self._has_begun:
            self._has_begun = True
            self.open_functions(epoch)

    def open_functions(self, epoch: EpochContext) -> None:
        """Open the functions, each with `open_function`; runs once, after the first epoch's state was restored."""

    def open_function(
        self, function: Any, runtime_context: RuntimeContext, epoch: EpochContext, *, yields: bool = False
    ) -> None:
        """Initialize and open one function.

        Args:
            function: The function.
            runtime_context: The context passed to ``open``.
            epoch: The epoch that begins.
            yields: Whether its methods for the end of the input may yield records.
        """
        if yields:
            self._yielding.append(function)
        inner = unwrapped(function)
        if isinstance(inner, CheckpointListener):
            self._listeners.append(inner)
        if isinstance(inner, CheckpointedFunction):
            self._checkpointed.append(inner)
            store = FunctionStateStore(self.operator_state, self.context.operator_name)
            context = InitializationContext(epoch.completed_checkpoint or None, store, runtime_context)
            self.functions.open(function, runtime_context, first=lambda: inner.initialize_state(context))
        else:
            self.functions.open(function, runtime_context)

    @property
    def wants_notification(self) -> bool:
        return bool(self._listeners)

    def notify(self, epoch: EpochContext) -> None:
        self.leave_keys()
        for listener in self._listeners:
            if epoch.notify_complete:
                listener.notify_checkpoint_complete(epoch.notify_complete)
            if epoch.notify_aborted:
                listener.notify_checkpoint_aborted(epoch.notify_aborted)

    def can_go_on(self, *, current: bool) -> bool:
        return not self._checkpointed or (current and not self.operator_state.has_union)

    def end_input(self, input_index: int) -> Iterable[Output]:
        return self._call_end_methods("end_input", input_index)

    def finish(self) -> Iterable[Output]:
        return self._call_end_methods("finish")

    def _call_end_methods(self, name: str, *arguments: int) -> Iterable[Output]:
        """Call the functions' end methods, and return their results: without timestamps, after the last watermark."""
        self.iterate([])
        self.leave_keys()
        out = SideOutputs(with_timestamps=False, object_reuse=self.object_reuse, parts_tagged=self.parts_tagged)
        for function in self.functions.opened:
            if not any(function is yielding for yielding in self._yielding):
                call_silent(function, name, *arguments)
                continue
            method = ending(function, name)
            results = None if method is None else method(*arguments)
            if results is not None:
                out.extend(results, NO_TIMESTAMP)
        return out.outputs()

    def note_like_one_record(self, function: Any, results: Any) -> None:
        """Warn once if the results of a process function are what looks like one record, and is not taken for one."""
        kind: Any = cast("Any", type(results))
        if kind in _LIKE_ONE_RECORD and self.parts_tagged and not self._has_noted_it:
            self._has_noted_it = True
            name, parts = _LIKE_ONE_RECORD[kind]
            _log.warning(
                "%s returned the %s %s: each of its %s is a record, as in PyFlink. "
                "Yield a %s that is to be one record.",
                *(called(function), name, short_repr(results), parts, name),
            )

    def leave_keys(self) -> None:
        """Unset the current key."""

    def save_operator_state(self, epoch: EpochContext) -> StateHandle | None:
        """Let the functions update their state, and write it into the checkpoint."""
        self.iterate([])
        self.leave_keys()
        for function in self._checkpointed:
            function.snapshot_state(SnapshotContext(epoch.checkpoint_id, self.context.clock()))
        return self.operator_state.save(
            lambda data, parts: self.context.save_operator_state(data, parts, epoch),
            anew=epoch.write_all,
        )

    def snapshot(self, epoch: EpochContext, *, finished: bool) -> OperatorAck:
        return OperatorAck(operator_state=self.save_operator_state(epoch))


class FunctionStateStore(OperatorStateStore):
    """Gives a function the operator state of its operator."""

    def __init__(self, state: OperatorStateBackend, operator: str) -> None:
        self._state = state
        #: The operator's name, for errors.
        self._operator = operator

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        refuse_time_to_live(state_descriptor)
        state = self._state.list_state(state_descriptor.get_name(), StateMode.LIST)
        return typed_list(state, state_descriptor, self._operator)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        refuse_time_to_live(state_descriptor)
        state = self._state.list_state(state_descriptor.get_name(), StateMode.UNION)
        return typed_list(state, state_descriptor, self._operator)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        refuse_time_to_live(state_descriptor)
        state = self._state.broadcast_state(state_descriptor.get_name())
        return typed_broadcast(state, state_descriptor, self._operator)


class InitializationContext(FunctionInitializationContext):
    """The context of ``initialize_state``."""

    def __init__(self, restored: int | None, store: OperatorStateStore, keyed: KeyedStateStore) -> None:
        self._restored = restored
        self._store = store
        self._keyed = keyed

    def is_restored(self) -> bool:
        return self._restored is not None

    def get_restored_checkpoint_id(self) -> int | None:
        return self._restored

    def get_operator_state_store(self) -> OperatorStateStore:
        return self._store

    def get_keyed_state_store(self) -> KeyedStateStore:
        return self._keyed


class SnapshotContext(FunctionSnapshotContext):
    """The context of ``snapshot_state``."""

    def __init__(self, checkpoint_id: int, timestamp_ms: int) -> None:
        self._checkpoint_id = checkpoint_id
        self._timestamp_ms = timestamp_ms

    def get_checkpoint_id(self) -> int:
        return self._checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        return self._timestamp_ms
