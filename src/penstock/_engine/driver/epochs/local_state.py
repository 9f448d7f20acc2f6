"""The directory in which the tasks of one run keep state on the local disk.

Each run has its own: two jobs may have the same id, and tasks of a replaced driver may still run. It is a cache of
checkpoints, so it is deleted with its driver, or after a kill by the next driver's start.
"""

from __future__ import annotations

import contextlib
import shutil
import weakref
from typing import TYPE_CHECKING

from penstock._engine.storage.ownership import why_not_own
from penstock._engine.storage.scratch import DirectoryLock, is_dead

if TYPE_CHECKING:
    from pathlib import Path


class LocalStateDirectory:
    """The directory of one run, locked while its driver lives; tasks make their own directories in it.

    Args:
        parent: The directory of all runs on this machine.
        run_id: The run.
    """

    def __init__(self, parent: Path, run_id: str) -> None:
        self.path = parent / run_id
        self._let_go: weakref.finalize[[], LocalStateDirectory] | None = None

    def hold(self) -> None:
        """Lock the directory, once, and delete those of runs whose drivers are dead.

        If that is impossible, as on a driver without such a disk, only the tasks use it.
        """
        if self._let_go is not None:
            return
        with contextlib.suppress(OSError):
            parent = self.path.parent
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = parent / f".{self.path.name}"  # not visible before it is locked
            draft.mkdir(mode=0o700)
            self._let_go = weakref.finalize(self, DirectoryLock(draft).close)
            draft.rename(self.path)
            for other in parent.iterdir() if why_not_own(parent) is None else ():
                if not other.name.startswith(".") and why_not_own(other) is None and is_dead(other):
                    shutil.rmtree(other, ignore_errors=True)

    def remove(self) -> None:
        """Delete the directory."""
        if self._let_go is not None:
            self._let_go()
        shutil.rmtree(self.path, ignore_errors=True)
