"""How records are folded into a window of a key: to a reduced record, an accumulator, or the list of all records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from penstock._api.functions.held import method_and_type
from penstock._api.functions.wrapping import unwrapped
from penstock._engine.operators.loops import Loops
from penstock._engine.state.table import ABSENT, MISSING, Pane
from penstock.common.copies import copy_if_mutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._engine.protocol.keys import NormalKey

#: The table of the contents of windows.
CONTENTS: Final = "window-contents"


class PaneStrategy(ABC):
    """Folds records into panes."""

    #: The kind of the state in checkpoints.
    kind: str
    #: Whether a function of the user's gets each record as it is added; else all records are kept.
    folds = True
    #: Whether `folded` accepts zero records.
    folds_nothing = True

    def __init__(self, function: Any) -> None:
        self.function = function

    @property
    def get_result(self) -> Callable[[Any], Any] | None:
        """What makes the result of contents; None where they are the result."""
        return None

    @abstractmethod
    def fold_all(self, pane: Pane, keys: list[Any], records: Iterator[Any]) -> None:
        """Fold records into rows that are noted as changed; takes as many from the iterator as there are keys."""

    def add_all(self, pane: Pane, keys: list[NormalKey], records: Iterator[Any]) -> None:
        """Fold records into one pane; takes as many from the iterator as there are keys."""
        self.fold_all(pane, keys, records)
        pane.dirty.update(keys)

    @abstractmethod
    def add(self, pane: Pane, key: Any, value: Any) -> None:
        """Fold one record into a pane."""

    @abstractmethod
    def merged(self, held: Any, more: Any) -> Any:
        """Return the merged contents of two windows of a key."""

    @property
    def joins(self) -> bool:
        """Whether the contents of slices can be joined to those of a window."""
        return True

    def joined(self, parts: list[Any]) -> Any:
        """Return the contents of a window whose slices have these contents; a value of its own."""
        return reduce(self.merged, map(copy_if_mutable, parts))

    @abstractmethod
    def folded(self, records: list[Any]) -> Any:
        """Return the contents of a window with these records."""

    def add_each(self, panes: list[Pane], keys: list[NormalKey], records: Iterator[Any]) -> None:
        """Fold each record into a pane of its own; runs of one pane are folded at once."""
        start, count = 0, len(panes)
        while start < count:
            stop = start + 1
            while stop < count and panes[stop] is panes[start]:
                stop += 1
            self.add_all(panes[start], keys[start:stop], records)
            start = stop


class ReducePanes(PaneStrategy):
    """One record per key."""

    kind = "window-reduce"
    folds_nothing = False

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._loops = Loops()

    def fold_all(self, pane: Pane, keys: list[Any], records: Iterator[Any]) -> None:
        call, held = method_and_type(self.function, "reduce")
        self._loops.fold(call, records, keys, (pane.hot, pane.load), held=held)

    def add(self, pane: Pane, key: Any, value: Any) -> None:
        before = _held(pane, key)
        pane.hot[key] = copy_if_mutable(
            value if before is ABSENT else getattr(self.function, "reduce", self.function)(before, value)
        )
        pane.dirty.add(key)

    def merged(self, held: Any, more: Any) -> Any:
        return copy_if_mutable(getattr(self.function, "reduce", self.function)(held, more))

    @property
    def joins(self) -> bool:
        return getattr(unwrapped(self.function), "combinable", True)

    def folded(self, records: list[Any]) -> Any:
        return reduce(self.merged, records)


class AggregatePanes(PaneStrategy):
    """One accumulator per key."""

    kind = "window-aggregate"

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._loops = Loops()

    @property
    def get_result(self) -> Callable[[Any], Any] | None:
        return self.function.get_result

    def fold_all(self, pane: Pane, keys: list[Any], records: Iterator[Any]) -> None:
        add, held = method_and_type(self.function, "add")
        self._loops.aggregate(add, records, keys, (pane.hot, pane.load), self.function.create_accumulator, held=held)

    def add(self, pane: Pane, key: Any, value: Any) -> None:
        function, before = self.function, _held(pane, key)
        if before is ABSENT:
            before = copy_if_mutable(function.create_accumulator())
        after = function.add(value, before)
        pane.hot[key] = after if after is before else copy_if_mutable(after)
        pane.dirty.add(key)

    def merged(self, held: Any, more: Any) -> Any:
        return copy_if_mutable(self.function.merge(held, more))

    @property
    def joins(self) -> bool:
        return getattr(unwrapped(self.function), "combinable", False)

    def folded(self, records: list[Any]) -> Any:
        function = self.function
        return reduce(
            lambda held, record: function.add(record, held), records, copy_if_mutable(function.create_accumulator())
        )


class ElementPanes(PaneStrategy):
    """All records of a key, in the order of their arrival."""

    kind = "window-elements"
    folds = False

    def fold_all(self, pane: Pane, keys: list[Any], records: Iterator[Any]) -> None:
        hot, load = pane.hot, pane.load
        get = hot.get
        for key, value in zip(keys, records, strict=False):
            elements = get(key, MISSING)
            if elements is MISSING:
                elements = load(key)
            if elements is ABSENT:
                hot[key] = [value]
            else:
                elements.append(value)
                hot[key] = elements

    def add(self, pane: Pane, key: Any, value: Any) -> None:
        before = _held(pane, key)
        elements: list[Any] = [] if before is ABSENT else before
        elements.append(value)
        pane.hot[key] = elements
        pane.dirty.add(key)

    def merged(self, held: list[Any], more: list[Any]) -> list[Any]:
        return [*held, *more]

    def joined(self, parts: list[list[Any]]) -> list[Any]:
        return [copy_if_mutable(record) for part in parts for record in part]

    def folded(self, records: list[Any]) -> list[Any]:
        return records


def _held(pane: Pane, key: Any) -> Any:
    """Return the contents of a key, ABSENT for none."""
    value = pane.hot.get(key, MISSING)
    return pane.load(key) if value is MISSING else value
