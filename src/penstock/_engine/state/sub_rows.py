"""The index of the rows of single keys in a pane's memory, and the keys that were cleared.

It holds all rows of `Pane.hot` whose address is more than a key, by key and namespace. `key_rows` iterates and clears
the rows of a key with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock._engine.state.rows import owner_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._engine.state.rows import Address, Composite, Owner


class SubRows:
    """The addresses in the memory of one pane, key by key.

    Args:
        addresses: The rows in memory.
    """

    __slots__ = ("_under", "cleared")

    def __init__(self, addresses: Iterable[Address]) -> None:
        #: A key with one row, the usual case, has the row itself in place of a set: half the memory.
        self._under: dict[Owner, Composite | set[Composite]] = {}
        #: Keys that were cleared, whose stored rows do not count, and whether the running epoch cleared them.
        self.cleared: dict[Owner, bool] = {}
        self.index(addresses)

    def __iter__(self) -> Iterator[Owner]:
        """Iterate the keys and namespaces that have rows in memory, also deleted ones."""
        return iter(self._under)

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

    def take_out_all(self, owner: Owner) -> None:
        """Remove all rows of a key and namespace from the index."""
        self._under.pop(owner, None)

    def in_memory(self, owner: Owner) -> list[Composite]:
        """Return the addresses in memory of a key and namespace, also of deleted rows."""
        found = self._under.get(owner)
        if found is None:
            return []
        return list(found) if type(found) is set else [cast("Composite", found)]

    def index(self, addresses: Iterable[Address]) -> None:
        """Build the index from the rows in memory."""
        self._under.clear()
        for address in addresses:
            if type(address) is tuple:
                self.note(address)

    def hides(self, address: Address) -> bool:
        """Return whether a stored row does not count, because its key was cleared."""
        return bool(self.cleared) and owner_at(address) in self.cleared

    def forget(self) -> None:
        """Forget all rows and marks."""
        self._under.clear()
        self.cleared.clear()
