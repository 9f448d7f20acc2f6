"""The operator state of one subtask: lists and broadcast maps by name, held in memory and written to one file.

A file is written when the state has changed since the last one. Its handle lists the items of each state, so that the
driver can distribute them to other subtasks without reading the file.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from zlib import crc32

import msgspec

from penstock._api.state.kinds import BroadcastState, ListState
from penstock._engine.protocol.decoders import msgpack_decoder
from penstock._engine.protocol.formats import StoredFormat
from penstock._engine.protocol.signing import file_digest
from penstock._engine.protocol.state_handle import StateHandle, StateMode, StatePart
from penstock._engine.state.files.chunk_columns import load_value
from penstock._engine.state.files.integrity import check_intact
from penstock._engine.state.files.pickles import dump
from penstock._engine.state.files.trust import ALL_CLASSES
from penstock.common.user_values import short_repr
from penstock.errors import (
    CorruptCheckpointError,
    StateDescriptorError,
    UnpicklableStateError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock._engine.protocol.state_handle import Lineage
    from penstock._engine.state.files.trust import AllowedClasses

#: The content is MessagePack of the pickled items of each state, by its name.
OPERATOR_STATE: Final = StoredFormat("file of operator state", mark=b"PNLISTS")

_WRONG_PART: Final = "it lacks items of state"

_KINDS: Final = {StateMode.LIST: "list", StateMode.UNION: "union list", StateMode.BROADCAST: "broadcast"}


class OperatorListState(ListState[Any]):
    """A list of this subtask; a union list also shows the items of other subtasks, which are never saved here."""

    def __init__(self) -> None:
        self.before: list[Any] = []
        self.own: list[Any] = []
        self.after: list[Any] = []

    def get(self) -> list[Any]:
        return [*self.before, *self.own, *self.after]

    def add(self, value: Any) -> None:
        self.own.append(value)

    def add_all(self, values: list[Any]) -> None:
        self.own.extend(values)

    def update(self, values: list[Any]) -> None:
        self.before, self.own, self.after = [], list(values), []

    def clear(self) -> None:
        self.update([])


class StoredBroadcastState(BroadcastState[Any, Any]):
    """A map that all subtasks hold alike."""

    def __init__(self) -> None:
        self.entries: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        return self.entries.get(key)

    def contains(self, key: Any) -> bool:
        return key in self.entries

    def items(self) -> Iterable[tuple[Any, Any]]:
        return list(self.entries.items())

    def keys(self) -> Iterable[Any]:
        return list(self.entries)

    def values(self) -> Iterable[Any]:
        return list(self.entries.values())

    def is_empty(self) -> bool:
        return not self.entries

    def put(self, key: Any, value: Any) -> None:
        self.entries[key] = value

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        self.entries.update(dict_value)

    def remove(self, key: Any) -> None:
        self.entries.pop(key, None)

    def clear(self) -> None:
        self.entries.clear()


_State: TypeAlias = "OperatorListState | StoredBroadcastState"


class OperatorStateBackend:
    """The operator state of one subtask; states that no function uses are kept unchanged."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[StateMode, _State]] = {}
        #: The digest of the last file and its handle.
        self._saved: tuple[bytes, StateHandle] | None = None

    @property
    def has_union(self) -> bool:
        """Whether there is a union list."""
        return any(mode is StateMode.UNION for mode, _ in self._states.values())

    def list_state(self, name: str, mode: StateMode) -> OperatorListState:
        """Return a list, an empty one when there is none of that name.

        Raises:
            StateDescriptorError: The state was written or declared as another kind.
        """
        state = self._state(name, mode)
        assert isinstance(state, OperatorListState)
        return state

    def broadcast_state(self, name: str) -> StoredBroadcastState:
        """Return a broadcast map, an empty one when there is none of that name.

        Raises:
            StateDescriptorError: The state was written or declared as another kind.
        """
        state = self._state(name, StateMode.BROADCAST)
        assert isinstance(state, StoredBroadcastState)
        return state

    def remove(self, name: str) -> None:
        """Forget a state, of whatever kind."""
        self._states.pop(name, None)

    def _state(self, name: str, mode: StateMode) -> _State:
        found = self._states.get(name)
        if found is None:
            state = StoredBroadcastState() if mode is StateMode.BROADCAST else OperatorListState()
            found = self._states[name] = mode, state
        if found[0] is not mode:
            raise StateDescriptorError(name, _KINDS[found[0]], _KINDS[mode])
        return found[1]

    # ---------------------------------------------------------------------------------------------------- checkpoints

    def restore(
        self, handles: Lineage, read: Callable[[StateHandle], bytes], classes: AllowedClasses = ALL_CLASSES
    ) -> None:
        """Load the state from a checkpoint; state objects that functions hold show it from then on.

        Args:
            handles: The files, with the parts of them that belong to this subtask.
            read: Reads the file of a handle.
            classes: The classes that values may have.

        Raises:
            CorruptCheckpointError: A file is damaged, or of a format that this version does not read.
            StateClassError: A value cannot be unpickled.
            UntrustedClassError: A value has a class that is not allowed.
        """
        for _, state in self._states.values():
            state.clear()
        self._saved = None
        own_came = False
        for handle in handles:
            data = read(handle)
            items = _items_of(handle, data)
            for part in handle.parts:
                own_came = own_came or part.mode is not StateMode.FOREIGN
                try:
                    values = [load_value(classes, part.name, items[part.name][place]) for place in part.places()]
                    self._apply_delta(part, values, after_own=own_came)
                except (ValueError, TypeError, LookupError) as error:
                    raise CorruptCheckpointError(
                        _name(handle), f"{_WRONG_PART} {part.name[:80]!r} ({error})"
                    ) from error
            if len(handles) == 1 and _is_whole(handle, items):
                self._saved = _digest(data), handle

    def _apply_delta(self, part: StatePart, values: list[Any], *, after_own: bool) -> None:
        if part.mode is StateMode.BROADCAST:
            for entries in values:
                self.broadcast_state(part.name).put_all(entries)
        elif part.mode is StateMode.FOREIGN:
            state = self.list_state(part.name, StateMode.UNION)
            (state.after if after_own else state.before).extend(values)
        else:
            self.list_state(part.name, part.mode).add_all(values)

    def save(
        self, write: Callable[[bytes, tuple[StatePart, ...]], StateHandle], *, anew: bool = False
    ) -> StateHandle | None:
        """Return the handle of a file with the whole state, the last file when nothing has changed; None without state.

        Args:
            write: Writes a file into the checkpoint.
            anew: Write a file even when nothing has changed.

        Raises:
            UnpicklableStateError: A value cannot be pickled.
        """
        items = {name: _pickled(name, state) for name, (_, state) in self._states.items()}
        items = {name: pickles for name, pickles in items.items() if pickles}
        if not items:
            self._saved = None
            return None
        data = OPERATOR_STATE.head + msgspec.msgpack.encode(items)
        digest = _digest(data)
        if anew or self._saved is None or self._saved[0] != digest:
            parts = tuple(StatePart(name, self._states[name][0], 0, len(pickles)) for name, pickles in items.items())
            self._saved = digest, write(data, parts)
        return self._saved[1]


