"""What tests download or build once for all runs of this user: a directory for each version of each thing."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Names another place for what is kept.
VARIABLE = "PENSTOCK_SERVICES"
#: Of the output of a command that failed.
SHOWN_LINES = 25


class ServiceError(Exception):
    """A server for tests cannot be had, or does not come up."""


def kept(name: str, fill: Callable[[Path], None], root: Path | None = None) -> Path:
    """Return a directory that is filled at its first use, beside its place: one that is there is whole.

    Args:
        name: Its name, with the version of what is in it.
        fill: Fills an empty directory.
        root: Where it is; by default where all of them are.
    """
    root = root or Path(os.environ.get(VARIABLE) or Path.home() / ".cache" / "penstock-services")
    root.mkdir(parents=True, exist_ok=True)
    place = root / name
    with (root / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs of tests do not do the same work at once
        if not place.is_dir():
            new = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=root))
            try:
                fill(new)
                new.rename(place)
            finally:
                shutil.rmtree(new, ignore_errors=True)
    return place


def run(what: str, *command: str | Path, variables: Mapping[str, str] | None = None) -> None:
    """Run a command to its end, at low priority; where it fails, raise with its last lines."""
    done = subprocess.run(
        ["nice", *map(str, command)],
        env={**os.environ, **(variables or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-SHOWN_LINES:])
        raise ServiceError(f"{what} failed (exit code {done.returncode}):\n{tail}")
