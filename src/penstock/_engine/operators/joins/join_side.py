"""One side of an interval join: the records of each key, in slices of time.

A slice is a pane of list state, so it is dropped as a whole, and nothing is kept for a single record: no timer, no row
that has to be deleted. A record stays until the watermark has passed what the last record of its slice can join.
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import heappop, heappush
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock._engine.state.kinds.kind import StateScope
from penstock._engine.state.kinds.lists import ListKind, StoredListState, whole_list
from penstock._engine.state.rows import holds_segments, segments_of
from penstock._engine.state.table import ABSENT, MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._engine.state.key_context import KeyContext
    from penstock._engine.state.keyed_state import KeyedState
    from penstock._engine.state.rows import Namespace
    from penstock._engine.state.table import Pane

#: A record as it is kept: its timestamp, the record, and whether it could be changed in place.
Item: TypeAlias = "tuple[int, Any, bool]"

#: Of an interval, a slice is this part: so much longer than it has to, a record stays at most.
_SLICES: Final = 4
#: Slices are not shorter: each has some objects of its own.
_SHORTEST_MS: Final = 250
#: Lists of up to so many items are in the order of time.
FEW: Final = 16
_TIME: Final = itemgetter(0)


def width_of(lower_ms: int, upper_ms: int) -> int:
    """Return the length of a slice in milliseconds.

    Args:
        lower_ms: The lower bound of the join.
        upper_ms: Its upper bound.

    Example:
        >>> width_of(-10_000, 10_000), width_of(0, 5)
        (5000, 250)
    """
    return max(_SHORTEST_MS, (upper_ms - lower_ms) // _SLICES)


class JoinSide:
    """The records of one side; made anew for each epoch, after the state has caught up.

    Args:
        store: The operator's store.
        name: The name of the state.
        key: The current key.
        width_ms: The length of a slice. Where the state has slices of another length, its records are moved.
        kept_ms: How long after its own time a record can be joined; negative where that ends before.
    """

    def __init__(self, store: KeyedState, name: str, key: KeyContext, width_ms: int, kept_ms: int) -> None:
        self._table = store.table(name, kind=ListKind.name, keep_keys=True)
        self._key = key
        self._width_ms = width_ms
        self._kept_ms = kept_ms
        #: Of a run of records: the panes of slices that were opened and found, by the number of the slice.
        self.opened: dict[int, Pane] = _Looked(self._open)
        self.found: dict[int, Pane | None] = _Looked(self._find)
        self._lists: dict[Namespace, StoredListState] = {}
        slices = [namespace for namespace in self._table.panes if namespace and not holds_segments(namespace)]
        #: The numbers of the slices that have records, the earliest one first.
        self._numbers = sorted({start // width_ms for start, _ in slices})
        for namespace in slices:
            if namespace != self._namespace(namespace[0] // width_ms):
                self._cut_anew(store, namespace)

    def begin_run(self) -> None:
        """Forget what was looked up for earlier records: slices may be gone since."""
        self.opened.clear()
        self.found.clear()
        self._lists.clear()

    def add(self, pane: Pane, item: Item) -> None:
        """Add a record of the current key to a slice."""
        normal = self._key.normal
        items: Any = pane.hot.get(normal, MISSING)
        if items is MISSING:
            items = pane.load(normal)
        kind = type(items)  # pyright: ignore[reportUnknownVariableType]
        if items is ABSENT:
            pane.hot[normal] = [item]
            pane.remember(normal, self._key.key)
        elif kind is list and len(items) < FEW:
            items.insert(bisect_right(items, item[0], key=_TIME), item)
        else:
            self._list(pane.namespace).add_all([item])
        pane.dirty.add(normal)

    def read(self, pane: Pane, items: Any, first: int, last: int) -> Sequence[Item]:
        """Return the records of the current key in a slice from one time to another, in the order of time.

        Args:
            pane: The slice.
            items: What memory has of the key: MISSING, or a long list.
            first: The earliest time.
            last: The latest time.
        """
        normal = self._key.normal
        if items is MISSING:
            items = pane.load(normal)
        if items is ABSENT:
            return ()
        items = whole_list(self._table, pane.namespace, normal, items)
        return sorted([item for item in items if first <= item[0] <= last], key=_TIME)

    def forget(self, watermark: int) -> None:
        """Drop the slices that no record can join which is not late."""
        while self._numbers and self._last(self._numbers[0]) + self._kept_ms < watermark:
            self._drop(self._namespace(heappop(self._numbers)))

    def _cut_anew(self, store: KeyedState, namespace: Namespace) -> None:
        """Move the records of a slice of another length, which a job with other bounds has made."""
        pane = self._table.pane(namespace)
        for normal, key, items in pane.entries():
            store.free_memory_if_full()
            self._key.key, self._key.normal = key, normal
            for item in whole_list(self._table, namespace, normal, items):
                self.add(self.opened[item[0] // self._width_ms], item)
        self._key.leave()
        self._drop(namespace)

    def _drop(self, namespace: Namespace) -> None:
        self._table.drop(namespace)
        self._table.drop(segments_of(namespace))

    def _open(self, number: int) -> Pane:
        namespace = self._namespace(number)
        if namespace not in self._table.panes:
            heappush(self._numbers, number)
        return self._table.pane(namespace)

    def _find(self, number: int) -> Pane | None:
        return self._table.panes.get(self._namespace(number))

    def _namespace(self, number: int) -> Namespace:
        """Return the namespace of a slice: its start and its end, between the first and the last time there is."""
        start = number * self._width_ms
        return max(start, MIN_WATERMARK), min(start + self._width_ms, MAX_WATERMARK)

    def _last(self, number: int) -> int:
        """Return the last time of a slice."""
        return min((number + 1) * self._width_ms - 1, MAX_WATERMARK)

    def _list(self, namespace: Namespace) -> StoredListState:
        state = self._lists.get(namespace)
        if state is None:
            state = self._lists[namespace] = StoredListState(StateScope(self._table, self._key, "", namespace))
        return state


class _Looked(dict[int, Any]):
    """What a function returns for numbers, asked once for each."""

    __slots__ = ("_look",)

    def __init__(self, look: Callable[[int], Any]) -> None:
        super().__init__()
        self._look = look

    def __missing__(self, number: int) -> Any:
        found = self[number] = self._look(number)
        return found
