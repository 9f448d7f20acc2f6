"""Tables and panes: the dicts in which operators read and write keyed state.

A *table* is one state of an operator, a *pane* the part of it under one namespace (for a window its start and end; most
states have the namespace ``()`` alone). A pane is a plain dict of normal keys over a committed version on disk::

    value = pane.hot.get(key, MISSING)  # read
    if value is MISSING:
        value = pane.load(key)  # a value, or ABSENT
    pane.hot[key] = value  # write
    pane.dirty.add(key)
    pane.hot[key] = ABSENT  # delete
    pane.dirty.add(key)

Hot loops do that themselves; nothing here is called per record when a key is in memory. Rows that they read or wrote
stay in `hot` until the store frees memory (`KeyedState.free_memory`). The runtime calls that between batches and never
within one: so a loop may mark its keys dirty at its end. The pane of the namespace ``()`` and its `hot` and `dirty`
stay the same objects for the life of the store; operators look up other panes again each epoch.

Rows of maps, and other rows whose address is more than a key, are in the same dicts under a tuple (`rows`). `Pane.subs`
iterates and clears the rows of one key.
"""

from __future__ import annotations

from enum import Enum
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from penstock._engine.protocol.key_values import gives_back, key_value
from penstock._engine.state.declared import agreed
from penstock._engine.state.sub_rows import SubRows
from penstock._engine.state.time_to_live import TableLife
from penstock.errors import StateDescriptorError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator

    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.rows import Address, Namespace, Owner, Row


class Absence(Enum):
    """Two marks that no user can store as a value."""

    #: In `hot`: the key is known to have no value.
    ABSENT = "absent"
    #: Never in `hot`: the default for ``hot.get``.
    MISSING = "missing"


ABSENT: Final = Absence.ABSENT
MISSING: Final = Absence.MISSING


class FullRow(NamedTuple):
    """A row with the user's key and sub-key."""

    address: Address
    key: Any
    #: `MISSING` for none.
    sub_key: Any
    value: Any
    stamp: int | None


class Base(Protocol):
    """What is stored below the panes in memory."""

    def fetch(self, pane: Pane, address: Address) -> Any:
        """Return the stored value of a row or ABSENT, and note it in the pane."""
        ...

    def scan(self, pane: Pane, known: Container[Address]) -> Iterator[Row]:
        """Iterate the stored rows of a pane, except for known addresses, without noting them in the pane."""
        ...

    def scan_under(self, pane: Pane, owner: Owner, known: Container[Address]) -> Iterator[Row]:
        """Iterate the stored rows of one key and namespace; writes meanwhile do not change the result."""
        ...

    def owners(self, pane: Pane) -> Iterator[Owner]:
        """Iterate the keys and namespaces that have stored rows; writes meanwhile do not change the result."""
        ...

    def stored_over(
        self, pane: Pane, start: bytes, most: int, over: Callable[[int | None], bool]
    ) -> tuple[list[Address], int, bytes | None]:
        """Look at some stored rows of a pane; return the expired ones, how many were looked at, and where to continue.

        Args:
            pane: The pane.
            start: Where to begin: b"", or the place that an earlier call returned.
            most: The number of rows to look at.
            over: Returns whether a row with a stamp has expired.
        """
        ...

    def check(self, pane: Pane) -> None:
        """Make sure that the running epoch wrote only this subtask's keys to a pane."""
        ...


