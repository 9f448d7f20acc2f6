"""Opening checkpoint storage by its URL or path."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.protocol.signing import SigningKeys
from penstock._engine.storage.local import LocalStorage
from penstock._files.s3 import is_s3_setting
from penstock.common import option_table
from penstock.common.batch_options import HA_STORAGE
from penstock.common.configuration import Configuration
from penstock.common.paths import absolute_path, plain_path, real_path, scheme_of
from penstock.errors import CheckpointStorageError, PathError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from penstock._engine.storage.checkpoint_storage import FileStorage


#: The options of all storage, in addition to the options of object stores.
_OPTIONS: Final = frozenset({option_table.STATE_PRIVATE.key, option_table.STATE_SIGNING_KEY.key})


def local_path(path: str) -> str:
    """Return a path without Flink's prefix ``file:/…``, and a URL in its normal form.

    Raises:
        CheckpointStorageError: The URL is invalid.

    Example:
        >>> local_path("file:/data/a%20b"), local_path("file:///data"), local_path("s3://bucket/data")
        ('/data/a b', '/data', 's3://bucket/data')
    """
    with _as_storage_error():
        return plain_path(path)


def absolute(path: str) -> str:
    """Return the absolute form of a path, relative to the current working directory.

    Raises:
        CheckpointStorageError: The path is invalid, or probably a mistake.
    """
    with _as_storage_error():
        return absolute_path(path)


@contextlib.contextmanager
def _as_storage_error() -> Generator[None]:
    try:
        yield
    except PathError as error:
        raise CheckpointStorageError(error.path, error.reason) from None


def checkpoint_directory(configuration: Configuration, *, recovers: bool) -> str | None:
    """Return the checkpoint directory of a job: for a batch job with recovery, perhaps that of its events."""
    own = configuration.get(option_table.CHECKPOINT_DIRECTORY)
    return own if own or not recovers else configuration.get(HA_STORAGE)


def storage_options(configuration: Configuration) -> dict[str, str]:
    """Return the storage options of a configuration, including the secrets of object stores.

    Example:
        >>> from penstock.common import Configuration
        >>> storage_options(Configuration().set_string("s3.region", "eu-west-1").set_string("pipeline.name", "orders"))
        {'s3.region': 'eu-west-1'}
    """
    return {key: value for key, value in configuration.to_dict().items() if is_s3_setting(key) or key in _OPTIONS}


def options_for_tasks(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options for tasks, without signing keys: tasks write no chain entries."""
    return {key: value for key, value in options.items() if key != option_table.STATE_SIGNING_KEY.key}


def open_storage(url: str, options: Mapping[str, str] | None = None) -> FileStorage:
    """Open the storage at a URL or local path.

    Args:
        url: A local path, or a URL with the scheme file, s3, gs, az (and their longer names) or memory.
        options: The options of the object store: Flink's ``s3.…`` keys, or keys of ``obstore`` such as ``aws_region``.
            The environment supplies the others. Of ours ``penstock.state.…``, how files are written.

    Raises:
        CheckpointStorageError: The scheme is unknown, or the store cannot be set up.
    """
    place, given = local_path(url), dict(options or {})
    own = Configuration.from_dict({key: given.pop(key) for key in _OPTIONS & given.keys()})
    if not scheme_of(place):
        storage: FileStorage = LocalStorage(Path(place), private=own.get(option_table.STATE_PRIVATE))
    else:
        # Imported here, because obstore takes long to import, and local directories do without it.
        from penstock._engine.storage.object_store import ObjectStorage

        storage = ObjectStorage(place, given)
    storage.options = dict(options or {})
    storage.keys = SigningKeys.of(own.get(option_table.STATE_SIGNING_KEY))
    return storage


def without_links(path: str) -> str:
    """Return the path of a savepoint or checkpoint with its links resolved, because storage follows no links.

    If its last two names are no links, the path is returned unchanged.
    """
    if scheme_of(path) or not (os.path.islink(path) or os.path.islink(os.path.dirname(path))):  # noqa: PTH114, PTH120
        return path
    return real_path(path)


def above(directory: str) -> tuple[str, str]:
    """Split off the last name of a path or URL; for a bucket that name is "".

    Example:
        >>> above("/data/savepoints/one"), above("s3://bucket/one"), above("s3://bucket")
        (('/data/savepoints', 'one'), ('s3://bucket', 'one'), ('s3://bucket', ''))
    """
    parent, _, name = directory.rpartition("/")
    return (directory, "") if parent.endswith(":/") else (parent, name)
