"""What a test may leave behind: nothing that lives on. Threads, descriptors and processes are looked at around it."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Tests may put another in its place. pathlib would be slow around each of ten thousand tests.
_listdir = os.listdir
#: Tests move the clock.
_monotonic, _sleep = time.monotonic, time.sleep
#: Where each test is looked at.
FOLDERS = tuple(
    f"tests/{name}"
    for name in (
        *("unit/", "lifecycle/", "connectors/", "hostile/", "docs/", "upgrade/", "typing/", "property/"),
        *("s3/test_mark", "s3/test_savepoints", "s3/test_server", "s3/test_sinks", "s3/test_storage"),
    )
)
#: Tests that play the death of a worker within this process, which so keeps the thread of its event loop.
PLAYED_DEATHS = ("tests/property/test_clock_lives", "tests/property/test_starved_lives")
#: Their clients have threads that look for their server for ever, seen in other tests, until they are collected: the
#: errors of failed jobs keep them in cycles.
WITH_CLIENTS = ("tests/kafka/", "tests/search/", "tests/together/")
#: Longest wait for what is ending by itself.
PATIENCE_S = 5.0
STANDARD_ERROR = 2
#: Descriptors of libraries, which open them at their first use and keep them as long as the process lives.
KEPT = ("/dev/", "/proc/", "anon_inode:")
#: A directory that Penstock makes at its first use, and holds as long as the process lives.
HELD = "/penstock-modules-"
#: Tests have their files there, where they are run in lanes.
FILES_IN_MEMORY = "/dev/shm/"


@dataclass(frozen=True)
class Look:
    """What this process has at a moment.

    Args:
        threads: All of them, daemons too.
        descriptors: Their numbers, and the device and inode of what they are open on.
        processes: Its children, also those that have ended and were not waited for.
    """

    threads: frozenset[threading.Thread]
    descriptors: frozenset[tuple[int, int, int]]
    processes: frozenset[int]

    @classmethod
    def now(cls) -> Self:
        return cls(frozenset(threading.enumerate()), frozenset(_descriptors()), frozenset(_children()))

    def left(self) -> list[str]:
        """Return what is there now and was not then, in words."""
        now = Look.now()
        left = [f"thread {thread.name}" for thread in now.threads - self.threads]
        for number, _, _ in now.descriptors - self.descriptors:
            name = _name_of(number)
            is_kept = HELD in name or (name.startswith(KEPT) and not name.startswith(FILES_IN_MEMORY))
            is_foreign = _is_of_spark(number) or _is_of_kafka(number)
            left += [] if is_kept or is_foreign else [f"descriptor {number} of {name}"]
        return left + [f"process {child} ({_command_of(child)})" for child in now.processes - self.processes]

    def left_for_good(self) -> list[str]:
        """Return the same, once what ends by itself has ended."""
        if not self.left():
            return []
        # Objects in a reference cycle are closed by a collection. They are nearly always young: beginning with the
        # youngest generation takes a tenth of the time of whole collections.
        for generation in range(3):
            gc.collect(generation)
            if not self.left():
                return []
        deadline = _monotonic() + PATIENCE_S
        while (left := self.left()) and _monotonic() < deadline:
            _sleep(0.01)
        return left


def _descriptors() -> Iterator[tuple[int, int, int]]:
    for number in map(int, _listdir("/dev/fd")):
        if number <= STANDARD_ERROR:  # what captures output turns them to other files and back
            continue
        with contextlib.suppress(OSError):  # that of the list itself
            status = os.fstat(number)
            yield number, status.st_dev, status.st_ino


def _name_of(number: int) -> str:
    try:
        return str(Path("/dev/fd", str(number)).readlink())
    except OSError:  # not a link everywhere
        return "something"


def _is_of_spark(number: int) -> bool:
    """Tell whether a descriptor is a connection that a session of Spark keeps as long as it lives.

    Py4J keeps those to the JVM for the next call; the JVM keeps one to the server of accumulators.
    """
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    session = getattr(context, "_active_spark_context", None)
    if context is None or session is None or not _name_of(number).startswith("socket:"):
        return False
    try:
        with socket.socket(fileno=os.dup(number)) as connection:
            own, other = connection.getsockname(), connection.getpeername()
    except OSError:  # it is closed meanwhile, or not connected
        return False
    is_for_calls = connection.family == socket.AF_INET and other[1] == context._gateway.gateway_parameters.port
    return is_for_calls or own == session._accumulatorServer.server_address


def _is_of_kafka(number: int) -> bool:
    """Tell whether a descriptor may be a connection of a Kafka client, whose threads open them anew at any time."""
    threads = _listdir("/proc/self/task") if Path("/proc/self/task").is_dir() else []
    if not _name_of(number).startswith("socket:") or not any(map(_is_kafkas, threads)):
        return False
    try:
        with socket.socket(fileno=os.dup(number)) as connection:
            return connection.family == socket.AF_INET and connection.getsockname()[1] != 0
    except OSError:  # a thread has closed it meanwhile
        return True


def _is_kafkas(thread: str) -> bool:
    try:
        return Path("/proc/self/task", thread, "comm").read_text().startswith("rdk:")
    except OSError:  # it has ended
        return False


def _command_of(process: int) -> str:
    try:
        return Path("/proc", str(process), "cmdline").read_text(errors="replace").replace("\0", " ").strip() or "ended"
    except OSError:
        return "ended"


def _children() -> set[int]:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()
    found: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found.update(map(int, task.read_text().split()))
    return found
