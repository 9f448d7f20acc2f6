"""Counts the contents of keyed state files by their indexes and keys, without unpickling."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, TypeAlias

from penstock._engine.protocol.key_groups import key_group
from penstock._engine.state.declared import bare
from penstock._engine.state.files.chunk_columns import ChunkOperation
from penstock._engine.state.files.state_file import ChunkInfo, read_index, read_index_by, read_owners
from penstock._engine.state.kinds.registry import has_sub_keys
from penstock._engine.state.rows import TIMERS, holds_segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.protocol.metadata import OperatorMetadata
    from penstock._engine.protocol.state_handle import Lineage, StateHandle
    from penstock._engine.savepoints.located import LocatedCheckpoint
    from penstock._engine.state.rows import Composite, Owner

#: (name, whether it is a domain of timers)
_State: TypeAlias = "tuple[str, bool]"


@dataclass(frozen=True, slots=True)
class KeyedStateInfo:
    """One keyed state of an operator, or the timers of one domain."""

    name: str
    #: The declared kind such as "value", "timers", or "" if it was not declared.
    kind: str
    #: The entries in the files. With deltas a key may have several entries, and a deleted key has some as well.
    entries: int
    #: The number of pairs of key and window with a value, or of pending timers; None if only reading all keys would
    #: tell.
    keys: int | None
    #: The number of windows with at least one entry, for state of windows; else 0.
    windows: int
    #: Bytes in the files, compressed.
    bytes: int


@dataclass(slots=True)
class _StateCount:
    kind: str = ""
    entries: int = 0
    bytes: int = 0
    keys: int | None = 0
    windows: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]])


class KeyedStateCounter:
    """Counts the keyed state of one operator, once.

    Args:
        located: The savepoint that holds its files.
        operator: The operator.
    """

    def __init__(self, located: LocatedCheckpoint, operator: OperatorMetadata) -> None:
        self._located = located
        self._operator = operator
        self._indexes: dict[object, list[ChunkInfo]] = {}
        self._counts: dict[_State, _StateCount] = {}
        #: By chunk: its state, its key groups, and the key groups of it that a subtask still owns.
        self._held: dict[object, tuple[_State, range, set[int]]] = {}
        #: States with keys that may be in several files, or in a chunk although no subtask owns them any more.
        self._unclear: set[_State] = set()

    def count(self, *, exactly: bool) -> tuple[KeyedStateInfo, ...]:
        """Return all states by name.

        Args:
            exactly: Read the keys if the indexes do not tell their number.

        Raises:
            CorruptCheckpointError: A file is damaged, truncated or missing.
        """
        for subtask in self._operator.subtasks:
            self._take(subtask.lineage)
        self._unclear |= {state for state, groups, held in self._held.values() if len(held) < len(groups)}
        if self._unclear:
            present = self._present() if exactly else None
            for state in self._unclear:
                self._counts[state].keys = None if present is None else present[state]
        return tuple(_info(name, self._counts[name, is_timers]) for name, is_timers in sorted(self._counts))

    def _take(self, lineage: Lineage) -> None:
        """Count the contents of the files of one subtask."""
        files: dict[_State, set[object]] = {}
        windows: set[tuple[_State, tuple[int, ...]]] = set()
        for handle, info in self._chunks(lineage):
            state, file = _state(info), _identity(handle)
            step = handle.checkpoint_id, handle.token, handle.kind  # the files of one snapshot count as one
            if has_sub_keys(bare(info.kind)):  # entries are not keys
                self._unclear.add(state)
            files.setdefault(state, set()).add(step)
            if info.namespace and not holds_segments(info.namespace):
                (windows.discard if info.op == ChunkOperation.DROP else windows.add)((state, info.namespace))
            place = (file, info.offset, info.op, info.name, info.namespace)
            groups = range(info.key_groups[0], info.key_groups[1] + 1)
            if place not in self._held:  # else of another subtask, before a rescale
                self._held[place] = state, groups, set()
                _add(self._counts.setdefault(state, _StateCount()), info)
            self._held[place][2].update(
                group for group in groups if handle.key_groups[0] <= group <= handle.key_groups[1]
            )
        for state, namespace in windows:
            self._counts[state].windows.add(namespace)
        if any(handle.kind == "delta" for handle in lineage):
            self._unclear |= {state for state, written in files.items() if len(written) > 1 and not state[1]}

    def _chunks(self, lineage: Lineage) -> Iterator[tuple[StateHandle, ChunkInfo]]:
        for handle in lineage:
            for info in self._index(handle):
                if info.key_groups[0] <= handle.key_groups[1] and info.key_groups[1] >= handle.key_groups[0]:
                    yield handle, info

    def _index(self, handle: StateHandle) -> list[ChunkInfo]:
        identity = _identity(handle)
        index = self._indexes.get(identity)
        if index is None:
            name = self._located.name_of(handle)
            path, storage = handle.path, self._located.storage
            if path is None:
                index = read_index(self._located.read(handle), name)
            else:
                index = read_index_by(lambda start, length: storage.read_range(path, start, length), handle.size, name)
            self._indexes[identity] = index
        return index

    def _present(self) -> Counter[_State]:
        """Return the numbers of keys with a value and of pending timers, in states whose indexes do not show them."""
        found: Counter[_State] = Counter()
        for subtask in self._operator.subtasks:
            for (name, namespace), pane in self._keys(subtask.lineage, found).items():
                found[name, False] += 0 if holds_segments(namespace) else len(pane)
        return found

    def _keys(self, lineage: Lineage, timers: Counter[_State]) -> dict[tuple[str, tuple[int, ...]], _Pane]:
        """Return the keys with a value at the end of a lineage, by state and namespace; timers are counted."""
        most = self._operator.max_parallelism
        panes: dict[tuple[str, tuple[int, ...]], _Pane] = {}
        contents: dict[object, bytes] = {}
        for handle, info in self._chunks(lineage):
            if _state(info) not in self._unclear:
                continue
            if _identity(handle) not in contents:
                contents = {_identity(handle): self._located.read(handle)}
            first, last = handle.key_groups
            listed, namespaces, subs = read_owners(contents[_identity(handle)], self._located.name_of(handle), info)
            rows = list(zip(listed, namespaces or repeat(()), subs or repeat(None), strict=False))
            rows = [row for row in rows if first <= key_group(row[0], most) <= last]
            if info.kind == TIMERS:
                timers[_state(info)] += len(rows) if info.op == ChunkOperation.PUT else -len(rows)
                continue
            pane = panes.setdefault((info.name, info.namespace), {})
            low, high = max(first, info.key_groups[0]), min(last, info.key_groups[1])
            _apply(info.op, pane, rows, lambda key: low <= key_group(key, most) <= high)  # noqa: B023
        return panes


#: Of one pane: by key and namespace, the sub-keys with a value; None stands for a row without a sub-key.
_Pane: TypeAlias = "dict[Owner, set[NormalKey | None]]"


def _apply(op: int, pane: _Pane, rows: list[Composite], is_of: Callable[[NormalKey], bool]) -> None:
    """Apply a chunk to the rows of a pane."""
    if op == ChunkOperation.DROP:
        for owner in [owner for owner in pane if is_of(owner[0])]:
            del pane[owner]
    for key, namespace, sub in rows:
        owner = key, namespace
        if op == ChunkOperation.PUT:
            pane.setdefault(owner, set()).add(sub)
        elif op == ChunkOperation.CLEAR:
            pane.pop(owner, None)
        elif owner in pane:
            pane[owner].discard(sub)
            if not pane[owner]:
                del pane[owner]


def _state(info: ChunkInfo) -> _State:
    return info.name, info.kind == TIMERS


def _identity(handle: StateHandle) -> object:
    return handle.path if handle.path is not None else (handle.checkpoint_id, handle.token, handle.checksum)


def _add(count: _StateCount, info: ChunkInfo) -> None:
    count.kind = info.kind or count.kind
    count.bytes += info.size
    if info.op == ChunkOperation.PUT or info.kind == TIMERS:
        count.entries += info.entries
        if not holds_segments(info.namespace):
            count.keys = (count.keys or 0) + (info.entries if info.op == ChunkOperation.PUT else -info.entries)


def _info(name: str, count: _StateCount) -> KeyedStateInfo:
    return KeyedStateInfo(name, count.kind, count.entries, count.keys, len(count.windows), count.bytes)
