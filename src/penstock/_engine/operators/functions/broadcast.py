"""Operators with a broadcast input: its records fill maps on every subtask, and the other input reads these maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from penstock._api.functions.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from penstock._api.state.kinds import MapStateDescriptor, ReadOnlyBroadcastState
from penstock._engine.operators.context import EngineRuntimeContext, KeyedRecordContext
from penstock._engine.operators.functions.process import KeyedProcessOperator, ProcessOperator
from penstock._engine.protocol.rows import NO_TIMESTAMP
from penstock._engine.state.key_rows import present_keys
from penstock._engine.state.kinds.typed import typed_broadcast
from penstock.common._typeinfo.base import identity
from penstock.errors import AbsentAttributeError, StateDescriptorError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._api.state.descriptors import StateDescriptor
    from penstock._api.state.kinds import BroadcastState
    from penstock._engine.operators.base import EpochContext, OperatorContext
    from penstock._engine.operators.batch import RowBatch
    from penstock._engine.operators.context import EngineTimerService, KeyedTimerService
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.state.key_context import KeyContext
    from penstock._engine.state.operator_state import OperatorStateBackend, StoredBroadcastState

#: The broadcast input; the other one is 0.
BROADCAST_INPUT = 1

_UNTYPED = identity(MapStateDescriptor("").type_info)


#: Methods of a broadcast map that its read-only view does not have.
_WRITING = frozenset({"put", "put_all", "remove"})


class ReadOnlyBroadcastView(ReadOnlyBroadcastState[Any, Any]):
    """The read-only view of a broadcast map for the other input; `clear`, which every state has, raises.

    A write by one subtask's records would exist on that subtask alone.
    """

    def __init__(self, name: str, entries: dict[Any, Any]) -> None:
        self._name = name
        self._entries = entries

    def get(self, key: Any) -> Any:
        return self._entries.get(key)

    def contains(self, key: Any) -> bool:
        return key in self._entries

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._entries.items()

    def keys(self) -> Iterable[Any]:
        return self._entries.keys()

    def values(self) -> Iterable[Any]:
        return self._entries.values()

    def is_empty(self) -> bool:
        return not self._entries

    def clear(self) -> NoReturn:
        operation, reason = self._refusal("clear")
        raise UnsupportedOperationError(operation, reason)

    def __getattr__(self, name: str) -> NoReturn:
        if name in _WRITING:
            raise AbsentAttributeError(*self._refusal(name))
        raise AttributeError(name)

    def _refusal(self, method: str) -> tuple[str, str]:
        operation = f"{method}() on the broadcast state {self._name!r} outside of process_broadcast_element"
        return operation, "one subtask's records would change it on that subtask alone; let a broadcast record do it"


class TypedBroadcastView(ReadOnlyBroadcastView):
    """The read-only view of a map that converts keys to the declared type to look them up."""

    def __init__(self, name: str, entries: dict[Any, Any], held: BroadcastState[Any, Any]) -> None:
        super().__init__(name, entries)
        self._held = held

    def get(self, key: Any) -> Any:
        return self._held.get(key)

    def contains(self, key: Any) -> bool:
        return self._held.contains(key)


class BroadcastStates:
    """The broadcast maps of an operator, by the descriptors of the broadcast stream."""

    def __init__(self, state: OperatorStateBackend, descriptors: Iterable[MapStateDescriptor], operator: str) -> None:
        stored = {descriptor.name: state.broadcast_state(descriptor.name) for descriptor in descriptors}
        self._descriptors = {descriptor.name: descriptor for descriptor in descriptors}
        #: The descriptors that functions have asked with, by their names: a function has a copy of its own.
        self._asked: dict[str, MapStateDescriptor] = {}
        self._writable: dict[str, BroadcastState[Any, Any]] = {
            name: typed_broadcast(found, self._descriptors[name], operator) for name, found in stored.items()
        }
        self._read_only = {name: _view(name, found, self._writable[name]) for name, found in stored.items()}

    def writable(self, descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return the map for the broadcast input."""
        self._check(descriptor)
        return self._writable[descriptor.name]

    def read_only(self, descriptor: MapStateDescriptor) -> ReadOnlyBroadcastView:
        """Return the map for the other input; asked for each record."""
        name = descriptor.name
        if self._asked.get(name) is not descriptor:
            self._check(descriptor)
        return self._read_only[name]

    def _check(self, descriptor: MapStateDescriptor) -> None:
        """Raise for a map that the broadcast stream does not have, or has with other types."""
        name = descriptor.name
        known = self._descriptors.get(name)
        if known is None:
            raise self._unknown(name)
        asked, own = descriptor.type_info, known.type_info
        if identity(asked) not in (identity(own), _UNTYPED):
            raise StateDescriptorError(name, f"broadcast {own}", f"broadcast {asked}")
        self._asked[name] = descriptor

    def _unknown(self, name: str) -> UnsupportedOperationError:
        known = ", ".join(map(repr, self._writable))
        reason = f"the stream was broadcast with {known}; pass that descriptor to broadcast(...) as well"
        return UnsupportedOperationError(f"get_broadcast_state() of {name!r}", reason)


