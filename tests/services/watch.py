"""Ends the servers of tests once the processes that use them are gone, whatever has ended these."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM: Final = (
    'cat "$1" > /dev/null; kill -"$2" "$3"; while kill -0 "$3" 2> /dev/null; do sleep 0.1; done; rm -rf "$4"'
)


class Watch:
    """A process that waits for the end of others, then ends a server and removes its directory.

    Args:
        server: The server's process.
        place: Its directory.
        sign: The signal that ends it.
        users: A named pipe that each of its users has open for writing; by default this process is its only user.
    """

    def __init__(self, server: int, place: Path, sign: str = "KILL", users: Path | None = None) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", _PROGRAM, "watch", users or "-", sign, str(server), place],
            stdin=subprocess.PIPE if users is None else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self) -> None:
        """Watch no longer; the server stays as it is."""
        self._process.kill()
        self._process.communicate()

    def let_go(self) -> int:
        """Leave it to another process to stop this one, by the number that is returned."""
        self._process.returncode = 0
        return self._process.pid
