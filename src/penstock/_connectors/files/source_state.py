"""The state of a file source: its splits, and the checkpoint of its enumerator with its serializer."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock._api.connectors.serializer import SimpleVersionedSerializer
from penstock._api.connectors.split import SourceSplit
from penstock._connectors.files.discovery import WaitingFile
from penstock._connectors.files.filesystem import FileStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._formats.parts import FilePart


@dataclass(frozen=True, slots=True)
class FileSourceSplit(SourceSplit):
    """A part of a file, and its read position.

    Source: org.apache.flink.connector.file.src.FileSourceSplit with its CheckpointedPosition.
    """

    file: FileStatus
    part: FilePart
    #: The number of emitted records after the part's position, because formats have positions only between blocks.
    skip: int = 0

    def split_id(self) -> str:
        """Return the path and the start of the part; several growing files may have had the same path."""
        inode = "" if self.file.tail is None else f"#{self.file.inode}"
        return f"{self.file.path}{inode}@{self.part.start}"


@dataclass(frozen=True, slots=True)
class FileCheckpoint:
    """The checkpoint of a file source's enumerator.

    Args:
        splits: The unassigned parts.
        taken: The status of every taken file.
        waiting: The files that may still be written.
    """

    splits: tuple[FileSourceSplit, ...] = ()
    taken: Mapping[str, FileStatus] = field(default_factory=dict[str, FileStatus])
    waiting: Mapping[str, WaitingFile] = field(default_factory=dict[str, WaitingFile])


class FileCheckpointSerializer(SimpleVersionedSerializer[FileCheckpoint]):
    """Writes statuses as columns, because there may be many, and each checkpoint has all of them."""

    def get_version(self) -> int:
        """Return 1, the only version."""
        return 1

    def serialize(self, obj: FileCheckpoint) -> bytes:
        """Return the bytes of a checkpoint."""
        waiting = list(obj.waiting.values())
        return pickle.dumps(
            {
                "splits": obj.splits,
                "taken": _columns(obj.taken.values()),
                "waiting": _columns(one.status for one in waiting),
                "unchanged_ms": [one.unchanged_ms for one in waiting],
            }
        )

    def deserialize(self, version: int, serialized: bytes) -> FileCheckpoint:
        """Return the checkpoint from its bytes."""
        state = pickle.loads(serialized)
        taken = {status.path: status for status in _statuses(state["taken"])}
        statuses = zip(_statuses(state["waiting"]), state["unchanged_ms"], strict=True)
        waiting = {status.path: WaitingFile(status, unchanged_ms) for status, unchanged_ms in statuses}
        return FileCheckpoint(tuple(state["splits"]), taken, waiting)


def _columns(statuses: Iterable[FileStatus]) -> tuple[list[Any], ...]:
    rows = [
        (status.path, status.size, status.modified_ms, status.etag, status.inode, status.tail) for status in statuses
    ]
    return tuple(map(list, zip(*rows, strict=True)))


def _statuses(columns: tuple[list[Any], ...]) -> list[FileStatus]:
    return [FileStatus(*row) for row in zip(*columns, strict=True)]
