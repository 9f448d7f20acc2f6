"""Opening checkpoint storage by its URL or path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from penstock._engine.storage.local import LocalStorage
from penstock.errors import CheckpointStorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.storage.checkpoint_storage import CheckpointStorage


def local_path(path: str) -> str:
    """Return a path that Flink would write as ``file:/…`` without that; any other one as it is.

    Raises:
        CheckpointStorageError: It is a URL that cannot be.

    Example:
        >>> local_path("file:/data/a%20b"), local_path("file:///data"), local_path("s3://bucket/data")
        ('/data/a b', '/data', 's3://bucket/data')
    """
    parts = _split(path)
    return unquote(parts.path) if parts.scheme == "file" else path


def open_storage(url: str, options: Mapping[str, str] | None = None) -> CheckpointStorage:
    """Open the storage at a URL or local path.

    Args:
        url: A local path, or a URL with the scheme file, s3, gs, az (and their longer names) or memory.
        options: Options of the object store, such as ``aws_region``; credentials come from the environment otherwise.

    Raises:
        CheckpointStorageError: There is no such kind of storage, or it cannot be set up.
    """
    parts = _split(url)
    if parts.scheme == "file":
        return LocalStorage(Path(unquote(parts.path)))
    if not parts.scheme or len(parts.scheme) == 1:  # one letter is a drive of Windows
        return LocalStorage(Path(url))
    # Imported here, because obstore takes long to import, and local directories do without it.
    from penstock._engine.storage.object_store import open_object_store

    return open_object_store(url, dict(options or {}))


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise CheckpointStorageError(url, str(error)) from None
