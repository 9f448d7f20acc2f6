"""Checkpoint storage in an object store (S3, Google Cloud Storage, Azure) or in memory, through ``obstore``.

A store that has never answered is given up after some seconds, so that a wrong address is reported while the user waits
for the start. For a store that has answered before, requests are repeated for longer.
"""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from penstock._engine.storage.checkpoint_storage import FileStorage, StoredFile
from penstock._files.store_errors import is_missing, reason_of
from penstock._files.stores import bucket_and_key, open_store
from penstock.common.paths import scheme_of
from penstock.errors import CheckpointStorageError, CorruptCheckpointError

if TYPE_CHECKING:
    import os
    from collections.abc import Generator, Iterable

    from obstore.store import ClientConfig, ObjectStore, RetryConfig

#: The number of files that one request deletes. S3 accepts five times as many, but a slow server would then not answer
#: in time.
_DELETED_AT_ONCE: Final = 200
#: The number of parts of a large file that are sent at the same time, small for slow connections.
_PARTS_AT_ONCE: Final = 6
_IMPATIENT: Final[RetryConfig] = {
    "max_retries": 3,
    "retry_timeout": timedelta(seconds=5),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1), "base": 2},
}
#: The pauses are random between the first one and the base times the one before: with a base of 2 they hardly grow, and
#: fifteen of them may be over in three seconds. So the time alone limits how often is asked again.
_PATIENT: Final[RetryConfig] = {
    "max_retries": 1_000,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 4},
}
#: Within this time some bytes must arrive; the total time of a large file is not limited.
_TIMEOUTS: Final[ClientConfig] = {"connect_timeout": "5s", "read_timeout": "30s", "timeout": "30m"}


