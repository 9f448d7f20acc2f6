"""What programs keep of their streams below a checkpoint directory, and that is left of dead ones.

On a disk the lock of the program tells, on its own host; in a bucket only the age: what was kept there a day ago and
has not changed since counts as left over. A program that lives all the same computes its cached streams anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.caches.place import KEPT, of_this_host
from penstock._engine.savepoints.survey import Leftover, LeftoverKind, UnclearLeftover
from penstock._engine.storage.local import LocalStorage
from penstock._engine.storage.scratch import is_dead, remove_dead

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.storage.checkpoint_storage import FileStorage

_DAY_MS: Final = 86_400_000


def kept_leftovers(storage: FileStorage, oldest_ms: int, unclear: list[UnclearLeftover]) -> Iterator[Leftover]:
    """Iterate what dead programs have kept below a checkpoint directory.

    Args:
        storage: The checkpoint directory.
        oldest_ms: What was changed after this time is ignored.
        unclear: Gets what programs of other hosts keep, which may be alive.
    """
    is_local = isinstance(storage, LocalStorage)
    of_here = {path.name for path in of_this_host(Path(storage.full_path(KEPT)))} if is_local else set[str]()
    for program in storage.names(KEPT):
        name = f"{KEPT}/{program}"
        path = storage.full_path(name)
        files = [] if storage.is_link(name) else storage.files(name)
        changed_ms = max((file.modified_ms for file in files), default=0)
        if not files or changed_ms > oldest_ms - (0 if is_local else _DAY_MS):
            continue
        if is_local and program not in of_here:
            unclear.append(UnclearLeftover(path, "a program of another host keeps it; look there"))
        elif not is_local or is_dead(Path(path)):
            reason = "the program that kept it has ended" if is_local else "it has not changed for a day"
            size = sum(file.size for file in files)
            yield Leftover(LeftoverKind.KEPT_STREAM, path, size, reason, changed_ms, storage.url, name)


def remove_kept(storage: FileStorage, name: str) -> str | None:
    """Remove what `kept_leftovers` found; return why it could not be removed, else None."""
    if not isinstance(storage, LocalStorage):
        storage.delete([file.path for file in storage.files(name)])
        return None
    directory = Path(storage.full_path(name))
    remove_dead(directory)
    return "a program uses it now" if directory.exists() else None
