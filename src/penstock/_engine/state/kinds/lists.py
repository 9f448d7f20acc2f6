"""List state over two panes: a short list is one row of its key; a long list, a row with the number of its *segments*.

Segments are rows of up to 128 items, numbered from 0, in a pane of their own (`rows.segments_of`). Adding to a list
rewrites its last segment where that is short or was already written in the same epoch, and otherwise adds a segment: an
epoch writes the items that it has added, and few or small ones beside them. Iteration reads a long list from the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from penstock._api.state.kinds import ListState, ListStateDescriptor
from penstock._engine.state.declared import bare
from penstock._engine.state.files import pickles
from penstock._engine.state.key_rows import clear_key, ordered_rows_of_key
from penstock._engine.state.kinds.kind import StateKind, StateScope
from penstock._engine.state.kinds.typed import typed_list
from penstock._engine.state.kinds.value import lasting_value_in
from penstock._engine.state.row_lives import RowLives
from penstock._engine.state.rows import owner_at, segments_of
from penstock._engine.state.table import ABSENT, MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock._engine.state.rows import Address, Composite, Row
    from penstock._engine.state.table import Pane, Table

#: Items of a row that an epoch may rewrite to add to it, and items of a row that it has already written.
_SHORT: Final = 16
_LONG: Final = 128
#: A row of more bytes is not rewritten to add to it, and is measured when it has so many items. Larger ones, of several
#: pages each, would be most of what an epoch writes, and LMDB searches long for pages that follow each other.
_LARGE_BYTES: Final = 2_000
_MEASURED_AT: Final = frozenset({2, 4, 8})


class ListKind(StateKind[ListStateDescriptor]):
    """One list per key."""

    name = "list"
    can_expire = True
    descriptor = ListStateDescriptor

    def state(self, descriptor: ListStateDescriptor, scope: StateScope) -> ListState[Any]:
        stored = ExpiringListState(scope) if scope.expires else StoredListState(scope)
        return typed_list(stored, descriptor, scope.operator)

    def merge(self, state: Any, others: list[Any]) -> None:
        for other in others:
            state.add_all(list(other.get()))


class StoredListState(ListState[Any]):
    """One list per key.

    Args:
        scope: The table, the current key and the namespace.
    """

    __slots__ = ("_dirty", "_head", "_hot", "_key", "_namespace", "_table")

    def __init__(self, scope: StateScope) -> None:
        #: Stores a list, or a tuple with the number of its segments.
        self._head = lasting_value_in(scope)
        pane = scope.table.pane(scope.namespace)
        # These stay the same objects for the life of the pane.
        self._dirty = pane.dirty
        self._hot = pane.hot
        self._key = scope.key
        self._table = scope.table
        self._namespace = segments_of(scope.namespace)

    # --------------------------------------------------------------------------------------------------------- reading

    def get(self) -> Iterable[Any]:
        head: Any = self._head.row()
        count = _segments(head)
        if count:
            return Segments(rows_of(self._pane, self._key.normal, count))
        # A copy: changing it does not change the state.
        return [] if head is ABSENT else list(head)

    @property
    def _pane(self) -> Pane:
        """The pane of the segments; the object may change between epochs."""
        return self._table.pane(self._namespace)

    # --------------------------------------------------------------------------------------------------------- writing

    def add(self, value: Any) -> None:
        normal = self._key.normal
        head = self._hot.get(normal)
        # Most often the row is a short list, and was written in this epoch: the item is all that there is to add.
        if type(head) is list and normal in self._dirty:
            items = cast("list[Any]", head)
            if len(items) < _LONG:
                items.append(value)
                return
        self.add_all([value])

    def add_all(self, values: list[Any]) -> None:
        values = list(values)
        if values:
            head: Any = self._head.row()
            if count := _segments(head):
                self._append(count, values)
            elif head is ABSENT:
                self._begin(values)
            elif len(head) + len(values) <= (_LONG if self._key.normal in self._dirty else _most_again(head)):
                head += values
                self._head.update(head)
            else:  # what is added does not join the items of the row, which may be large
                self._head.update((self._add_segments(self._add_segments(0, head), values),))

    def update(self, values: list[Any]) -> None:
        values = list(values)  # which may be what get() has returned
        self.clear()
        if values:
            self._begin(values)

    def clear(self) -> None:
        if _segments(self._head.row()):
            clear_key(self._pane, owner_at(self._key.normal))
        self._head.clear()

    def _begin(self, values: list[Any]) -> None:
        """Create the list of a key that has none."""
        if len(values) <= _LONG:
            self._head.update(list(values))
        else:
            self._append(0, values)

    def _append(self, count: int, values: list[Any]) -> None:
        """Add to a list of `count` segments."""
        if count:
            pane, address = self._pane, self._at(count - 1)
            last = pane.hot.get(address, MISSING)
            last = pane.load(address) if last is MISSING else last
            if last is not ABSENT and len(last) < (_LONG if address in pane.dirty else _most_again(last)):
                # A new list: an iteration over the old one does not see the added items.
                self._write(address, last + values[: _LONG - len(last)])
                values = values[_LONG - len(last) :]
        self._head.update((self._add_segments(count, values),))

    def _add_segments(self, count: int, values: list[Any]) -> int:
        """Write segments after the first `count`, and return the new number of segments."""
        for start in range(0, len(values), _LONG):
            self._write(self._at(count), values[start : start + _LONG])
            count += 1
        return count

    def _write(self, address: Composite, segment: list[Any]) -> None:
        pane = self._pane
        pane.put(address, segment)
        pane.dirty.add(address)

    def _at(self, number: int) -> Composite:
        return *owner_at(self._key.normal), number


class ExpiringListState(StoredListState):
    """One list per key whose items have a time to live: all items of a segment have one stamp.

    The row of the key has the newest stamp, so it expires with the last segment.
    """

    __slots__ = ("_head_lives",)

    def __init__(self, scope: StateScope) -> None:
        super().__init__(scope)
        self._head_lives = RowLives(scope.table.pane(scope.namespace))

    def get(self) -> Iterable[Any]:
        normal = self._key.normal
        head: Any = self._head.row()
        if head is ABSENT:
            return []
        count = _segments(head)
        if not count:
            found = self._head_lives.read(normal, head)
            return [] if found is ABSENT else list(found)
        pane, rows = self._pane, rows_of(self._pane, normal, count)
        self._head_lives.renewed_if_read(normal)
        now = self._head_lives.now()
        return Segments(lambda: RowLives(pane).reading(rows(), now))

    def clear(self) -> None:
        super().clear()
        self._head_lives.cleared(self._key.normal)

    def add(self, value: Any) -> None:
        self.add_all([value])

    def add_all(self, values: list[Any]) -> None:
        values = list(values)
        if not values:
            return
        normal, lives = self._key.normal, self._head_lives
        head: Any = self._head.row()
        if head is not ABSENT and lives.is_over(normal):
            self.clear()
            head = ABSENT
        if head is ABSENT:
            self._begin(values)
        elif count := _segments(head):
            self._append(count, values)
        elif normal in self._dirty and len(head) + len(values) <= _LONG and lives.stamp(normal) == lives.now():
            head += values
            self._head.update(head)
        else:
            self._append(self._add_segments(0, head, lives.stamp(normal)), values)
        lives.written(normal, at_least=True)

    def _begin(self, values: list[Any]) -> None:
        super()._begin(values)
        self._head_lives.written(self._key.normal)

    def _append(self, count: int, values: list[Any]) -> None:
        pane, now = self._pane, self._head_lives.now()
        address = self._at(count - 1)
        last = pane.hot.get(address, ABSENT)
        if last is not ABSENT and address in pane.dirty and pane.stamps.get(address) == now:
            space = _LONG - len(last)
            self._write(address, last + values[:space])
            values = values[space:]
        self._head.update((self._add_segments(count, values, now),))

    def _add_segments(self, count: int, values: list[Any], stamp: int | None = None) -> int:
        after, stamps = super()._add_segments(count, values), self._pane.stamps
        for number in range(count, after):
            if stamp is None:
                stamps.pop(self._at(number), None)
            else:
                stamps[self._at(number)] = stamp
        return after


class Segments:
    """The items of a long list as of the call of ``get``; iteration reads them from the store."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Callable[[], Iterator[Row]]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[Any]:
        for row in self._rows():
            yield from row[1]

    def __len__(self) -> int:
        return sum(len(row[1]) for row in self._rows())

    def __bool__(self) -> bool:
        return next(self._rows(), None) is not None