class Pane:
    """One namespace of a table.

    An operator reads a row from `hot`, and by `load` where it is not there. To write one it sets it in `hot` (ABSENT
    deletes it), adds it to `dirty`, and calls `remember` where the key is not its own normal key.
    `kinds.value.StoredValueState` does all of that for the current key.
    """

    __slots__ = (
        "base",
        "dirty",
        "drop_unsaved",
        "fresh",
        "hot",
        "masked",
        "namespace",
        "originals",
        "pending",
        "stamps",
        "stored",
        "subs",
        "table",
        "whole",
    )

    def __init__(self, table: Table, namespace: Namespace, base: Base) -> None:
        self.table = table
        self.namespace = namespace
        #: The rows in memory; a row that is not here may still be stored.
        self.hot: dict[Address, Any] = {}
        #: Rows written in the running epoch.
        self.dirty: set[Address] = set()
        #: Rows that the running epoch made, as far as it knows: no checkpoint has them, and neither has the disk.
        self.fresh: set[Address] = set()
        #: Rows whose committed value in `hot` is newer than the stored one.
        self.pending: set[Address] = set()
        #: The user's keys of rows in `hot` that their normal keys do not give back, where the table keeps keys.
        self.originals: dict[Address, Any] = {}
        #: The time at which rows in `hot` were last written, or read, where they expire.
        self.stamps: dict[Address, int] = {}
        #: The index of the rows of single keys; None until a row has a sub-key.
        self.subs: SubRows | None = None
        #: The pane's id in the committed version; 0 without stored rows: then a row that is not in `hot` is absent.
        self.stored = 0
        #: Whether `hot` has all rows, also the stored ones: none was evicted, or left on the disk at a start.
        self.whole = True
        #: True when the pane was dropped after the committed version: its stored rows do not count.
        self.masked = False
        #: True when the running epoch dropped rows that earlier epochs committed.
        self.drop_unsaved = False
        #: The committed version, with the stored rows.
        self.base = base

    def load(self, address: Address) -> Any:
        """Return the value of a row that is not in `hot`, or ABSENT."""
        return ABSENT if self.whole or not self.stored else self.base.fetch(self, address)

    @property
    def is_below(self) -> bool:
        """Whether rows may be stored that are not in `hot`."""
        return bool(self.stored) and not self.whole

    @property
    def is_composite(self) -> bool:
        """Whether the addresses of rows in memory are more than keys."""
        return self.subs is not None or type(next(iter(self.hot), None)) is tuple

    def entries(self) -> Iterator[tuple[NormalKey, Any, Any]]:
        """Iterate all present rows without sub-keys as (normal key, key, value), as of now.

        Meanwhile rows may be written and evicted: large panes are read in parts.
        """
        get = cast("dict[Any, Any]", self.originals).get
        hot = [(normal, get(normal), value) for normal, value in self.hot.items() if value is not ABSENT]
        # Where memory has all rows now, they may all be below it at the end: those of this epoch leave it, too.
        is_below = self.is_below
        known = set(self.hot) if is_below else ()
        yield from starmap(self._entry, cast("list[tuple[NormalKey, Any, Any]]", hot))
        if is_below and self.stored:
            for normal, value, original, _ in self.base.scan(self, known):
                yield self._entry(cast("NormalKey", normal), original, value)

    def rows(self) -> Iterator[Row]:
        """Iterate all present rows as of now; meanwhile rows may be written and evicted."""
        hot = self.rows_in_memory(list(self.hot))
        is_below = self.is_below
        known = set(self.hot) if is_below else ()
        yield from hot
        if is_below and self.stored:
            yield from self.base.scan(self, known)

    def rows_in_memory(self, addresses: Collection[Address]) -> list[Row]:
        """Return the present rows among some addresses in memory."""
        pairs = zip(addresses, map(self.hot.__getitem__, addresses), strict=True)
        if not self.originals and not self.stamps:
            return [(address, value, None, None) for address, value in pairs if value is not ABSENT]
        original, stamp = self.originals.get, self.stamps.get
        return [(address, value, original(address), stamp(address)) for address, value in pairs if value is not ABSENT]

    def full_rows(self) -> Iterator[FullRow]:
        """Iterate all present rows with the user's keys and sub-keys; meanwhile rows may be written."""
        for address, value, original, stamp in self.rows():
            if type(address) is not tuple:
                normal, key, _ = self._entry(cast("NormalKey", address), original, None)
                yield FullRow(normal, key, MISSING, value, stamp)
                continue
            key_itself, sub_itself = original or (None, None)
            sub = address[2]
            if sub_itself is None:
                sub_itself = MISSING if sub is None else key_value(sub)
            yield FullRow(address, self._entry(address[0], key_itself, None)[1], sub_itself, value, stamp)

    def _entry(self, normal: NormalKey, original: Any, value: Any) -> tuple[NormalKey, Any, Any]:
        return normal, key_value(normal) if original is None else original, value

    def items(self) -> Iterator[tuple[Address, Any]]:
        """Iterate all present rows; the pane may not be written meanwhile."""
        for address, value in self.hot.items():
            if value is not ABSENT:
                yield address, value
        if self.is_below:
            for address, value, _, _ in self.base.scan(self, self.hot):
                yield address, value

    def sub_rows(self) -> SubRows:
        """Return the index of the rows of single keys; creates it at the first call."""
        if self.subs is None:
            self.subs = SubRows(self.hot)
        return self.subs

    def keep(self, kept: Iterable[Address]) -> None:
        """Evict all rows except these."""
        hot = {address: self.hot[address] for address in kept}
        self.hot.clear()
        self.hot.update(hot)
        for column in (self.originals, self.stamps):
            for address in column.keys() - hot.keys():
                del column[address]
        if self.subs is not None:
            self.subs.index(hot)

    def is_empty(self) -> bool:
        """Return whether no key has a value."""
        return next(self.items(), None) is None

    def remember(self, address: Address, key: Any) -> None:
        """Keep the user's key of a row where its normal key does not give it back, and the table keeps keys.

        Call it with each write of such a row: the user's key is stored with the value, and replaced with it.
        """
        if key is not address and self.table.keep_keys and not gives_back(key):
            self.originals[address] = (key, None) if type(address) is tuple else key

    def key_of(self, normal: NormalKey) -> Any:
        """Return the user's key of a normal key in `hot`.

        Where the table keeps no keys, this is an equal key, perhaps of another type.
        """
        return self._entry(normal, self.originals.get(normal), None)[1]

    def put(self, address: Address, value: Any, original: Any = None, stamp: int | None = None) -> None:
        """Put a row into memory, in place of any earlier one; ABSENT deletes it.

        Args:
            address: The row.
            value: Its value.
            original: See `originals`.
            stamp: See `stamps`.
        """
        self.hot[address] = value
        if type(address) is tuple and (self.subs is not None or address[2] is not None):
            self.sub_rows().note(address)
        if original is not None:
            self.originals[address] = original
        if stamp is not None:
            self.stamps[address] = stamp

    def discard(self, address: Address) -> bool:
        """Delete a row that no checkpoint has, without a trace; return False where a trace has to be left."""
        if address in self.pending or (self.stored and address not in self.fresh):
            return False
        if self.subs is not None and type(address) is tuple:
            self.subs.take_out(address)
        self.hot.pop(address, None)
        for rows in (self.dirty, self.fresh):
            rows.discard(address)
        for column in (self.originals, self.stamps):
            column.pop(address, None)
        return True

    def has_changes(self) -> bool:
        """Return whether the running epoch has changed anything."""
        return bool(self.dirty) or self.drop_unsaved or (self.subs is not None and True in self.subs.cleared.values())

    def end_epoch(self) -> None:
        """Count the changes of the running epoch as committed."""
        self.pending |= self.dirty
        self.dirty.clear()
        self.fresh.clear()
        self.drop_unsaved = False
        if self.subs is not None:
            self.subs.cleared = dict.fromkeys(self.subs.cleared, False)

    def has_moved(self) -> None:
        """Count committed changes as stored: the local version has moved, and deleted rows leave no trace any more."""
        hot = self.hot
        gone = [address for address in self.pending if hot.get(address) is ABSENT and address not in self.dirty]
        for address in gone:
            del hot[address]
            if self.subs is not None and type(address) is tuple:
                self.subs.take_out(address)
        self.pending.clear()
        self.masked = False
        if self.subs is not None:
            self.subs.cleared.clear()

    def drop(self) -> None:
        """Delete all entries."""
        if self.stored or self.pending or (self.subs is not None and self.subs.cleared):
            self.masked = self.drop_unsaved = True
        self.stored, self.whole = 0, True
        for rows in (self.hot, self.dirty, self.fresh, self.pending, self.originals, self.stamps):
            rows.clear()
        if self.subs is not None:
            self.subs.forget()

    def forget(self) -> None:
        """Return to the state of an unused pane; stored state is not touched."""
        self.drop()
        self.masked = self.drop_unsaved = False

    def is_unused(self) -> bool:
        """Return whether the pane is in the state of a new one."""
        if self.hot or self.stored or self.masked or self.drop_unsaved or self.namespace == ():
            return False
        return self.subs is None or not self.subs.cleared


