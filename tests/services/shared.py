"""One server for all processes of a run of tests: the first that enters starts it, and the last that leaves ends it.

Each has a named pipe open meanwhile. If all of them are killed, nobody has, and a watch ends the server.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.services.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


@contextlib.contextmanager
def shared(name: str, start: Callable[[Path], dict[str, Any]]) -> Generator[dict[str, Any]]:
    """Have the server of this run of tests, as its processes see it.

    Args:
        name: Of the server.
        start: Starts it in a directory, and returns what others need to know of it: its process by ``pid``, and more.
    """
    run_id = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"alone-{os.getpid()}")
    root = Path(tempfile.gettempdir()) / f"penstock-{name}-{run_id}"
    root.mkdir(exist_ok=True)
    users = root / "users"
    with _note(root) as note:
        if not note:
            note.update(start(root / "server"), users=0)
            os.mkfifo(users)
            note["watch"] = Watch(note["pid"], root, users=users).let_go()
        note["users"] += 1
        found = dict(note)
        using = os.open(users, os.O_WRONLY)  # waits until the watch has opened it, too
    try:
        yield found
    finally:
        with _note(root) as note:
            note["users"] -= 1
            if not note["users"]:
                for process in (note["watch"], note["pid"]):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                    with contextlib.suppress(ChildProcessError):  # another process of the run may have started it
                        os.waitpid(process, 0)
                shutil.rmtree(root, ignore_errors=True)
        os.close(using)


@contextlib.contextmanager
def _note(root: Path) -> Generator[dict[str, Any]]:
    """What the processes of the run know of the server; one at a time reads and changes it."""
    path = root / "note.json"
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        yield note
        if root.is_dir():
            path.write_text(json.dumps(note))
