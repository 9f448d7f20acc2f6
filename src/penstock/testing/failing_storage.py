"""A checkpoint storage that fails on demand, for tests of full disks and lost answers."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from penstock._engine.storage.checkpoint_storage import FileStorage
from penstock._engine.storage.opening import open_storage
from penstock.errors import CheckpointStorageError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from penstock._engine.protocol.signing import SigningKeys
    from penstock._engine.storage.checkpoint_storage import StoredFile

__all__ = ["FailingStorage"]

StorageCall: TypeAlias = Literal["find", "read_range", "put", "put_if_absent", "move", "delete", "names", "files"]
"""A method of checkpoint storage; ``find`` includes ``read``."""

_T = TypeVar("_T")


@dataclass(slots=True)
class _Fault:
    """Calls that are to fail."""

    calls: tuple[StorageCall, ...]
    paths: str
    #: How many more of them; None for all.
    times: int | None
    reason: str
    #: Fails after the call has had its effect.
    is_done: bool

    def concerns(self, call: StorageCall, paths: list[str]) -> bool:
        return call in self.calls and self.times != 0 and any(fnmatchcase(path, self.paths) for path in paths)


class FailingStorage(FileStorage):
    """Wraps another storage, and lets chosen calls fail as a store or a network would.

    A failing call raises ``CheckpointStorageError`` with its path. Faults are tried in the order in which they were
    requested, and each call fails by at most one.

    Args:
        storage: The wrapped checkpoint storage, or the path or URL of one.

    Example:
        >>> storage = FailingStorage("checkpoints")
        >>> storage.lose_answer("put_if_absent", paths="*/chk-7/_metadata")
        >>> storage.put_if_absent("job/chk-7/_metadata", b"{}")
        Traceback (most recent call last):
        CheckpointStorageError: Checkpoint storage ...job/chk-7/_metadata cannot be used: the answer is lost...
        >>> storage.read("job/chk-7/_metadata")
        b'{}'
        >>> storage.refuse("put", "put_if_absent", times=None, reason="the disk is full")
        >>> storage.put("job/shared/state", b"")
        Traceback (most recent call last):
        CheckpointStorageError: Checkpoint storage ...job/shared/state cannot be used: the disk is full...
        >>> storage.heal()
        >>> storage.put("job/shared/state", b"")
    """

    def __init__(self, storage: FileStorage | str) -> None:
        self._storage = open_storage(storage) if isinstance(storage, str) else storage
        self.url: str = self._storage.url
        self.keys: SigningKeys = self._storage.keys
        self._faults: list[_Fault] = []
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<FailingStorage {self.url!r}: {len(self._faults)} faults to come>"

    def refuse(
        self, *calls: StorageCall, paths: str = "*", times: int | None = 1, reason: str = "the store is out of order"
    ) -> None:
        """Let calls fail without an effect.

        Args:
            calls: The methods.
            paths: Which paths, as a pattern with ``*`` for anything, ``/`` included.
            times: How many such calls; None for all until ``heal``.
            reason: What the error says.
        """
        self._add(_Fault(calls, paths, times, reason, is_done=False))

    def lose_answer(
        self, *calls: StorageCall, paths: str = "*", times: int | None = 1, reason: str = "the answer is lost"
    ) -> None:
        """Let calls fail after their effect, which the caller cannot know.

        Args:
            calls: The methods.
            paths: Which paths, as a pattern with ``*`` for anything, ``/`` included.
            times: How many such calls; None for all until ``heal``.
            reason: What the error says.
        """
        self._add(_Fault(calls, paths, times, reason, is_done=True))

    def heal(self) -> None:
        """Let no more calls fail."""
        with self._lock:
            self._faults.clear()

    def _add(self, fault: _Fault) -> None:
        with self._lock:
            self._faults.append(fault)

    # ------------------------------------------------------------------------------------------------------ the storage

    def full_path(self, path: str) -> str:
        """Return a path as a person would give it."""
        return self._storage.full_path(path)

    def find(
        self, path: str, *, at_most: int | None = None, seen: dict[str, os.stat_result] | None = None
    ) -> bytes | None:
        """Return the bytes of a file, None when there is none; a file of more bytes than `at_most` is not read."""
        return self._call("find", [path], lambda: self._storage.find(path, at_most=at_most, seen=seen))

    def read_sized(self, path: str, size: int) -> bytes:
        """Return the bytes of a file that has to be there with a certain size; it fails where ``find`` does."""
        return self._call("find", [path], lambda: self._storage.read_sized(path, size))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return a part of a file; raise CorruptCheckpointError if the file is missing or too short."""
        return self._call("read_range", [path], lambda: self._storage.read_range(path, start, length))

    def is_link(self, path: str) -> bool:
        """Tell whether a file or directory is a link to another place."""
        return self._storage.is_link(path)

    def why_exposed(self, path: str) -> tuple[str, str] | None:
        """Return the full path and a clause where others can change a file or directory; else None."""
        return self._storage.why_exposed(path)

    def put(self, path: str, data: bytes) -> None:
        """Write a file, durable on return; a file of that name is replaced in one step."""
        self._call("put", [path], lambda: self._storage.put(path, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file unless its name is taken; tell whether this call has written it."""
        return self._call("put_if_absent", [path], lambda: self._storage.put_if_absent(path, data))

    def move(self, path: str, name: str) -> None:
        """Give a file another name, durable on return; done again, it changes nothing."""
        self._call("move", [name, path], lambda: self._storage.move(path, name))

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; missing ones are ignored."""
        listed = list(paths)
        self._call("delete", listed, lambda: self._storage.delete(listed))

    def names(self, directory: str) -> list[str]:
        """Return the names right below a directory ("" for the root), files and directories, sorted."""
        return self._call("names", [directory], lambda: self._storage.names(directory))

    def files(self, directory: str) -> list[StoredFile]:
        """Return all files below a directory, at any depth, sorted by path."""
        return self._call("files", [directory], lambda: self._storage.files(directory))

    def _call(self, call: StorageCall, paths: list[str], work: Callable[[], _T]) -> _T:
        fault = self._fault(call, paths)
        if fault is None:
            return work()
        if fault.is_done:
            work()
        raise CheckpointStorageError(self.full_path(paths[0]), fault.reason)

    def _fault(self, call: StorageCall, paths: list[str]) -> _Fault | None:
        """Return what makes a call fail, and count it."""
        with self._lock:
            fault = next((fault for fault in self._faults if fault.concerns(call, paths)), None)
            if fault is not None and fault.times is not None:
                fault.times -= 1
            return fault