class Table:
    """One state of an operator: its panes by namespace.

    Args:
        name: The name in the operator's store and in checkpoints.
        base: The committed version that the panes read.
    """

    __slots__ = ("_base", "keep_keys", "kind", "life", "name", "panes")

    def __init__(self, name: str, base: Base) -> None:
        self.name = name
        #: Whether the user's keys are stored with the values where normal keys do not give them back.
        self.keep_keys = False
        #: The kind and type of the values ("value", "list[int]" …), see `declared`; "" until declared.
        self.kind = ""
        #: Whether rows expire, and from when on.
        self.life = TableLife()
        self.panes: dict[Namespace, Pane] = {}
        self._base = base

    def declare(self, kind: str, *, keep_keys: bool) -> None:
        """Declare the kind and type of the values.

        Raises:
            StateDescriptorError: The table was declared, perhaps by an earlier run of the job, as another kind.
        """
        if kind != self.kind:
            both = agreed(self.kind, kind)
            if both is None:
                raise StateDescriptorError(self.name, self.kind, kind)
            self.kind = both
        self.keep_keys = keep_keys or self.keep_keys

    def pane(self, namespace: Namespace = ()) -> Pane:
        """Return the pane of a namespace, a new one when there is none."""
        pane = self.panes.get(namespace)
        if pane is None:
            pane = self.panes[namespace] = Pane(self, namespace, self._base)
        return pane

    def namespaces(self) -> list[Namespace]:
        """Return the namespaces under which some key has a value."""
        return [namespace for namespace, pane in self.panes.items() if not pane.is_empty()]

    def drop(self, namespace: Namespace = ()) -> None:
        """Delete all entries of a namespace at once.

        Raises:
            InternalError: The running epoch wrote a key of another subtask there.
        """
        pane = self.panes.get(namespace)
        if pane is not None:
            self._base.check(pane)  # no delta will check the dropped rows
            pane.drop()

    def forget(self) -> None:
        """Empty the memory of all panes."""
        self.life.forget()
        for pane in self.panes.values():
            pane.forget()
        self.prune()

    def prune(self) -> None:
        """Remove unused panes."""
        for namespace in [namespace for namespace, pane in self.panes.items() if pane.is_unused()]:
            del self.panes[namespace]
