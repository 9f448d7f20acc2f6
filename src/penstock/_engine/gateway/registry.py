"""The running jobs of this user on this machine: one small file for each, so that nobody has to know an address.

A driver writes the file of its job once the job has its id, and removes it at the job's end. Entries of processes that
were killed are left out by whoever reads, and removed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator


class Entry(msgspec.Struct, frozen=True):
    """Where a job can be asked."""

    job_id: str
    name: str
    #: The REST server, such as http://127.0.0.1:8081.
    address: str
    pid: int
    host: str
    #: In epoch milliseconds.
    started_ms: int

    @staticmethod
    def of_this_process(job_id: str, name: str, address: str, started_ms: int) -> Entry:
        """Return the entry of a job that runs in this process."""
        return Entry(job_id, name, address, os.getpid(), socket.gethostname(), started_ms)

    @property
    def is_stale(self) -> bool:
        """Whether its process is gone; one on another machine counts as alive."""
        if self.host != socket.gethostname() or self.pid == os.getpid():
            return False
        if sys.platform == "win32":
            return False  # os.kill would end the process there
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # the number belongs to somebody else's process now
            return True
        return False


class Registry:
    """The directory with the entries.

    Args:
        directory: Where it is; made when the first entry is written.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._own: set[Path] = set()

    def add(self, entry: Entry) -> None:
        """Write an entry of this process; where that fails, the job is only found by its address."""
        path = self._directory / f"{entry.job_id}-{entry.pid}.json"
        half = path.with_suffix(".new")
        with contextlib.suppress(OSError):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            half.write_bytes(msgspec.json.encode(entry))
            half.replace(path)
            self._own.add(path)

    def remove(self, job_id: str) -> None:
        """Remove the entry of a job of this process."""
        for path in [path for path in self._own if path.name.startswith(f"{job_id}-")]:
            self._forget(path)

    def clear(self) -> None:
        """Remove all entries of this process."""
        for path in list(self._own):
            self._forget(path)

    def _forget(self, path: Path) -> None:
        self._own.discard(path)
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)

    def entries(self) -> list[Entry]:
        """Return the entries of processes that are alive, oldest first, and remove all others."""
        return sorted(self._alive(), key=lambda entry: (entry.started_ms, entry.job_id))

    def _alive(self) -> Iterator[Entry]:
        for path in self._directory.glob("*.json"):
            try:
                entry = msgspec.json.decode(path.read_bytes(), type=Entry)
            except (OSError, msgspec.DecodeError):
                continue  # removed meanwhile, or no entry
            if not entry.is_stale:
                yield entry
                continue
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def default_directory() -> Path:
    """Return where this user's entries are: ``penstock/jobs`` below the place for a user's state.

    ``PENSTOCK_REST__REGISTRY_DIR`` names another one: it is `penstock.rest.registry-dir` in the environment.
    """
    given = os.environ.get("PENSTOCK_REST__REGISTRY_DIR")
    if given:
        return Path(given)
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return base / "penstock" / "jobs"
