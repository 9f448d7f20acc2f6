"""The rows of single keys: iterates and clears the rows of one key without touching the rest of the pane.

Stored rows of one key and namespace are adjacent. Rows in memory have an index by key and namespace: it holds all rows
of `Pane.hot` whose address is more than a key. Clearing a key sets one mark for all of its rows, however many there
are: its stored rows are void from then on, and only rows that are written later count.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, Any, cast

from penstock._engine.state.rows import owner_at

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from penstock._engine.state.rows import Address, Composite, Owner, Row
    from penstock._engine.state.table import CommittedVersion, Pane


class SubRows:
    """The rows of one pane, key by key."""

    __slots__ = ("_base", "_pane", "_under", "cleared")

    def __init__(self, pane: Pane, base: CommittedVersion) -> None:
        self._pane = pane
        self._base = base
        #: A key with one row, the usual case, has the row itself in place of a set: half the memory.
        self._under: dict[Owner, Composite | set[Composite]] = {}
        #: Keys whose stored rows are void, and whether the running epoch cleared them.
        self.cleared: dict[Owner, bool] = {}
        self.index(pane.hot)

    def note(self, address: Composite) -> None:
        """Add a row in memory to the index."""
        owner = address[0], address[1]
        found: Any = self._under.get(owner)
        if found is None:
            self._under[owner] = address
        elif type(found) is set:
            found.add(address)  # pyright: ignore[reportUnknownMemberType]
        elif found != address:
            self._under[owner] = {found, address}  # pyright: ignore[reportUnknownArgumentType]

    def take_out(self, address: Composite) -> None:
        """Remove a row that is in memory no more from the index."""
        owner = address[0], address[1]
        found = self._under.get(owner)
        if type(found) is set:
            found.discard(address)
            if not found:
                del self._under[owner]
        elif found == address:
            del self._under[owner]

    def in_memory(self, owner: Owner) -> Collection[Composite]:
        """Return the addresses in memory of a key and namespace, also of deleted rows; not to be kept."""
        found = self._under.get(owner)
        if found is None:
            return ()
        return found if type(found) is set else (cast("Composite", found),)

    def index(self, addresses: Iterable[Address]) -> None:
        """Build the index from the rows in memory."""
        self._under.clear()
        for address in addresses:
            if type(address) is tuple:
                self.note(address)

    def rows(self, owner: Owner) -> Iterator[Row]:
        """Iterate the present rows of a key and namespace as of now.

        Meanwhile rows may be written and evicted: maps of any size are read in parts.
        """
        known = self._known(owner)
        yield from self._pane.rows_in_memory(known)
        if self._pane.is_below and owner not in self.cleared:
            yield from self._base.scan_under(self._pane, owner, set(known))

    def ordered_rows(self, owner: Owner) -> Callable[[], Iterator[Row]]:
        """Return a function that iterates the present rows of a key and namespace by their sub-keys, which are numbers.

        Each call iterates the rows as of now, whatever is written meanwhile.
        """
        known = self._known(owner)
        above = sorted(self._pane.rows_in_memory(known), key=_number)
        if not self._pane.is_below or owner in self.cleared:
            return lambda: iter(above)
        hidden = set(known)
        return lambda: merge(above, self._base.scan_under(self._pane, owner, hidden), key=_number)

    def first_rows(self) -> Iterator[Row]:
        """Iterate one row of each key and namespace that has rows."""
        in_memory = list(self._under)
        for owner in in_memory:
            yield from self._first(owner)
        known = set(in_memory)
        if self._pane.is_below:
            for owner in self._base.owners(self._pane):
                if owner not in known:
                    yield from self._first(owner)

    def _first(self, owner: Owner) -> Iterator[Row]:
        row = next(self.rows(owner), None)
        if row is not None:
            yield row

    def clear(self, owner: Owner, *, unsaved: bool = True) -> None:
        """Delete all rows of a key and namespace.

        Args:
            owner: The key and the namespace.
            unsaved: Whether the running epoch clears them; False while files of earlier epochs are read.
        """
        pane = self._pane
        rows = self._known(owner)
        if pane.stored or owner in self.cleared or not unsaved or any(address in pane.pending for address in rows):
            self.cleared[owner] = unsaved
        self._under.pop(owner, None)
        for address in rows:
            del pane.hot[address]
            pane.dirty.discard(address)
            pane.fresh.discard(address)
            pane.pending.discard(address)
            pane.originals.pop(address, None)
            pane.stamps.pop(address, None)

    def hides(self, address: Address) -> bool:
        """Return whether a stored row is void, because its key was cleared."""
        return bool(self.cleared) and owner_at(address) in self.cleared

    def forget(self) -> None:
        """Forget all rows and marks."""
        self._under.clear()
        self.cleared.clear()

    def _known(self, owner: Owner) -> list[Composite]:
        found = self._under.get(owner)
        if found is None:
            return []
        return list(found) if type(found) is set else [cast("Composite", found)]


def _number(row: Row) -> Any:
    """Return the sub-key of a row."""
    return cast("Composite", row[0])[2]
