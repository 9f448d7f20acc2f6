"""The results of a fired window: the values of its panes, or the results of the user's window function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from penstock._api.functions.windows import ProcessAllWindowFunction, ProcessWindowFunction, WindowFunction
from penstock._api.functions.wrapping import unwrapped
from penstock._api.windows.window import TimeWindow
from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.state.key_context import KeyContext
from penstock._engine.state.kinds.kind import StateScope
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._api.windows.window import Window
    from penstock._engine.operators.base import OperatorContext
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.operators.windows.window_namespaces import WindowNamespaces
    from penstock._engine.operators.windows.window_strategy import PaneStrategy
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.keyed_state import KeyedState
    from penstock._engine.state.table import Table

_NO_CLEAR: Final = cast("Any", ProcessWindowFunction).clear
_NO_CLEAR_OF_ALL: Final = cast("Any", ProcessAllWindowFunction).clear

#: The content of a pane for one key: normal key, key and value.
Entry: TypeAlias = "tuple[NormalKey, Any, Any]"
#: Makes the context of window functions.
MakeContext: TypeAlias = "Callable[[OperatorContext, KeyedState], WindowContext]"


class WindowResults:
    """The results of a pane without a window function: each value, or its `get_result`."""

    clears = False
    #: Whether the results depend on the window, so that `begin` has to be called.
    takes_window = False

    def __init__(self, strategy: PaneStrategy) -> None:
        self._result = strategy.get_result

    def prepare(self, context: OperatorContext, store: KeyedState) -> tuple[Any, EngineRuntimeContext] | None:
        """Prepare; return the user's window function and its runtime context, None without a function."""
        return None

    def begin(self, window: Window, watermark: int) -> None:
        """Turn to a window."""

    def leave_keys(self) -> None:
        """Unset the current key."""

    def emit(self, entries: Iterable[Entry], out: SideOutputs, timestamp: int) -> None:
        """Emit the results of (normal key, key, value) entries, all with one timestamp."""
        result, given = self._result, out.given
        results = [given(value if result is None else result(value)) for _, _, value in entries]
        out.main.records.extend(results)
        out.main.timestamps.extend([timestamp] * len(results))

    def emit_one(self, entry: Entry, out: SideOutputs, timestamp: int) -> None:
        """Emit the result of one entry."""
        value, main = entry[2], out.main
        main.records.append(out.given(value if self._result is None else self._result(value)))
        main.timestamps.append(timestamp)

    def clear(self, entries: Iterable[Entry]) -> None:
        """End a window for the keys of these entries."""


class FunctionResults(WindowResults):
    """The results of a WindowFunction or a ProcessWindowFunction."""

    takes_window = True

    def __init__(self, strategy: PaneStrategy, window_function: Any, context: MakeContext) -> None:
        super().__init__(strategy)
        self._make_context = context
        self._many = not strategy.folds
        self._function = window_function
        # Of the program's function: it may be wrapped.
        own_clear = getattr(unwrapped(window_function).__class__, "clear", None)
        takes_windows = isinstance(window_function, WindowFunction)
        # Of a function without a context, a method of that name is the program's own.
        self.clears = not takes_windows and own_clear not in (None, _NO_CLEAR, _NO_CLEAR_OF_ALL)
        self._apply: Any = cast("Any", window_function).apply if takes_windows else None
        self._context: WindowContext

    def prepare(self, context: OperatorContext, store: KeyedState) -> tuple[Any, EngineRuntimeContext]:
        self._context = self._make_context(context, store)
        return self._function, EngineRuntimeContext(context, store, self._context.key)

    def begin(self, window: Window, watermark: int) -> None:
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
                out.function = self._function
                out.extend(produced, timestamp)

    def emit_one(self, entry: Entry, out: SideOutputs, timestamp: int) -> None:
        self.emit((entry,), out, timestamp)

    def clear(self, entries: Iterable[Entry]) -> None:
        for normal, key, _ in entries:
            self._context.turn_to(normal, key)
            self._function.clear(self._context)


class WindowContext(ProcessWindowFunction.Context[Any]):
    """The context of the current window and key."""

    def __init__(self, context: OperatorContext, store: KeyedState) -> None:
        self._clock = context.clock
        self.operator_name = context.operator_name
        self._runtime = context
        self._store = store
        self.key = KeyContext()
        self.at: Any = TimeWindow(0, 0)
        self.watermark = 0

    def turn_to(self, normal: NormalKey, key: Any) -> None:
        """Make a key the current one."""
        self._store.free_memory_if_full()
        self.key.normal, self.key.key = normal, key

    def window(self) -> Any:
        return self.at

    def current_processing_time(self) -> int:
        return self._clock()

    def current_watermark(self) -> int:
        return self.watermark

    def window_state(self) -> EngineRuntimeContext:
        return _WindowRuntimeContext(self, self._runtime, self._store)

    def global_state(self) -> EngineRuntimeContext:
        return EngineRuntimeContext(self._runtime, self._store, self.key)


class _WindowRuntimeContext(EngineRuntimeContext):
    """State of the current key in the current window."""

    def __init__(self, window: WindowContext, context: OperatorContext, store: KeyedState) -> None:
        super().__init__(context, store, window.key)
        self._window = window

    def _scope(self, table: Table, key: KeyContext) -> StateScope:
        return StateScope(table, key, self.get_task_name(), (self._window.at.start, self._window.at.end))


class KeyedWindowContext(WindowContext):
    """The context of windows whose rows have the window in their address."""

    def __init__(self, context: OperatorContext, store: KeyedState, namespaces: WindowNamespaces) -> None:
        super().__init__(context, store)
        self.namespaces = namespaces

    def window_state(self) -> EngineRuntimeContext:
        return _KeyedWindowState(self, self._runtime, self._store)


class _KeyedWindowState(EngineRuntimeContext):
    """State of the current key in the current window."""

    def __init__(self, window: KeyedWindowContext, context: OperatorContext, store: KeyedState) -> None:
        row = KeyContext()
        row.key, row.normal = window.key.key, (window.key.normal, window.namespaces.of(window.at), None)
        super().__init__(context, store, row)

    def _table(self, name: str, kind: str) -> Table:
        # The prefix separates it from the state that all windows of a key share, which may have the same name.
        return super()._table(f"window-{name}", kind)


class MergingWindowContext(WindowContext):
    """The context of merging windows, which have no window state."""

    def window_state(self) -> EngineRuntimeContext:
        reason = "windows that merge have no state of their own, as in Flink; use global_state() of the context"
        raise UnsupportedOperationError("window_state()", reason)


def window_results(strategy: PaneStrategy, window_function: Any, context: MakeContext = WindowContext) -> WindowResults:
    """Return the results of panes, with or without a window function."""
    if window_function is None:
        return WindowResults(strategy)
    return FunctionResults(strategy, window_function, context)
