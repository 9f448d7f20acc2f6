"""Writes a savepoint from a draft: changed state as new files, the rest as copies, the metadata last."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock import __version__
from penstock._engine.operators.windows.watermark_firing import FIRED
from penstock._engine.operators.windows.window_strategy import CONTENTS
from penstock._engine.protocol.clocks import now_ms
from penstock._engine.protocol.key_groups import key_group, key_group_range, subtask_of_key_group
from penstock._engine.protocol.key_values import gives_back
from penstock._engine.protocol.keys import NormalKey, normal_key
from penstock._engine.protocol.paths import METADATA, part_suffix, shared_path
from penstock._engine.protocol.state_handle import StateHandle, StateMode
from penstock._engine.savepoints.draft import transformed
from penstock._engine.savepoints.located import absolute
from penstock._engine.savepoints.reading import MEMORY_BYTES, SCRATCH, opened_store, operator_state
from penstock._engine.state.declared import bare, declared
from penstock._engine.state.keyed_state import KeyedState
from penstock._engine.state.kinds.lists import as_held, is_list, whole_list
from penstock._engine.state.local.local_backend import LocalBackend
from penstock._engine.state.operator_state import OperatorStateBackend, describe
from penstock._engine.state.rows import IN_ADDRESS, Address, holds_segments, key_at
from penstock._engine.state.table import ABSENT, MISSING, FullRow
from penstock._engine.storage.checkpoint_storage import copy_files, document_of
from penstock._engine.storage.opening import open_storage
from penstock._engine.storage.scratch import ScratchDirectory
from penstock.errors import InternalError, SavepointChangeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from penstock._engine.protocol.metadata import OperatorMetadata
    from penstock._engine.protocol.state_handle import Lineage, StatePart
    from penstock._engine.savepoints.draft import Draft, OperatorDraft, Transform
    from penstock._engine.state.table import Table
    from penstock._engine.storage.checkpoint_storage import FileStorage
    from penstock.common.typeinfo import TypeInformation

#: The number of entries that are put before entries move from memory to disk.
_SETTLE_ENTRIES: Final = 1 << 17
#: The Python types of kinds such as ``value[int]`` that a value can be checked against.
_OF_TEXT: Final = {f"{kind.__name__}]": kind for kind in (int, str, float, bool, bytes)}


def write_draft(draft: Draft, path: str, options: Mapping[str, str] | None = None) -> str:
    """Write a savepoint, and return the path to start from.

    Args:
        draft: Its contents.
        path: Its directory, which must be empty or not there yet.
        options: Options of the object store.

    Raises:
        SavepointChangeError: The directory is not empty.
        CorruptCheckpointError: A file of the savepoint that it begins with is damaged or missing.
        CheckpointStorageError: The directory cannot be written to.
        UnpicklableStateError: A value cannot be pickled.
        KeyEncodingError: A key has no canonical encoding.
    """
    directory = absolute(path)
    target = open_storage(directory, options)
    if target.names(""):
        raise SavepointChangeError(directory, "there are files already; choose a directory that is empty or new")
    writer = _DraftWriter(draft, target)
    try:
        document = document_of(target, draft.entry(writer.operators(), now_ms(), __version__))
        # The put may have succeeded although its answer was lost; the retry then finds the file.
        is_first = target.put_if_absent(METADATA, document) or target.find(METADATA) == document
    except BaseException:
        target.delete(writer.written)
        raise
    if not is_first:
        raise SavepointChangeError(directory, "another process has written a savepoint there meanwhile")
    return directory


class _TableShape(NamedTuple):
    """The declaration of a table."""

    name: str
    kind: str
    keep_keys: bool
    #: The time from which its rows expire.
    since: int | None = None


class _DraftWriter:
    """Writes the files of a draft's operators."""

    def __init__(self, draft: Draft, target: FileStorage) -> None:
        self._draft = draft
        self._target = target
        self._copies: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self.written: list[str] = []

    def operators(self) -> dict[str, OperatorMetadata]:
        operators = {uid: self._operator(uid, operator) for uid, operator in self._draft.operators.items()}
        self.written += self._copies.values()
        if self._draft.located is not None:
            copy_files(self._draft.located.storage, self._target, self._copies.items(), self._sizes)
        return operators

    def _operator(self, uid: str, operator: OperatorDraft) -> OperatorMetadata:
        subtasks = operator.metadata.subtasks
        if operator.keyed_changes:
            lineages = self._keyed(uid, operator)
        else:
            lineages = [self._copied(part.lineage) for part in subtasks]
        if operator.operator_states:
            states = [self._operator_state(uid, operator, subtask) for subtask in range(len(subtasks))]
        else:
            states = [self._copied(part.operator_state) for part in subtasks]
        return replace(
            operator.metadata,
            subtasks=tuple(
                replace(part, lineage=lineage, operator_state=state)
                for part, lineage, state in zip(subtasks, lineages, states, strict=True)
            ),
        )

    def _copied(self, lineage: Lineage) -> Lineage:
        return tuple(
            handle if handle.path is None else replace(handle, path=self._copy(handle.path, handle.size))
            for handle in lineage
        )

    def _copy(self, path: str, size: int) -> str:
        self._sizes[path] = size
        return self._copies.setdefault(path, path.rpartition("/")[2])

    def _put(self, uid: str, subtask: int, token: int, data: bytes, suffix: str = "") -> str:
        path = shared_path(self._draft.job_id, uid, subtask, self._draft.checkpoint_id, token, suffix=suffix)
        name = path.rpartition("/")[2]
        self.written.append(name)
        self._target.put(name, data)
        return name

    # ----------------------------------------------------------------------------------------------------- keyed state

    def _keyed(self, uid: str, operator: OperatorDraft) -> list[Lineage]:
        with ScratchDirectory(SCRATCH) as directory:
            stores = _NewStores(operator.metadata, directory)
            for subtask, part in enumerate(operator.metadata.subtasks):
                if part.lineage:
                    self._take_over(operator, subtask, stores)
            for name, state in operator.keyed.items():
                if state is not None:
                    shape = _TableShape(name, state.kind, keep_keys=True)
                    for key, namespace, sub_key, given in state.entries():
                        value = transformed(state.steps, name, state.kind, _named(key, sub_key), given)
                        value = as_held(state.kind, value)
                        address, pane = _place(state.kind, normal_key(key), namespace, sub_key)
                        stores.put(shape, pane, FullRow(address, key, sub_key, value, None))
            stores.declare_what_fits()
            for domain, timers in operator.timers.items():
                for key, timestamp, namespace in timers():
                    stores.set_timer(domain, timestamp, normal_key(key), namespace, key)
            return [tuple(self._snapshot(uid, subtask, store)) for subtask, store in enumerate(stores.all)]

    def _snapshot(self, uid: str, subtask: int, store: KeyedState) -> Iterator[StateHandle]:
        """Write the whole state of a store; yield the handles of the files that have something."""
        checkpoint_id, token = self._draft.checkpoint_id, secrets.randbits(63)
        for number, data in enumerate(store.snapshot(checkpoint_id, token)):
            handle = store.describe(data, "snapshot", checkpoint_id, token, "")
            if handle.entries:
                path = self._put(uid, subtask, token, data, part_suffix(number))
                yield replace(handle, path=path)

    def _take_over(self, operator: OperatorDraft, subtask: int, stores: _NewStores) -> None:
        """Put the remaining keyed state of a subtask into the new stores, with the transformations applied."""
        assert self._draft.located is not None
        with opened_store(self._draft.located, operator.metadata, subtask) as store:
            given = {*operator.keyed}
            if CONTENTS in given:  # new windows have not fired
                given.add(FIRED)
            for table in store.tables:
                if table.name in given:
                    continue
                steps = operator.transforms.get(table.name, [])
                kind = table.kind if not steps else stores.new_kind(table.name, table.kind, operator.types)
                shape = _TableShape(table.name, kind, table.keep_keys, table.life.since)
                for namespace, pane in list(table.panes.items()):
                    if steps and holds_segments(namespace):
                        continue  # the new lists have all items
                    for row in pane.full_rows():
                        stores.put(shape, namespace, _changed(table, namespace, row, steps, kind))
            for timers in store.timer_domains:
                if timers.name not in operator.timers:
                    for (normal, namespace, timestamp), original in timers.rows():
                        stores.set_timer(timers.name, timestamp, normal, namespace, original)

    # -------------------------------------------------------------------------------------------------- operator state

    def _operator_state(self, uid: str, operator: OperatorDraft, subtask: int) -> Lineage:
        state, located, metadata = OperatorStateBackend(), self._draft.located, operator.metadata
        if located is not None and metadata.subtasks[subtask].operator_state:
            state = operator_state(located, metadata, subtask)
        for name, wanted in operator.operator_states.items():
            state.remove(name)
            if wanted is not None:
                mode, content = wanted
                if mode is StateMode.BROADCAST:
                    state.broadcast_state(name).put_all(content)
                else:
                    state.list_state(name, mode).update(_share(content, mode, metadata, subtask))

        def write(data: bytes, parts: tuple[StatePart, ...]) -> StateHandle:
            token = secrets.randbits(63)
            path = self._put(uid, subtask, token, data, ".operator")
            return describe(data, parts, self._draft.checkpoint_id, token, path)

        handle = state.save(write, anew=True)  # a file with this content is elsewhere
        return () if handle is None else (handle,)


