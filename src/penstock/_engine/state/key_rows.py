"""The rows of single keys: iterates and clears the rows of one key without touching the rest of the pane.

Stored rows of one key and namespace are adjacent, and rows in memory have an index (`sub_rows`). Clearing a key sets
one mark for all of its rows, however many there are: its stored rows do not count from then on, but only rows
that are written later.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, Any, cast

from penstock._engine.protocol.key_values import key_value
from penstock._engine.state.rows import key_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.rows import Composite, Owner, Row
    from penstock._engine.state.table import Pane


def rows_of_key(pane: Pane, owner: Owner) -> Iterator[Row]:
    """Iterate the present rows of a key and namespace as of now.

    Meanwhile rows may be written and evicted: maps of any size are read in parts.
    """
    subs = pane.sub_rows()
    known = subs.in_memory(owner)
    yield from pane.rows_in_memory(known)
    if pane.is_below and owner not in subs.cleared:
        yield from pane.base.scan_under(pane, owner, set(known))


def ordered_rows_of_key(pane: Pane, owner: Owner) -> Callable[[], Iterator[Row]]:
    """Return a function that iterates the present rows of a key and namespace by their sub-keys, which are numbers.

    Each call iterates the rows as of now, whatever is written meanwhile.
    """
    subs = pane.sub_rows()
    known = subs.in_memory(owner)
    above = sorted(pane.rows_in_memory(known), key=_number)
    if not pane.is_below or owner in subs.cleared:
        return lambda: iter(above)
    hidden = set(known)
    return lambda: merge(above, pane.base.scan_under(pane, owner, hidden), key=_number)


def first_rows(pane: Pane) -> Iterator[Row]:
    """Iterate one row of each key and namespace that has rows."""
    in_memory = list(pane.sub_rows())
    for owner in in_memory:
        yield from _first(pane, owner)
    known = set(in_memory)
    if pane.is_below:
        for owner in pane.base.owners(pane):
            if owner not in known:
                yield from _first(pane, owner)


def _first(pane: Pane, owner: Owner) -> Iterator[Row]:
    row = next(rows_of_key(pane, owner), None)
    if row is not None:
        yield row


def present_keys(pane: Pane) -> Iterator[tuple[NormalKey, Any]]:
    """Iterate (normal key, key) of all keys that have a row; meanwhile rows may be written and evicted."""
    if pane.subs is None:
        for normal, key, _ in pane.entries():
            yield normal, key
        return
    for address, _, originals, _ in first_rows(pane):
        normal = key_at(address)
        key = originals and originals[0]
        yield normal, key_value(normal) if key is None else key


def clear_key(pane: Pane, owner: Owner, *, unsaved: bool = True) -> None:
    """Delete all rows of a key and namespace.

    Args:
        pane: The pane.
        owner: The key and the namespace.
        unsaved: Whether the running epoch clears them; False while files of earlier epochs are read.
    """
    subs = pane.sub_rows()
    rows = subs.in_memory(owner)
    if pane.stored or owner in subs.cleared or not unsaved or any(address in pane.pending for address in rows):
        subs.cleared[owner] = unsaved
    subs.take_out_all(owner)
    for address in rows:
        del pane.hot[address]
        pane.dirty.discard(address)
        pane.fresh.discard(address)
        pane.pending.discard(address)
        pane.originals.pop(address, None)
        pane.stamps.pop(address, None)


def _number(row: Row) -> Any:
    """Return the sub-key of a row."""
    return cast("Composite", row[0])[2]