def rows_of(pane: Pane, address: Address, count: int) -> Callable[[], Iterator[Row]]:
    """Return a function that iterates the segments of a list.

    Args:
        pane: The pane of the segments.
        address: The row of the key.
        count: The number of segments; segments with higher numbers are left from an earlier list.
    """
    rows = ordered_rows_of_key(pane, owner_at(address))
    return lambda: (row for row in rows() if row[0][2] < count)  # pyright: ignore[reportIndexIssue, reportOperatorIssue, reportArgumentType]


def is_list(table: Table) -> bool:
    """Return whether a table holds list state."""
    return bare(table.kind) == ListKind.name


def as_held(kind: str, value: Any) -> Any:
    """Return a value as its row stores it: the value of list state becomes a list.

    Args:
        kind: The kind of the state.
        value: The value, or ABSENT.
    """
    return list(value) if bare(kind) == ListKind.name and value is not ABSENT else value


def whole_list(table: Table, namespace: tuple[int, ...], address: Address, head: Any) -> list[Any]:
    """Return all items of the list of a key.

    Args:
        table: The state.
        namespace: The namespace of the pane of the row.
        address: The row.
        head: Its value.
    """
    count = _segments(head)
    return list(Segments(rows_of(table.pane(segments_of(namespace)), address, count))) if count else head


def _most_again(items: list[Any]) -> int:
    """Return how many items a row of an earlier epoch may have that is rewritten to add to it."""
    is_large = len(items) in _MEASURED_AT and len(pickles.dump(items)) > _LARGE_BYTES
    return len(items) if is_large else _SHORT


def _segments(head: Any) -> int:
    """Return the number of segments of a list, given the row of its key; 0 where the row is absent or has the items."""
    return cast("tuple[int]", head)[0] if type(head) is tuple else 0
