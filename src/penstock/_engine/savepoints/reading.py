"""Reads the state in a savepoint or checkpoint, one subtask at a time and in bounded memory.

The results are the user's values, which are unpickled if their classes are allowed.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.protocol.control import decode
from penstock._engine.protocol.events import AddSplitsEvent, ReaderState, decode_event
from penstock._engine.protocol.key_groups import key_group_range
from penstock._engine.protocol.key_values import key_value
from penstock._engine.savepoints.located import LocatedCheckpoint, decoding, locate
from penstock._engine.state.files.chunk_columns import load_value
from penstock._engine.state.keyed_state import KeyedState
from penstock._engine.state.kinds.lists import is_list, whole_list
from penstock._engine.state.local.local_backend import LocalBackend
from penstock._engine.state.operator_state import OperatorStateBackend
from penstock._engine.state.rows import holds_segments, owner_at
from penstock._engine.state.table import MISSING
from penstock._engine.storage.scratch import ScratchDirectory
from penstock.errors import CorruptCheckpointError, UnknownStateError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from penstock._engine.protocol.metadata import OperatorMetadata
    from penstock._engine.protocol.state_handle import StateMode
    from penstock._engine.state.files.trust import AllowedClasses

#: Begins the names of temporary directories.
SCRATCH: Final = "penstock-savepoint-"
#: The estimated memory limit for entries; more of them go through a database in the temporary directory.
MEMORY_BYTES: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class SubtaskStateLocation:
    """The location of one subtask's state: small data that is valid in any process that can read the savepoint.

    Attributes:
        path: The savepoint or checkpoint.
        options: Options of the object store.
        uid: The operator.
        subtask: Its subtask.
        classes: The classes that values may have.
    """

    path: str
    options: tuple[tuple[str, str], ...]
    uid: str
    subtask: int
    classes: AllowedClasses

    def located(self) -> LocatedCheckpoint:
        """Open the savepoint."""
        return locate(self.path, dict(self.options), self.classes)


def operator_of(located: LocatedCheckpoint, uid: str) -> OperatorMetadata:
    """Return an operator.

    Raises:
        UnknownStateError: The savepoint has none of that uid.
    """
    operators = located.snapshot.operators
    if uid not in operators:
        raise UnknownStateError(located.path, f"operator of uid {uid!r}", tuple(map(repr, operators)))
    return operators[uid]


@contextlib.contextmanager
def opened_store(located: LocatedCheckpoint, operator: OperatorMetadata, subtask: int) -> Generator[KeyedState]:
    """Open a store with the keyed state of a subtask, for reading.

    Raises:
        CorruptCheckpointError: A file is damaged or gone.
        StateClassError: Its values cannot be unpickled here.
    """
    groups = key_group_range(subtask, operator.parallelism, operator.max_parallelism)
    with ScratchDirectory(SCRATCH) as directory, _full_names(located):
        backend = LocalBackend(directory / "store", groups, operator.max_parallelism, MEMORY_BYTES)
        store = KeyedState(backend, located.read, located.classes)
        with decoding(located.path):
            store.catch_up(operator.subtasks[subtask].lineage)
        try:
            yield store
        finally:
            store.release()


@contextlib.contextmanager
def _full_names(located: LocatedCheckpoint) -> Generator[None]:
    """Let errors of the store name files by their full paths."""
    try:
        yield
    except CorruptCheckpointError as error:
        files = {handle.path for operator in located.snapshot.operators.values() for handle in _handles(operator)}
        if error.path not in files:
            raise
        raise type(error)(located.storage.full_path(error.path), error.reason) from error


def _handles(operator: OperatorMetadata) -> Iterator[Any]:
    for subtask in operator.subtasks:
        yield from subtask.lineage
        yield from subtask.operator_state


def keyed_entries(place: SubtaskStateLocation, name: str) -> Iterator[tuple[Any, tuple[int, ...], Any, Any]]:
    """Iterate over (key, namespace, sub-key, value) of one keyed state; MISSING means no sub-key."""
    located = place.located()
    with opened_store(located, operator_of(located, place.uid), place.subtask) as store:
        table = store.table(name)
        with decoding(located.path):
            for namespace in sorted(table.panes):
                if not holds_segments(namespace):
                    for address, key, sub_key, value, _ in table.panes[namespace].full_rows():
                        held = whole_list(table, namespace, address, value) if is_list(table) else value
                        yield key, namespace or owner_at(address)[1], sub_key, held


def timers(place: SubtaskStateLocation, domain: str) -> Iterator[tuple[Any, int, tuple[int, ...]]]:
    """Iterate (key, time, namespace) of the timers of one domain, in the order of time."""
    located = place.located()
    with opened_store(located, operator_of(located, place.uid), place.subtask) as store, decoding(located.path):
        rows = sorted(store.timers(domain).rows(), key=lambda row: row[0][2])
        for (normal, namespace, timestamp), original in rows:
            kept = original is not MISSING and original is not None
            yield original if kept else key_value(normal), timestamp, namespace


def operator_state(located: LocatedCheckpoint, operator: OperatorMetadata, subtask: int) -> OperatorStateBackend:
    """Return the operator state of a subtask, with only its own items of union lists.

    Raises:
        CorruptCheckpointError: A file is damaged or gone.
    """
    state = OperatorStateBackend()
    with _full_names(located), decoding(located.path):
        state.restore(operator.subtasks[subtask].operator_state, located.read, located.classes)
    return state


def list_items(place: SubtaskStateLocation, name: str, mode: StateMode) -> list[Any]:
    """Return the items of a list or union list that a subtask owns."""
    located = place.located()
    return operator_state(located, operator_of(located, place.uid), place.subtask).list_state(name, mode).own


def broadcast_entries(place: SubtaskStateLocation, name: str) -> list[tuple[Any, Any]]:
    """Return the entries of a broadcast state as a subtask has it."""
    located = place.located()
    state = operator_state(located, operator_of(located, place.uid), place.subtask)
    return list(state.broadcast_state(name).entries.items())


def splits(place: SubtaskStateLocation) -> list[tuple[bytes, int, bool]]:
    """Return (split, version of its serializer, whether its reader has it) of one source subtask."""
    located = place.located()
    operator = operator_of(located, place.uid)
    state = operator.subtasks[place.subtask].state
    with decoding(located.path):
        return list(_splits(operator, place.subtask, state))


def _splits(operator: OperatorMetadata, subtask: int, state: bytes | None) -> Iterator[tuple[bytes, int, bool]]:
    reader = ReaderState() if state is None else decode(state, ReaderState)
    yield from [(split, reader.version, True) for split in reader.splits]
    if operator.enumerator is not None:
        events = map(decode_event, operator.enumerator.undelivered.get(subtask, ()))
        moving = [event for event in events if isinstance(event, AddSplitsEvent)]
        back = [part for part in operator.enumerator.returned if part.subtask == subtask]
        yield from [(split, part.version, False) for part in (*moving, *back) for split in part.splits]


def load_split(place: SubtaskStateLocation, classes: AllowedClasses, split: bytes) -> Any:
    """Return a split that is pickled.

    Raises:
        CorruptCheckpointError: It is not.
        UntrustedClassError: Its class is not allowed.
    """
    with decoding(place.path):
        return load_value(classes, "splits", split)


def modes(operator: OperatorMetadata) -> dict[str, StateMode]:
    """Return the operator states of an operator by name."""
    return {
        part.name: part.mode
        for subtask in operator.subtasks
        for handle in subtask.operator_state
        for part in handle.parts
    }
