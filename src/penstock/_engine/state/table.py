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
"""

from __future__ import annotations

from enum import Enum
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from penstock._engine.protocol.key_values import key_value
from penstock._engine.protocol.keys import normal_key
from penstock._engine.state.declared import agreed
from penstock.errors import StateDescriptorError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from penstock._engine.protocol.keys import NormalKey

Namespace: TypeAlias = "tuple[int, ...]"


class Absence(Enum):
    """The two values that no user can store."""

    #: In `hot`: the key is known to have no value.
    ABSENT = "absent"
    #: Never in `hot`: the default for ``hot.get``.
    MISSING = "missing"


ABSENT: Final = Absence.ABSENT
MISSING: Final = Absence.MISSING


class CommittedVersion(Protocol):
    """The committed version below the panes."""

    def fetch(self, pane: Pane, normal: NormalKey) -> Any:
        """Return the stored value of a key or ABSENT, and note it in the pane."""
        ...

    def scan(self, pane: Pane, known: Container[NormalKey]) -> Iterator[tuple[NormalKey, Any, Any]]:
        """Iterate the stored entries of a pane whose keys are not known: (normal key, value, original); notes none."""
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
        "stored",
        "table",
    )

    def __init__(self, table: Table, namespace: Namespace, base: CommittedVersion) -> None:
        self.table = table
        self.namespace = namespace
        #: What is in memory; a key that is not may still be stored.
        self.hot: dict[NormalKey, Any] = {}
        #: Keys written in the running epoch.
        self.dirty: set[NormalKey] = set()
        #: Keys whose committed value is newer in `hot` than below.
        self.pending: set[NormalKey] = set()
        #: The keys behind normal keys that are bytes and in `hot`, where the table keeps them.
        self.originals: dict[bytes, Any] = {}
        #: The pane's id in the version below; 0 when nothing there belongs to it, then what is not hot is absent.
        self.stored = 0
        #: True when the pane was dropped since the version below: whatever is there is void.
        self.masked = False
        #: True when the running epoch dropped what earlier ones had committed.
        self.drop_unsaved = False
        self._base = base

    def load(self, normal: NormalKey) -> Any:
        """Return the value of a key that is not in `hot`, or ABSENT."""
        return self._base.fetch(self, normal) if self.stored else ABSENT

    def entries(self) -> Iterator[tuple[NormalKey, Any, Any]]:
        """Iterate all present entries as (normal key, key, value), as they stand now.

        Meanwhile entries may be written, and leave memory: large panes are gone through bit by bit. A normal key is
        what its key is encoded to today, see `old_keys`.
        """
        get = cast("dict[Any, Any]", self.originals).get
        hot = [(normal, get(normal), value) for normal, value in self.hot.items() if value is not ABSENT]
        known = set(self.hot) if self.stored else ()
        yield from starmap(self._entry, hot)
        if self.stored:
            for normal, value, original in self._base.scan(self, known):
                yield self._entry(normal, original, value)

    def _entry(self, normal: NormalKey, original: Any, value: Any) -> tuple[NormalKey, Any, Any]:
        if type(normal) is not bytes:
            return normal, normal, value
        key = key_value(normal) if original is None else original
        return normal_key(key) if self.table.old_keys else normal, key, value

    def items(self) -> Iterator[tuple[NormalKey, Any]]:
        """Iterate all present entries; the pane may not be written meanwhile."""
        for normal, value in self.hot.items():
            if value is not ABSENT:
                yield normal, value
        if self.stored:
            for normal, value, _ in self._base.scan(self, self.hot):
                yield normal, value

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

    def drop(self) -> None:
        """Delete all entries."""
        if self.stored or self.pending:
            self.masked = self.drop_unsaved = True
        self.stored = 0
        self.hot.clear()
        self.dirty.clear()
        self.pending.clear()
        self.originals.clear()

    def forget(self) -> None:
        """Return to a pane that was never used; committed state is not touched."""
        self.drop()
        self.masked = self.drop_unsaved = False

    def is_unused(self) -> bool:
        """Return whether the pane says nothing that a new one would not."""
        return not (self.hot or self.stored or self.masked or self.drop_unsaved or self.namespace == ())


class Table:
    """One state of an operator: its panes by namespace.

    Args:
        name: The name in the operator's store and in checkpoints.
        base: The committed version below.
    """

    __slots__ = ("_base", "expired", "keep_keys", "kind", "name", "old_keys", "panes")

    def __init__(self, name: str, base: CommittedVersion) -> None:
        self.name = name
        #: True when the keys behind byte keys are stored beside the values.
        self.keep_keys = False
        #: What the values mean ("value", "list[int]" …), see `declared`; "" until somebody says so.
        self.kind = ""
        #: Keys that are or hold rows with names may stand as format 1 had them, see `old_keys.adopt`.
        self.old_keys = False
        #: Tells of a value that snapshots leave out: expired entries of states with a time to live.
        self.expired: Callable[[Any], bool] | None = None
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
        for pane in self.panes.values():
            pane.forget()
        self.prune()

    def prune(self) -> None:
        """Remove panes that say nothing."""
        for namespace in [namespace for namespace, pane in self.panes.items() if pane.is_unused()]:
            del self.panes[namespace]