class _NewStores:
    """The new keyed state of one operator: a store for each subtask, which may exceed memory."""

    def __init__(self, operator: OperatorMetadata, directory: Path) -> None:
        self._parallelism, self._most = operator.parallelism, operator.max_parallelism
        self.all = [
            KeyedState(
                LocalBackend(
                    directory / str(subtask),
                    key_group_range(subtask, self._parallelism, self._most),
                    self._most,
                    MEMORY_BYTES // self._parallelism,
                ),
                _nothing_to_read,
            )
            for subtask in range(self._parallelism)
        ]
        for store in self.all:
            store.catch_up(())
        self._room = _SETTLE_ENTRIES
        self._ended_epochs = 0
        #: By subtask: the lineage of its store as of the last `_end_epoch`.
        self._lineages: list[Lineage] = [()] * self._parallelism
        #: By state: its former kind with the type, as long as all new values have that type.
        self._watched: dict[str, str] = {}
        self._misfits: set[str] = set()

    def new_kind(self, name: str, kind: str, types: Mapping[str, TypeInformation]) -> str:
        """Return the kind of a transformed state: with the given type, or its former type if the values allow it."""
        if name in types:
            return declared(bare(kind), types[name])
        if kind != bare(kind):
            self._watched[name] = kind
        return bare(kind)

    def declare_what_fits(self) -> None:
        """Let states keep their types if all new values have them."""
        for name, kind in self._watched.items():
            for store in self.all if name not in self._misfits else ():
                if any(table.name == name for table in store.tables):
                    store.table(name, kind=kind)

    def put(self, shape: _TableShape, namespace: tuple[int, ...], row: FullRow) -> None:
        """Set a value in place of an earlier one; ABSENT leaves the key without."""
        address, key, sub_key, value, stamp = row
        normal = key_at(address)
        watched = self._watched.get(shape.name)
        if value is not ABSENT and watched is not None and _OF_TEXT.get(watched.partition("[")[2]) is not type(value):
            self._misfits.add(shape.name)
        table = self._store(normal).table(shape.name, kind=shape.kind, keep_keys=shape.keep_keys)
        table.life.since = shape.since
        pane = table.pane(namespace)
        if type(address) is tuple:
            kept = None if gives_back(key) else key, None if gives_back(sub_key) else sub_key
            original = None if kept == (None, None) else kept
            pane.put(address, value, original, stamp)
        else:
            pane.put(address, value, stamp=stamp)
            pane.remember(normal, key)
        pane.dirty.add(address)
        self._count()

    def set_timer(
        self, domain: str, timestamp: int, normal: NormalKey, namespace: tuple[int, ...], original: Any
    ) -> None:
        self._store(normal).timers(domain).register(timestamp, normal, namespace, original)
        self._count()

    def _store(self, normal: NormalKey) -> KeyedState:
        group = key_group(normal, self._most)
        return self.all[subtask_of_key_group(group, self._parallelism, self._most)]

    def _count(self) -> None:
        self._room -= 1
        if self._room == 0:
            self._end_epoch()
            self._room = _SETTLE_ENTRIES

    def _end_epoch(self) -> None:
        """End an epoch of all stores, so that entries can move to disk."""
        self._ended_epochs += 1
        number = self._ended_epochs
        for subtask, store in enumerate(self.all):
            data = store.delta(number, number)
            if data is not None:
                self._lineages[subtask] = (store.describe(data, "delta", number, number, ""),)
            store.catch_up(self._lineages[subtask])


