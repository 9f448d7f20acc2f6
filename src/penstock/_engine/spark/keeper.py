"""Keeps the JVM of a session of ours: in a process session of its own, and never longer than its driver lives.

A program of its own, started by ``jvm`` with the standard library alone, so that it is there at once: it must import
nothing of Penstock. It leads the process session that the JVM and Spark's Python workers belong to, so a signal to the
driver's process group reaches none of them. Why it takes this: decision 16.

Usage: keeper.py DRIVER_PID COMMAND...

Its input is a pipe that the driver holds open; the JVM reads from it, too, and ends by itself when it closes.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

#: The time that the JVM, and then its workers, get to end by themselves while the driver lives; after its death none.
JVM_END_S, WORKERS_END_S = 10, 2
#: A process that the driver has forked may hold the pipe open, so the driver is looked for, too; this often.
_LOOK_S = 0.5
_PAUSE_S = 0.02
#: The state of a process that has ended and is not reaped yet.
_ENDED = "ZX"
#: By these a machine or a control group is shut down: what becomes of the job, and then of Spark, is the driver's word.
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def keep(driver: int, command: list[str]) -> int:
    """Run the JVM while it and the driver live, end the remaining processes, and return the JVM's exit code.

    Args:
        driver: The process id of the driver.
        command: Starts the JVM, which inherits that signals are ignored.
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
        with contextlib.suppress(OSError):  # it has just ended, or is not ours to look at
            if pid != own and os.getsid(pid) == own:
                found.append(pid)
    return found


def _living() -> list[int]:
    """Return the processes that have not ended; a zombie may stay for as long as its parent likes."""
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
