"""A sink in two phases whose target is a folder: writers stage in memory, the committer publishes whole files."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import TYPE_CHECKING, Any

from penstock.datastream.connectors.base import Committer, CommittingSinkWriter, Sink, SupportsCommitter

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.datastream import DataStream, DataStreamSink

#: What a committer needs: the name to publish under, and the records.
Committable = tuple[str, tuple[Any, ...]]


class FolderSink(Sink[Any], SupportsCommitter[Committable]):
    """Publishes the records of each writer and checkpoint as one file; the name of a file is given away once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create_writer(self, context: Any) -> FolderWriter:
        return FolderWriter(context)

    def create_committer(self, context: Any) -> FolderCommitter:
        return FolderCommitter(self.folder)


class FolderWriter(CommittingSinkWriter[Any, Committable]):
    def __init__(self, context: Any) -> None:
        self.context = context
        self.records: list[Any] = []

    def write(self, element: Any, context: Any) -> None:
        self.records.append(element)

    def flush(self, end_of_input: bool) -> None:
        pass

    def prepare_commit(self) -> list[Committable]:
        records, self.records = tuple(self.records), []
        return [(f"{self.context.subtask_id}-{self.context.attempt_token}", records)] if records else []


class FolderCommitter(Committer[Committable]):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def commit(self, requests: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for request in requests:
            name, records = request.get_committable()
            (self.folder / name).write_bytes(pickle.dumps(records))


def write(stream: DataStream, folder: Path, writers: int = 1) -> DataStreamSink:
    """Have the records of a stream published in a folder."""
    return stream.sink_to(FolderSink(folder)).name(f"Sink: {folder.name}").set_parallelism(writers)


def published(folder: Path) -> Counter[Any]:
    """Return how often each record is in a folder."""
    files = sorted(folder.glob("*"))
    return Counter(record for file in files for record in pickle.loads(file.read_bytes()))