def _place(kind: str, normal: NormalKey, namespace: tuple[int, ...], sub_key: Any) -> tuple[Address, tuple[int, ...]]:
    """Return the address of a new row, and the namespace of its pane."""
    sub = None if sub_key is MISSING else normal_key(sub_key)
    if kind.startswith(IN_ADDRESS):
        return (normal, namespace, sub), ()
    return normal if sub is None else (normal, (), sub), namespace


def _changed(table: Table, namespace: tuple[int, ...], row: FullRow, steps: list[Transform], kind: str) -> FullRow:
    """Return a row after these steps; that of a list of many rows has all of it then."""
    if not steps:
        return row
    held = whole_list(table, namespace, row.address, row.value) if is_list(table) else row.value
    value = transformed(steps, table.name, kind, _named(row.key, row.sub_key), held)
    return row._replace(value=as_held(kind, value))


def _named(key: Any, sub_key: Any) -> Any:
    """Return the key of a row as a user's function gets it."""
    return key if sub_key is MISSING else (key, sub_key)


def _nothing_to_read(handle: StateHandle) -> bytes:
    reason = f"a new store asked for a file of checkpoint {handle.checkpoint_id}"
    raise InternalError(reason)


def _share(items: list[tuple[int | None, Any]], mode: StateMode, operator: OperatorMetadata, subtask: int) -> list[Any]:
    """Return the items of a subtask: its own, and its share of items without an owner.

    A start does not redistribute the list items of finished subtasks. All subtasks see a union list in this order.
    """
    running = [index for index, part in enumerate(operator.subtasks) if not part.finished]
    receivers = running if mode is StateMode.LIST and running else list(range(operator.parallelism))
    share: list[Any] = []
    turn = 0
    for owner, item in items:
        if owner in receivers:
            place = owner
        elif mode is StateMode.UNION:
            place = 0 if owner is None else owner % operator.parallelism
        else:
            place, turn = receivers[turn % len(receivers)], turn + 1
        if place == subtask:
            share.append(item)
    return share