class ObjectStorage(FileStorage):
    """Checkpoint storage below a URL of an object store.

    Args:
        url: The URL, for messages and for tasks.
        options: Of the store: Flink's ``s3.…`` keys, and keys of ``obstore``.

    Raises:
        CheckpointStorageError: The store is misconfigured, or of no known kind.
    """

    def __init__(self, url: str, options: dict[str, str]) -> None:
        self.url = url
        self._options = options
        try:
            self._store = open_store(url, options, _TIMEOUTS, _IMPATIENT)
        except (BaseError, ValueError) as error:
            raise CheckpointStorageError(url, reason_of(error)) from error
        self._has_answered = False
        self._bucket_store: ObjectStore | None = None

    def find(
        self, path: str, *, at_most: int | None = None, seen: dict[str, os.stat_result] | None = None
    ) -> bytes | None:
        """Return the bytes of a file, None when there is none; a file of more bytes than `at_most` is not read."""
        del seen  # who can write to a bucket is not told by its files
        with self._naming(path):
            try:
                found = obstore.get(self._store, path)
                self._check_most(path, found.meta["size"], at_most)
                return bytes(found.bytes())
            except FileNotFoundError as error:
                if is_missing(error):
                    return None
                raise

    def read_sized(self, path: str, size: int) -> bytes:
        """Return the bytes of a file that has to be there with a certain size; any other one is not read."""
        with self._expecting(path):
            found = obstore.get(self._store, path)
            self._check_size(path, found.meta["size"], size)
            return bytes(found.bytes())

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return a part of a file; raise CorruptCheckpointError if the file is missing or too short."""
        if length == 0:
            return b""
        with self._expecting(path):
            try:
                data = bytes(obstore.get_range(self._store, path, start=start, length=length))
            except FileNotFoundError:
                raise
            except BaseError:
                if obstore.head(self._store, path)["size"] > start:
                    raise
                data = b""  # stores refuse a range that begins after the end
        if len(data) < length:
            raise CorruptCheckpointError(self.full_path(path), f"it ends before byte {start + length}")
        return data

    def put(self, path: str, data: bytes) -> None:
        """Write a file, durable on return; a file of that name is replaced in one step."""
        with self._naming(path):
            obstore.put(self._store, path, data, max_concurrency=_PARTS_AT_ONCE)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file unless its name is taken; tell whether this call has written it."""
        with self._naming(path):
            try:
                obstore.put(self._store, path, data, mode="create")
            except (AlreadyExistsError, PreconditionError):
                return False
        return True

    def copy_from(self, source: FileStorage, path: str, name: str, *, size: int | None = None) -> None:
        """Write a file of another storage under a name here; within a bucket the store moves the bytes."""
        if not isinstance(source, ObjectStorage) or not self._copy_inside(source, path, name):
            super().copy_from(source, path, name, size=size)

    def _copy_inside(self, source: ObjectStorage, path: str, name: str) -> bool:
        """Copy within one bucket; return False for other files, or if the store cannot copy it (S3: above 5 GB)."""
        if source._store is self._store:
            bucket = self._store
        elif (there := _bucket(self.url)) is not None and there == _bucket(source.url):
            if self._bucket_store is None:
                self._bucket_store = open_store(there, self._options, _TIMEOUTS, _PATIENT)
            bucket = self._bucket_store
            path, name = bucket_and_key(source.full_path(path))[1], bucket_and_key(self.full_path(name))[1]
        else:
            return False
        try:
            obstore.copy(bucket, path, name)
        except (BaseError, OSError):
            return False  # the ordinary copy succeeds, or fails with the reason
        return True

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, in any order; missing ones are ignored."""
        listed = list(paths)
        for start in range(0, len(listed), _DELETED_AT_ONCE):
            some = listed[start : start + _DELETED_AT_ONCE]
            with self._naming(some[0]):
                try:
                    obstore.delete(self._store, some)
                except FileNotFoundError:  # this store fails at a missing file, and leaves the others
                    self._delete_each(some)

    def _delete_each(self, paths: list[str]) -> None:
        for path in paths:
            try:
                obstore.delete(self._store, path)
            except FileNotFoundError as error:
                if not is_missing(error):
                    raise

    def names(self, directory: str) -> list[str]:
        """Return the names right below a directory ("" for the root), files and directories, sorted."""
        with self._naming(directory):
            listed = obstore.list_with_delimiter(self._store, directory or None)  # pyright: ignore[reportUnknownMemberType]
        below = [*listed["common_prefixes"], *(meta["path"] for meta in listed["objects"])]
        return sorted(path.rstrip("/").rpartition("/")[2] for path in below)

    def files(self, directory: str) -> list[StoredFile]:
        """Return all files below a directory, at any depth, sorted by path."""
        with self._naming(directory):
            chunks = obstore.list(self._store, directory or None)  # pyright: ignore[reportUnknownMemberType]
            listed = [meta for chunk in chunks for meta in chunk]
        found = [
            StoredFile(meta["path"], meta["size"], int(meta["last_modified"].timestamp() * 1000)) for meta in listed
        ]
        return sorted(found, key=lambda file: file.path)

    @contextlib.contextmanager
    def _expecting(self, path: str) -> Generator[None]:
        """Raise CorruptCheckpointError for a missing file."""
        with self._naming(path):
            try:
                yield
            except FileNotFoundError as error:
                if is_missing(error):
                    raise CorruptCheckpointError(self.full_path(path), "it is gone") from None
                raise

    def wait_for_answers(self) -> None:
        """Ask again for a minute from now on, because the store has answered before."""
        if not self._has_answered:
            self._store = open_store(self.url, self._options, _TIMEOUTS, _PATIENT)
            self._has_answered = True

    @contextlib.contextmanager
    def _naming(self, path: str) -> Generator[None]:
        """Turn an error of the store into ours, which names the path; and note that it has answered."""
        try:
            yield
        except (UnauthenticatedError, PermissionDeniedError) as error:
            reason = f"the store refuses access with the credentials that it was given ({reason_of(error)})"
            raise CheckpointStorageError(self.full_path(path), reason) from error
        except (BaseError, OSError, ValueError) as error:
            raise CheckpointStorageError(self.full_path(path), reason_of(error)) from error
        self.wait_for_answers()


def _bucket(url: str) -> str | None:
    """Return the root of a bucket; None for URLs in which only the path shows the end of the bucket's name."""
    plain = scheme_of(url) in {"s3", "gs", "az", "adl", "abfs", "abfss"}
    return bucket_and_key(url)[0] if plain else None