def describe(
    data: bytes, parts: tuple[StatePart, ...], checkpoint_id: int, token: int, path: str | None
) -> StateHandle:
    """Return the handle of a file of operator state.

    Args:
        data: The whole file.
        parts: The items in the file.
        checkpoint_id: The checkpoint of the file.
        token: The attempt.
        path: Where the file lies, relative to the checkpoint storage; None to keep it in the handle.
    """
    return StateHandle(
        checkpoint_id=checkpoint_id,
        token=token,
        kind="operator",
        path=path,
        inline=data if path is None else None,
        size=len(data),
        entries=sum(len(part.places()) for part in parts),
        checksum=crc32(data),
        key_groups=(0, -1),
        parts=parts,
        digest=None if path is None else file_digest(data),
    )


def _name(handle: StateHandle) -> str:
    return handle.path or f"The inline operator state of checkpoint {handle.checkpoint_id}"


def _items_of(handle: StateHandle, data: bytes) -> dict[str, tuple[bytes, ...]]:
    path = _name(handle)
    check_intact(data, handle, path)
    content = OPERATOR_STATE.current(data, path)[len(OPERATOR_STATE.head) :]
    try:
        return msgpack_decoder(dict[str, tuple[bytes, ...]]).decode(content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CorruptCheckpointError(path, f"it cannot be decoded ({error})") from error


def _is_whole(handle: StateHandle, items: dict[str, tuple[bytes, ...]]) -> bool:
    """Return whether a handle covers its whole file, with no part of another subtask."""
    held = {part.name: part.places() for part in handle.parts if part.mode is not StateMode.FOREIGN}
    return held == {name: range(len(pickles)) for name, pickles in items.items()}


def _pickled(name: str, state: _State) -> tuple[bytes, ...]:
    if isinstance(state, OperatorListState):
        return tuple(_pickle(name, str(place), value) for place, value in enumerate(state.own))
    if state.is_empty():
        return ()
    try:
        return (dump(state.entries),)
    except Exception:
        for key, value in state.entries.items():
            _pickle(name, short_repr(key), (key, value))
        raise


def _pickle(name: str, key: str, value: Any) -> bytes:
    try:
        return dump(value)
    except Exception as error:
        raise UnpicklableStateError(name, key, type(value).__qualname__, str(error)) from error


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
