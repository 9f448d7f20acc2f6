"""The local versions in the directory of a subtask: they are found, and made."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING
from uuid import uuid4

import lmdb
import msgspec

from penstock._engine.state.local.environment import not_usable, open_environment
from penstock._engine.state.local.local_version import LAYOUT, NOWHERE, LocalVersion

if TYPE_CHECKING:
    from pathlib import Path


def find_versions(directory: Path, key_groups: range, max_parallelism: int) -> list[LocalVersion]:
    """Return the versions in a subtask's directory that hold a committed state of these key groups."""
    versions: list[LocalVersion] = []
    for path in _opened(directory):
        try:
            version = LocalVersion(open_environment(path), key_groups, max_parallelism)
        except (lmdb.Error, OSError, msgspec.MsgspecError):
            continue  # damaged, or being removed: the checkpoint has the whole state
        meta = version.meta
        own = (LAYOUT, (key_groups.start, key_groups.stop - 1), max_parallelism)
        if meta.position != NOWHERE and (meta.layout, meta.key_groups, meta.max_parallelism) == own:
            versions.append(version)
    return versions


def new_version(directory: Path, key_groups: range, max_parallelism: int) -> LocalVersion:
    """Create an empty version, and remove old versions except the last used.

    A process that still uses a removed version continues in the unlinked files.

    Raises:
        LocalStateError: The disk refuses the write.
    """
    old = sorted(_opened(directory), key=_last_use)
    for path in old[:-1]:
        shutil.rmtree(path, ignore_errors=True)
    path = directory / f"version-{uuid4().hex[:16]}"
    try:
        path.mkdir(mode=0o700)
        environment = open_environment(path)
    except (lmdb.Error, OSError) as error:
        raise not_usable(directory, error) from error
    return LocalVersion(environment, key_groups, max_parallelism)


def _opened(directory: Path) -> list[Path]:
    """Return the versions there; another attempt at the subtask may just have made one, and not opened it yet."""
    return [path for path in directory.glob("version-*") if (path / "data.mdb").exists()]


def _last_use(path: Path) -> float:
    try:
        return (path / "data.mdb").stat().st_mtime
    except OSError:
        return 0.0