def _view(name: str, state: StoredBroadcastState, held: BroadcastState[Any, Any]) -> ReadOnlyBroadcastView:
    if held is state:
        return ReadOnlyBroadcastView(name, state.entries)
    return TypedBroadcastView(name, state.entries, held)


class _BroadcastRecordContext:
    """The current record, moved from one to the next."""

    def __init__(self, timers: EngineTimerService, states: BroadcastStates) -> None:
        self._timers = timers
        self._states = states
        self.at = NO_TIMESTAMP

    def timestamp(self) -> int:
        return self.at

    def current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        return self._timers.watermark


class NonBroadcastContext(_BroadcastRecordContext, BroadcastProcessFunction.ReadOnlyContext):
    """The context of a record that is not broadcast."""

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastView:
        return self._states.read_only(state_descriptor)


class BroadcastContext(_BroadcastRecordContext, BroadcastProcessFunction.Context):
    """The context of a broadcast record."""

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        return self._states.writable(state_descriptor)


class KeyedNonBroadcastContext(KeyedRecordContext, KeyedBroadcastProcessFunction.OnTimerContext):
    """The context of a record that is not broadcast, or of a timer, with its key."""

    def __init__(self, timers: KeyedTimerService, key: KeyContext, states: BroadcastStates) -> None:
        super().__init__(timers, key)
        self._states = states

    def current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        return self._timers.watermark

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastView:
        return self._states.read_only(state_descriptor)


class KeyedBroadcastContext(_BroadcastRecordContext, KeyedBroadcastProcessFunction.Context):
    """The context of a broadcast record that is connected to a keyed stream."""

    def __init__(self, operator: KeyedBroadcastProcessOperator) -> None:
        super().__init__(operator.timers, operator.states)
        self._operator = operator

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        return self._states.writable(state_descriptor)

    def apply_to_keyed_state(self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], object]) -> None:
        self._operator.apply_to_keyed_state(state_descriptor, getattr(function, "process", function))


class BroadcastProcessOperator(ProcessOperator):
    """A BroadcastProcessFunction.

    Args:
        function: The function.
        descriptors: The descriptors of the broadcast maps.
    """

    methods: ClassVar = ("process_element", "process_broadcast_element")

    def __init__(self, function: Any, descriptors: tuple[MapStateDescriptor, ...]) -> None:
        super().__init__(function)
        self._descriptors = descriptors
        self._contexts: list[Any] = []

    def open_functions(self, epoch: EpochContext) -> None:
        states = BroadcastStates(self.operator_state, self._descriptors, self.context.operator_name)
        self._contexts = [NonBroadcastContext(self.timers, states), BroadcastContext(self.timers, states)]
        super().open_functions(epoch)

    def record_context(self, input_index: int) -> Any:
        return self._contexts[input_index]


class KeyedBroadcastProcessOperator(KeyedProcessOperator):
    """A KeyedBroadcastProcessFunction.

    Args:
        function: The function.
        key_selector: The key selector of the input that is not broadcast.
        descriptors: The descriptors of the broadcast maps.
    """

    methods: ClassVar = ("process_element", "process_broadcast_element")

    def __init__(self, function: Any, key_selector: Any, descriptors: tuple[MapStateDescriptor, ...]) -> None:
        super().__init__(function, key_selector)
        self._descriptors = descriptors
        self.states: BroadcastStates
        self._runtime_context: EngineRuntimeContext

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._runtime_context = EngineRuntimeContext(context, self.store, self.key)

    def runtime_context(self) -> EngineRuntimeContext:
        return self._runtime_context

    def open_functions(self, epoch: EpochContext) -> None:
        self.states = BroadcastStates(self.operator_state, self._descriptors, self.context.operator_name)
        super().open_functions(epoch)

    def record_context(self) -> Any:
        return KeyedNonBroadcastContext(self.timers, self.key, self.states)

    def process_run(self, batch: RowBatch, start: int, stop: int, input_index: int, out: SideOutputs) -> None:
        if input_index != BROADCAST_INPUT:
            super().process_run(batch, start, stop, input_index, out)
            return
        self.key.leave()
        turns = zip(batch.stamps(start, stop), self.iterate(batch.records[start:stop]), strict=True)
        self.loops.process(self.calls[BROADCAST_INPUT], turns, KeyedBroadcastContext(self), out)

    def apply_to_keyed_state(self, descriptor: StateDescriptor, function: Callable[[Any, Any], object]) -> None:
        """Call a function for each key that has a value in a state."""
        state = self._runtime_context.state_of(descriptor)
        pane, key = self.store.table(descriptor.get_name()).pane(), self.key
        for key.normal, key.key in present_keys(pane):
            self.store.free_memory_if_full()
            function(key.key, state)
        key.leave()
