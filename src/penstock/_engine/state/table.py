"""Tables and panes: the dicts that operators read and write keyed state in.

A *table* is one state of an operator, a *pane* the part of it under one namespace (for a window its start and end; most
states have the namespace ``()`` alone). A pane is a plain dict of normal keys over a committed version on disk::

    value = pane.hot.get(key, MISSING)  # read
    if value is MISSING:
        value = pane.load(key)  # a value, or ABSENT
    pane.hot[key] = value  # write
    pane.dirty.add(key)
    pane.hot[key] = ABSENT  # delete
    pane.dirty.add(key)

Hot loops do that themselves; nothing here is called per record when a key is in memory. What they have read or
written stays in `hot` until the store makes room (`MemoryStore.make_room`), which the runtime has it do between batches
and never within one: so a loop may mark its keys dirty when it is through. The pane of the namespace ``()`` and its
`hot` and `dirty` stay the same objects as long as the store lives; other panes are asked for again each epoch.

The rows of a map, and what else has more to its address than a key, are found in the same dicts by a tuple (`rows`).
Those of one key are gone through and cleared with `Pane.subs`.
"""

from __future__ import annotations

from enum import Enum
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from penstock._engine.protocol.key_values import key_value
from penstock._engine.protocol.keys import normal_key
from penstock._engine.state.declared import agreed
from penstock._engine.state.rows import key_at
from penstock._engine.state.sub_rows import SubRows
from penstock._engine.state.time_to_live import TableLife
from penstock.errors import StateDescriptorError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator

    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.rows import Address, Namespace, Owner, Row


class Absence(Enum):
    """The two values that no user can store."""

    #: In `hot`: the key is known to have no value.
    ABSENT = "absent"
    #: Never in `hot`: the default for ``hot.get``.
    MISSING = "missing"


ABSENT: Final = Absence.ABSENT
MISSING: Final = Absence.MISSING


class FullRow(NamedTuple):
    """A row with all that is known of it."""

    address: Address
    key: Any
    #: `MISSING` for none.
    sub_key: Any
    value: Any
    stamp: int | None


class CommittedVersion(Protocol):
    """The committed version below the panes."""

    def fetch(self, pane: Pane, address: Address) -> Any:
        """Return the stored value of a row or ABSENT, and note it in the pane."""
        ...

    def scan(self, pane: Pane, known: Container[Address]) -> Iterator[Row]:
        """Iterate the stored rows of a pane whose addresses are not known; notes none."""
        ...

    def scan_under(self, pane: Pane, owner: Owner, known: Container[Address]) -> Iterator[Row]:
        """Iterate those of one key and namespace; writing meanwhile makes no difference to what comes."""
        ...

    def owners(self, pane: Pane) -> Iterator[Owner]:
        """Iterate the keys and namespaces that have stored rows; writing meanwhile makes no difference."""
        ...

    def stored_over(
        self, pane: Pane, start: bytes, most: int, over: Callable[[int | None], bool]
    ) -> tuple[list[Address], int, bytes | None]:
        """Look at some stored rows of a pane; return those that are over, how many it looked at, and where to go on.

        Args:
            pane: The pane.
            start: Where to begin: b"", or what an earlier call returned.
            most: Rows to look at.
            over: Tells of a stamp whether its row has expired.
        """
        ...

    def check(self, pane: Pane) -> None:
        """Make sure that what the running epoch wrote to a pane belongs to this subtask."""
        ...


