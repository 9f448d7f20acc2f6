"""The process of a server: how it starts, how it ends, and what else ends it."""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any, Final

from tests.services.cache import ServiceError
from tests.services.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

#: Longest wait until it answers; a busy machine is slow.
_PATIENCE_S: Final = 120
#: Ports of servers: those of clients, which the system chooses, lie above.
_PORTS: Final = range(12_000, 32_000)
#: Longest wait for the end of one that is asked to end.
_END_S: Final = 20


def free_port() -> int:
    """Return the number of a port on loopback that nobody listens to, and that no client gets by chance meanwhile."""
    while True:
        port = secrets.choice(_PORTS)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


class ServerProcess:
    """A server that may be started and ended again and again; a watch ends it when this process is gone.

    Args:
        name: What messages call it.
        place: Its directory, which goes with it if the watch ends it; its log lies there.
        sign: The signal by which the watch ends it.
    """

    def __init__(self, name: str, place: Path, sign: str = "KILL") -> None:
        self._name, self._place, self._sign = name, place, sign
        self.log = place / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: Watch | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, command: Sequence[str | Path], answers: Callable[[], bool], **settings: Any) -> None:
        """Start it, and wait until it answers.

        Args:
            command: The program and its arguments.
            answers: Tells whether it does.
            settings: Of ``subprocess.Popen``, in place of the usual ones.
        """
        with self.log.open("ab") as log:
            usual: dict[str, Any] = {"cwd": self._place, "stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            alone = {"start_new_session": True}  # Ctrl-C is for the tests
            process = self._process = subprocess.Popen(command, **{**usual, **alone, **settings})
        self._watch = Watch(process.pid, self._place, self._sign)
        deadline = time.monotonic() + _PATIENCE_S
        while not answers():
            if process.poll() is not None or time.monotonic() > deadline:
                said = self.log.read_text(errors="replace")
                raise ServiceError(f"{self._name} does not answer:\n{said[-2000:]}")
            time.sleep(0.05)

    def end(self, sign: signal.Signals = signal.SIGKILL) -> None:
        """Send it a signal and wait for its end; nothing happens where it does not run."""
        process, self._process = self._process, None
        if process is None or self._watch is None:
            return
        self._watch.stop()
        process.send_signal(sign)
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def let_go(self) -> int:
        """Leave it to others to end it, by the number that is returned."""
        assert self._process is not None
        assert self._watch is not None
        self._watch.stop()
        self._process.returncode = 0
        return self._process.pid
