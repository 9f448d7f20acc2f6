"""The checkpoint of a file source's enumerator, and its serializer."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._api.connectors.serializer import SimpleVersionedSerializer
from penstock._connectors.files.discovery import WaitingFile
from penstock._connectors.files.filesystem import FileStatus
from penstock.common.paths import plain_path, scheme_of, without_steps_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._connectors.files.source import FileSourceSplit


@dataclass(frozen=True, slots=True)
class FileCheckpoint:
    """The checkpoint of a file source's enumerator.

    Args:
        splits: The unassigned parts.
        taken: The status of every taken file; None in checkpoints of version 1.
        waiting: The files that may still be written.
    """

    splits: tuple[FileSourceSplit, ...] = ()
    taken: Mapping[str, FileStatus | None] = field(default_factory=dict[str, "FileStatus | None"])
    waiting: Mapping[str, WaitingFile] = field(default_factory=dict[str, WaitingFile])

    def __setstate__(self, state: list[Any]) -> None:
        # Version 1 was a pickle of this class with two fields: the splits, and the paths of all files.
        splits, taken = state[0], state[1]
        waiting: dict[str, WaitingFile] = state[2] if len(state) > 2 else {}
        for name, value in (
            ("splits", splits),
            ("taken", taken if len(state) > 2 else dict.fromkeys(name for path in taken for name in _names_now(path))),
            ("waiting", waiting),
        ):
            object.__setattr__(self, name, value)


class FileCheckpointSerializer(SimpleVersionedSerializer[FileCheckpoint]):
    """Writes statuses as columns, because there may be many, and each checkpoint has all of them."""

    def get_version(self) -> int:
        """Return 3; version 1, and 2 without inodes and tails, can be read."""
        return 3

    def serialize(self, obj: FileCheckpoint) -> bytes:
        """Return the bytes of a checkpoint."""
        waiting = list(obj.waiting.values())
        unknown = [path for path, status in obj.taken.items() if status is None]
        return pickle.dumps(
            {
                "splits": obj.splits,
                "taken": _columns(status for status in obj.taken.values() if status is not None),
                "taken_before": unknown,
                "waiting": _columns(one.status for one in waiting),
                "unchanged_ms": [one.unchanged_ms for one in waiting],
            }
        )

    def deserialize(self, version: int, serialized: bytes) -> FileCheckpoint:
        """Return the checkpoint from its bytes."""
        state = pickle.loads(serialized)
        if version == 1:
            return state
        taken: dict[str, FileStatus | None] = {status.path: status for status in _statuses(state["taken"])}
        taken |= dict.fromkeys(state["taken_before"])
        statuses = zip(_statuses(state["waiting"]), state["unchanged_ms"], strict=True)
        waiting = {status.path: WaitingFile(status, unchanged_ms) for status, unchanged_ms in statuses}
        return FileCheckpoint(tuple(state["splits"]), taken, waiting)


def _names_now(path: str) -> tuple[str, ...]:
    """Return the names that a listing may give a file; version 1 has names below the paths as they were given.

    Steps up are resolved when a path is given, except those after the wildcards of a glob. Names on disks were never
    parsed as URLs: a part that looks like an escape belongs to the name.
    """
    if scheme_of(path) not in {"", "file"}:
        return (plain_path(path),)
    local = plain_path(str(Path(path.removeprefix("file://")).absolute()))
    return local, without_steps_up(local)


def _columns(statuses: Iterable[FileStatus]) -> tuple[list[Any], ...]:
    rows = [
        (status.path, status.size, status.modified_ms, status.etag, status.inode, status.tail) for status in statuses
    ]
    return tuple(map(list, zip(*rows, strict=True)))


def _statuses(columns: tuple[list[Any], ...]) -> list[FileStatus]:
    return [FileStatus(*row) for row in zip(*columns, strict=True)]
