"""Keeps the JVM of our own session in a process session of its own, and ends it with its driver.

A program of its own, started by ``jvm`` with the standard library alone, so that it is there at once: it must import
nothing of Penstock. It leads the process session that the JVM and Spark's Python workers belong to, so a signal to the
driver's process group reaches none of them. Decision 16 has the reasons.

Usage: keeper.py DRIVER_PID COMMAND...

Its input is a pipe that the driver holds open; the JVM reads from it too, and ends when the pipe closes.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

#: The time in which the JVM, and then its workers, may end by themselves while the driver lives.
JVM_END_S, WORKERS_END_S = 10, 2
#: The interval of checks that the driver lives; a process forked by the driver may hold the pipe open.
_LOOK_S = 0.5
_PAUSE_S = 0.02
#: The state of a process that has ended and is not reaped yet.
_ENDED = "ZX"
#: The signals that shut down a machine or a control group: the driver decides what becomes of the job and of Spark.
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def keep(driver: int, command: list[str]) -> int:
    """Run the JVM while it and the driver live, end the remaining processes, and return the JVM's exit code.

    Args:
        driver: The process id of the driver.
        command: The command of the JVM, which inherits the ignored signals.
    """
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    jvm = subprocess.Popen(command)
    while jvm.poll() is None and os.getppid() == driver and not select.select([0], [], [], _LOOK_S)[0]:
        pass
    deadline = time.monotonic() + JVM_END_S
    while jvm.poll() is None and os.getppid() == driver and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
    jvm.kill()
    code = jvm.wait()
    deadline = time.monotonic() + WORKERS_END_S
    while (left := _others_in_session()) and time.monotonic() < deadline + WORKERS_END_S:
        if os.getppid() != driver or time.monotonic() > deadline:
            _kill(left)
        time.sleep(_PAUSE_S)
    return code


def _kill(processes: list[int]) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _others_in_session() -> list[int]:
    own, found = os.getpid(), list[int]()
    for pid in _living():
        with contextlib.suppress(OSError):  # it has just ended, or belongs to another user
            if pid != own and os.getsid(pid) == own:
                found.append(pid)
    return found


def _living() -> list[int]:
    """Return the running processes, without zombies, which may stay as long as their parent does."""
    if not os.path.isdir("/proc/self"):  # noqa: PTH112 - pathlib takes longer to import than all that is done here
        listing = subprocess.run(["/bin/ps", "-A", "-o", "pid=,stat="], capture_output=True, text=True, check=False)
        return [int(pid) for pid, state in map(str.split, listing.stdout.splitlines()) if state[0] not in _ENDED]
    found: list[int] = []
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - the same
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as status:  # noqa: PTH123 - the same
            if status.read().rpartition(b")")[2].split()[0].decode() not in _ENDED:
                found.append(int(name))
    return found


if __name__ == "__main__":
    sys.exit(keep(int(sys.argv[1]), sys.argv[2:]))
