"""The results of a fired window: the values of its panes, or what the user's window function returns for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

from penstock._api.functions.windows import ProcessWindowFunction, WindowFunction
from penstock._api.window import TimeWindow
from penstock._engine.operators.context import EngineRuntimeContext, refuse_time_to_live
from penstock._engine.state.declared import declared
from penstock._engine.state.value_state import KeyContext, StoredValueState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._api.state.descriptors import StateDescriptor
    from penstock._engine.operators.base import OperatorContext
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.memory_store import MemoryStore

#: What a pane holds of one key: normal key, key and value.
Entry: TypeAlias = "tuple[NormalKey, Any, Any]"


class WindowResults:
    """The results of a pane without a window function: what `get_result` makes of each value."""

    clears = False

    def __init__(self, function: Any, *, aggregated: bool) -> None:
        self._result = function.get_result if aggregated else None

    def prepare(self, context: OperatorContext, store: MemoryStore) -> tuple[Any, EngineRuntimeContext] | None:
        """Get ready; return the function of the user's that is to be opened, and what with."""
        return None

    def begin(self, window: TimeWindow, watermark: int) -> None:
        """Turn to a window."""

    def leave_keys(self) -> None:
        """Unset the current key."""

    def emit(self, entries: Iterable[Entry], out: SideOutputs, timestamp: int) -> None:
        """Emit the results of (normal key, key, value) entries, all with one timestamp."""
        result, given = self._result, out.given
        results = [given(value if result is None else result(value)) for _, _, value in entries]
        out.main.records.extend(results)
        out.main.timestamps.extend([timestamp] * len(results))

    def clear(self, entries: Iterable[Entry]) -> None:
        """End a window for the keys of these entries."""


class FunctionResults(WindowResults):
    """The results of a WindowFunction or a ProcessWindowFunction."""

    def __init__(self, strategy: str, function: Any, window_function: Any) -> None:
        super().__init__(function, aggregated=strategy == "aggregate")
        self._many = strategy == "elements"
        self._function = window_function
        own_clear = getattr(window_function.__class__, "clear", None)
        self.clears = own_clear is not None and own_clear is not cast("Any", ProcessWindowFunction).clear
        takes_windows = isinstance(window_function, WindowFunction)
        self._apply: Any = cast("Any", window_function).apply if takes_windows else None
        self._context: WindowContext

    def prepare(self, context: OperatorContext, store: MemoryStore) -> tuple[Any, EngineRuntimeContext]:
        self._context = WindowContext(context, store)
        return self._function, EngineRuntimeContext(context, store, self._context.key)

    def begin(self, window: TimeWindow, watermark: int) -> None:
        self._context.at, self._context.watermark = window, watermark

    def leave_keys(self) -> None:
        self._context.key.leave()

    def emit(self, entries: Iterable[Entry], out: SideOutputs, timestamp: int) -> None:
        context, apply, result = self._context, self._apply, self._result
        for normal, key, value in entries:
            context.turn_to(normal, key)
            elements = value if self._many else [value if result is None else result(value)]
            if apply is not None:
                produced = apply(key, context.at, elements)
            else:
                produced = self._function.process(key, context, elements)
            if produced is not None:
                out.extend(produced, timestamp)

    def clear(self, entries: Iterable[Entry]) -> None:
        for normal, key, _ in entries:
            self._context.turn_to(normal, key)
            self._function.clear(self._context)


class WindowContext(ProcessWindowFunction.Context[TimeWindow]):
    """The context of the current window and key."""

    def __init__(self, context: OperatorContext, store: MemoryStore) -> None:
        self._clock = context.clock
        self.operator_name = context.operator_name
        self._runtime = context
        self._store = store
        self.key = KeyContext()
        self.at = TimeWindow(0, 0)
        self.watermark = 0

    def turn_to(self, normal: NormalKey, key: Any) -> None:
        """Make a key the current one."""
        self._store.turn_to(normal)
        self.key.normal, self.key.key = normal, key

    def window(self) -> TimeWindow:
        return self.at

    def current_processing_time(self) -> int:
        return self._clock()

    def current_watermark(self) -> int:
        return self.watermark

    def window_state(self) -> EngineRuntimeContext:
        return _WindowRuntimeContext(self)

    def global_state(self) -> EngineRuntimeContext:
        return EngineRuntimeContext(self._runtime, self._store, self.key)

    def stored_for_window(self, descriptor: StateDescriptor, kind: str) -> StoredValueState:
        """Return a value of the current key in the current window."""
        refuse_time_to_live(descriptor)
        table = self._store.table(descriptor.get_name(), kind=declared(kind, descriptor.type_info))
        return StoredValueState(table, self.key, (self.at.start, self.at.end))


class _WindowRuntimeContext(EngineRuntimeContext):
    """State of the current key in the current window."""

    def __init__(self, context: WindowContext) -> None:
        self._window = context

    def get_task_name(self) -> str:
        return self._window.operator_name

    def _stored(self, operation: str, descriptor: StateDescriptor, kind: str) -> StoredValueState:
        return self._window.stored_for_window(descriptor, kind)


def window_results(strategy: str, function: Any, window_function: Any) -> WindowResults:
    """Return what turns panes into results, with or without a window function."""
    if window_function is None:
        return WindowResults(function, aggregated=strategy == "aggregate")
    return FunctionResults(strategy, function, window_function)
