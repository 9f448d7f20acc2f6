"""The contents of windows of single keys: one row for each key and window."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._api.windows.evictors import TimestampedValue
from penstock._engine.state.rows import IN_ADDRESS
from penstock._engine.state.table import ABSENT, MISSING
from penstock.common.copies import copy_if_mutable
from penstock.common.user_values import short_repr
from penstock.errors import FunctionResultError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._api.windows.evictors import Evictor
    from penstock._api.windows.window import Window
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.operators.windows.trigger_context import TriggerState
    from penstock._engine.operators.windows.window_function import WindowResults
    from penstock._engine.operators.windows.window_strategy import PaneStrategy
    from penstock._engine.state.rows import Composite
    from penstock._engine.state.table import Pane

#: The kind of windows with an evictor: lists of pairs of record and timestamp.
_EVICTED: Final = "window-evicted"


class WindowContents:
    """The contents of windows: one reduced value, an accumulator, or all records."""

    def __init__(self, strategy: PaneStrategy) -> None:
        self.strategy = strategy
        #: Whether a function of the user's folds each record as it is added.
        self.folds = strategy.folds
        self.kind = IN_ADDRESS + strategy.kind
        self.pane: Pane
        self.state: TriggerState

    def open(self, pane: Pane, state: TriggerState) -> None:
        """Set the pane of the rows, and the context of evictors."""
        self.pane = pane
        self.state = state

    def add(self, address: Composite, key: Any, value: Any, stamp: int) -> None:
        """Add a record to a window."""
        self.strategy.add(self.pane, address, value)
        self.pane.remember(address, key)

    def add_all(self, addresses: list[Composite], records: Iterator[Any]) -> None:
        """Add records to windows that are noted as changed; takes as many from the iterator as there are windows."""
        if addresses:
            self.strategy.fold_all(self.pane, addresses, records)

    def remove(self, address: Composite) -> None:
        """Delete the contents of a window."""
        self.put(address, ABSENT)

    def merge(self, address: Composite, others: list[Composite]) -> None:
        """Add the contents of other windows of the key to a window."""
        for other in others:
            held, more = self.row(address), self.row(other)
            if more is not ABSENT:
                self.put(address, more if held is ABSENT else self.strategy.merged(held, more))
                if other in self.pane.originals:
                    self.pane.originals[address] = self.pane.originals[other]
                self.put(other, ABSENT)

    def fire(self, address: Composite, window: Window, key: Any, results: WindowResults, out: SideOutputs) -> None:
        """Emit the result of a window, which may stay open."""
        value = self.row(address)
        if value is not ABSENT:
            results.emit([(address[0], key, copy_if_mutable(value))], out, window.max_timestamp())

    def row(self, address: Composite) -> Any:
        """Return the contents of a window; ABSENT for none."""
        value = self.pane.hot.get(address, MISSING)
        return self.pane.load(address) if value is MISSING else value

    def put(self, address: Composite, value: Any) -> None:
        """Set the contents of a window."""
        self.pane.hot[address] = value
        self.pane.dirty.add(address)


class EvictedContents(WindowContents):
    """Keeps all records of each window with their timestamps; the evictor selects the records of a result."""

    def __init__(self, strategy: PaneStrategy, evictor: Evictor[Any, Any]) -> None:
        super().__init__(strategy)
        self.folds = False
        self.kind = IN_ADDRESS + _EVICTED
        self._evictor = evictor

    def add(self, address: Composite, key: Any, value: Any, stamp: int) -> None:
        before = self.row(address)
        held: list[Any] = [] if before is ABSENT else before
        held.append((value, stamp))
        self.put(address, held)
        self.pane.remember(address, key)

    def merge(self, address: Composite, others: list[Composite]) -> None:
        for other in others:
            held, more = self.row(address), self.row(other)
            if more is not ABSENT:
                self.put(address, more if held is ABSENT else [*held, *more])
                self.put(other, ABSENT)

    def fire(self, address: Composite, window: Window, key: Any, results: WindowResults, out: SideOutputs) -> None:
        held = self.row(address)
        if held is ABSENT:
            return
        elements = [TimestampedValue(value, stamp) for value, stamp in held]
        elements = self._left(self._evictor.evict_before, elements, window)
        if elements or self.strategy.folds_nothing:
            # Copies, so that changes by the functions do not show in the next result of the window.
            result = self.strategy.folded([copy_if_mutable(element.value) for element in elements])
            results.emit([(address[0], key, result)], out, window.max_timestamp())
        elements = self._left(self._evictor.evict_after, elements, window)
        self.put(address, [(element.value, element.timestamp) for element in elements] or ABSENT)

    def _left(self, evict: Callable[..., Any], elements: list[Any], window: Window) -> list[Any]:
        """Return the records that an evictor leaves in a window."""
        left: Any = evict(elements, len(elements), window, self.state)
        if isinstance(left, Iterable):
            left = list(cast("Iterable[Any]", left))
            if all(isinstance(one, TimestampedValue) for one in left):
                return left
        call = f"{evict.__name__}() of {type(self._evictor).__qualname__}"
        raise FunctionResultError(call, self.state.operator_name, short_repr(left), "the elements that stay")
