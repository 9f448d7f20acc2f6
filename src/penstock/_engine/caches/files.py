"""Files that the tasks of one job write and that later jobs or queries of the same program read.

An attempt names its files by its token, and its committable lists them. The committer, in the program's process, notes
them; so a list is complete when the job has FINISHED, and nothing in a directory says so. Who can write there can
therefore add no file, and each file is checked against its digest before it is unpickled.
"""

from __future__ import annotations

import hashlib
import threading
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock._api.connectors.committer import Committer
from penstock._api.connectors.sink import CommittingSinkWriter, Sink, SupportsCommitter
from penstock._engine.storage.opening import open_storage
from penstock._files.job_options import store_options
from penstock.errors import CachedStreamError, CheckpointStorageError, CorruptCheckpointError

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock._api.connectors.committer import CommitRequest, CommitterInitContext
    from penstock._api.connectors.sink import SinkWriterContext, WriterInitContext
    from penstock._engine.storage.checkpoint_storage import FileStorage


#: So many files are checked at the same time.
_THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file, complete and never changed.

    Attributes:
        name: Its path below the directory of what is kept.
        size: Its bytes.
        digest: The SHA-256 of them.
        records: The number of records.
        schema: The Arrow schema of a Parquet file, as Arrow writes it; empty for a file of a cached stream.
    """

    name: str
    size: int
    digest: bytes
    records: int
    schema: bytes = b""


@dataclass(frozen=True, slots=True)
class CachedPart:
    """The committable: the files of one attempt, for one writing of one stream."""

    writing: str
    files: tuple[CachedFile, ...]


class CacheSink(Sink[Any], SupportsCommitter[CachedPart]):
    """Where one job writes a stream.

    Args:
        url: The directory of what is kept.
        writing: The name of the directory below it that this job alone writes to.
    """

    def __init__(self, url: str, writing: str) -> None:
        self.url = url
        self.writing = writing

    @abstractmethod
    def create_writer(self, context: WriterInitContext) -> CacheWriter:
        """Make the writer of a subtask."""

    def create_committer(self, context: CommitterInitContext) -> CacheCommitter:
        """Make what notes the files in this process."""
        del context
        return CacheCommitter(self.writing)


class CacheWriter(CommittingSinkWriter[Any, CachedPart]):
    """Writes files of one attempt after the other; a subclass says what is in them.

    Args:
        sink: Where to write.
        context: The writer's context.

    Raises:
        CheckpointStorageError: This host does not have the directory.
    """

    takes_batches = True

    def __init__(self, sink: CacheSink, context: WriterInitContext) -> None:
        self._writing = sink.writing
        self._context = context
        self._storage = open_storage(sink.url, store_options())
        reason = self._storage.why_absent()
        if reason is not None:
            raise CheckpointStorageError(sink.url, reason)
        self._files: list[CachedFile] = []

    def write(self, element: Any, context: SinkWriterContext) -> None:
        """Write one record; operators hand over batches."""
        self.write_all([element], [context.timestamp()])

    def prepare_commit(self) -> Collection[CachedPart]:
        """Return the files since the last call; an attempt that wrote none says so, too."""
        files, self._files = self._files, []
        return [CachedPart(self._writing, tuple(files))]

    def put(self, data: bytes, records: int, schema: bytes = b"") -> None:
        """Write a file."""
        context = self._context
        name = f"{self._writing}/{context.subtask_id}-{context.attempt_token}-{len(self._files)}"
        self._storage.put(name, data)
        self._files.append(CachedFile(name, len(data), hashlib.sha256(data).digest(), records, schema))


#: By writing: the committed files by name, or None where it is not the writing of the job alone.
_noted: dict[str, dict[str, CachedFile] | None] = {}
_lock: Final = threading.Lock()


class CacheCommitter(Committer[CachedPart]):
    """Notes the files of a job in the program's process.

    Args:
        writing: The directory that this job writes to.
    """

    def __init__(self, writing: str) -> None:
        self._writing = writing

    def commit(self, requests: Collection[CommitRequest[CachedPart]]) -> None:
        """Note them; done again, it changes nothing.

        A job that continues one of another process may commit what that one has written: its files are gone, and
        others of it may have been committed before. So nothing is known to be complete then.
        """
        with _lock:
            noted = _noted.setdefault(self._writing, {})
            for request in requests:
                part = request.get_committable()
                if part.writing != self._writing:
                    noted = _noted[self._writing] = None
                if noted is not None:
                    noted.update((file.name, file) for file in part.files)

    def close(self) -> None:
        """Do nothing."""


def take_noted(writing: str) -> tuple[CachedFile, ...] | None:
    """Return the files of a writing whose job has finished, and forget them; None where they are not all of it."""
    with _lock:
        noted = _noted.pop(writing, None)
    return None if noted is None else tuple(file for _, file in sorted(noted.items()))


def check_cached(storage: FileStorage, files: Collection[CachedFile]) -> None:
    """Read files, several at a time, and compare them with what was written.

    Raises:
        CachedStreamError: One of them is gone, or has changed.
        CheckpointStorageError: They cannot be read.
    """
    with ThreadPoolExecutor(_THREADS) as threads:
        for _ in threads.map(partial(_check, storage), files):
            pass


def _check(storage: FileStorage, file: CachedFile) -> None:
    read_cached(storage, file)


def read_cached(storage: FileStorage, file: CachedFile) -> bytes:
    """Return the bytes of a file.

    Raises:
        CachedStreamError: It is gone, or has changed.
    """
    path = storage.full_path(file.name)
    try:
        data = storage.read_sized(file.name, file.size)
    except CorruptCheckpointError as error:
        raise CachedStreamError(path, error.reason) from error
    if hashlib.sha256(data).digest() != file.digest:
        raise CachedStreamError(path, "it was changed or damaged (its bytes do not match their digest)")
    return data