class Pane:
    """One namespace of a table."""

    __slots__ = (
        "_base",
        "dirty",
        "drop_unsaved",
        "hot",
        "masked",
        "namespace",
        "originals",
        "pending",
        "stamps",
        "stored",
        "subs",
        "table",
    )

    def __init__(self, table: Table, namespace: Namespace, base: CommittedVersion) -> None:
        self.table = table
        self.namespace = namespace
        #: What is in memory; a row that is not may still be stored.
        self.hot: dict[Address, Any] = {}
        #: Rows written in the running epoch.
        self.dirty: set[Address] = set()
        #: Rows whose committed value is newer in `hot` than below.
        self.pending: set[Address] = set()
        #: The keys behind normal keys that are bytes and in `hot`, where the table keeps them.
        self.originals: dict[Address, Any] = {}
        #: When rows in `hot` were last written, or read, where they expire.
        self.stamps: dict[Address, int] = {}
        #: The rows of single keys, once there is one with a sub-key.
        self.subs: SubRows | None = None
        #: The pane's id in the version below; 0 when nothing there belongs to it, then what is not hot is absent.
        self.stored = 0
        #: True when the pane was dropped since the version below: whatever is there is void.
        self.masked = False
        #: True when the running epoch dropped what earlier ones had committed.
        self.drop_unsaved = False
        self._base = base

    def load(self, address: Address) -> Any:
        """Return the value of a row that is not in `hot`, or ABSENT."""
        return self._base.fetch(self, address) if self.stored else ABSENT

    def entries(self) -> Iterator[tuple[NormalKey, Any, Any]]:
        """Iterate all present rows that have a key alone as (normal key, key, value), as they stand now.

        Meanwhile rows may be written, and leave memory: large panes are gone through bit by bit. A normal key is
        what its key is encoded to today, see `old_keys`.
        """
        get = cast("dict[Any, Any]", self.originals).get
        hot = [(normal, get(normal), value) for normal, value in self.hot.items() if value is not ABSENT]
        known = set(self.hot) if self.stored else ()
        yield from starmap(self._entry, cast("list[tuple[NormalKey, Any, Any]]", hot))
        if self.stored:
            for normal, value, original, _ in self._base.scan(self, known):
                yield self._entry(cast("NormalKey", normal), original, value)

    def rows(self) -> Iterator[Row]:
        """Iterate all present rows as they stand now; meanwhile they may be written, and leave memory."""
        hot = self.rows_in_memory(list(self.hot))
        known = set(self.hot) if self.stored else ()
        yield from hot
        if self.stored:
            yield from self._base.scan(self, known)

    def rows_in_memory(self, addresses: Collection[Address]) -> list[Row]:
        """Return those of some rows in memory that are present."""
        pairs = zip(addresses, map(self.hot.__getitem__, addresses), strict=True)
        if not self.originals and not self.stamps:
            return [(address, value, None, None) for address, value in pairs if value is not ABSENT]
        original, stamp = self.originals.get, self.stamps.get
        return [(address, value, original(address), stamp(address)) for address, value in pairs if value is not ABSENT]

    def full_rows(self) -> Iterator[FullRow]:
        """Iterate all present rows with the keys and sub-keys themselves; meanwhile rows may be written."""
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

    def present_keys(self) -> Iterator[tuple[NormalKey, Any]]:
        """Iterate (normal key, key) of all that have a row; meanwhile rows may be written, and leave memory."""
        if self.subs is None:
            for normal, key, _ in self.entries():
                yield normal, key
            return
        for address, _, originals, _ in self.subs.first_rows():
            normal = key_at(address)
            yield normal, self._entry(normal, originals and originals[0], None)[1]

    def _entry(self, normal: NormalKey, original: Any, value: Any) -> tuple[NormalKey, Any, Any]:
        if type(normal) is not bytes:
            return normal, normal, value
        key = key_value(normal) if original is None else original
        return normal_key(key) if self.table.old_keys else normal, key, value

    def items(self) -> Iterator[tuple[Address, Any]]:
        """Iterate all present rows; the pane may not be written meanwhile."""
        for address, value in self.hot.items():
            if value is not ABSENT:
                yield address, value
        if self.stored:
            for address, value, _, _ in self._base.scan(self, self.hot):
                yield address, value

    def sub_rows(self) -> SubRows:
        """Return what goes through the rows of single keys."""
        if self.subs is None:
            self.subs = SubRows(self, self._base)
        return self.subs

    def keep(self, kept: Iterable[Address]) -> None:
        """Let all rows but these leave memory."""
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

    def remember(self, normal: NormalKey, original: Any) -> None:
        """Keep the key that a normal key stands for, where that is bytes and the table keeps keys.

        To be called with each write of such a key: it is stored beside the value, and replaced with it.
        """
        if type(normal) is bytes and self.table.keep_keys:
            self.originals[normal] = original

    def key_of(self, normal: NormalKey) -> Any:
        """Return the key that a normal key in `hot` stands for.

        Where the table keeps no keys, and for str and int, it is an equal one, perhaps of another type.
        """
        return self._entry(normal, self.originals.get(normal), None)[1] if type(normal) is bytes else normal

    def put(self, address: Address, value: Any, original: Any = None, stamp: int | None = None) -> None:
        """Put a row into memory, whatever there was; ABSENT deletes it.

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

    def has_changes(self) -> bool:
        """Return whether the running epoch has changed anything."""
        return bool(self.dirty) or self.drop_unsaved or (self.subs is not None and True in self.subs.cleared.values())

    def end_epoch(self) -> None:
        """Count the changes of the running epoch as committed."""
        self.pending |= self.dirty
        self.dirty.clear()
        self.drop_unsaved = False
        if self.subs is not None:
            self.subs.cleared = dict.fromkeys(self.subs.cleared, False)

    def has_moved(self) -> None:
        """Count what is committed as stored below."""
        self.pending.clear()
        self.masked = False
        if self.subs is not None:
            self.subs.cleared.clear()

    def drop(self) -> None:
        """Delete all entries."""
        if self.stored or self.pending or (self.subs is not None and self.subs.cleared):
            self.masked = self.drop_unsaved = True
        self.stored = 0
        for rows in (self.hot, self.dirty, self.pending, self.originals, self.stamps):
            rows.clear()
        if self.subs is not None:
            self.subs.forget()

    def forget(self) -> None:
        """Return to a pane that was never used; committed state is not touched."""
        self.drop()
        self.masked = self.drop_unsaved = False

    def is_unused(self) -> bool:
        """Return whether the pane says nothing that a new one would not."""
        if self.hot or self.stored or self.masked or self.drop_unsaved or self.namespace == ():
            return False
        return self.subs is None or not self.subs.cleared


class Table:
    """One state of an operator: its panes by namespace.

    Args:
        name: The name in the operator's store and in checkpoints.
        base: The committed version below.
    """

    __slots__ = ("_base", "keep_keys", "kind", "life", "name", "old_keys", "panes")

    def __init__(self, name: str, base: CommittedVersion) -> None:
        self.name = name
        #: True when the keys behind byte keys are stored beside the values.
        self.keep_keys = False
        #: What the values mean ("value", "list[int]" …), see `declared`; "" until somebody says so.
        self.kind = ""
        #: Keys that are or hold rows with names may stand as format 1 had them, see `old_keys.adopt`.
        self.old_keys = False
        #: Whether rows expire, and since when.
        self.life = TableLife()
        self.panes: dict[Namespace, Pane] = {}
        self._base = base

    def declare(self, kind: str, *, keep_keys: bool) -> None:
        """Say what the values are.

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
            InternalError: The running epoch has written a key there that belongs to another subtask.
        """
        pane = self.panes.get(namespace)
        if pane is not None:
            self._base.check(pane)  # no delta will
            pane.drop()

    def forget(self) -> None:
        """Empty the memory of all panes, as after an epoch that never happened."""
        self.life.forget()
        for pane in self.panes.values():
            pane.forget()
        self.prune()

    def prune(self) -> None:
        """Remove panes that say nothing."""
        for namespace in [namespace for namespace, pane in self.panes.items() if pane.is_unused()]:
            del self.panes[namespace]
