"""What the processes of a program take, noted from outside from time to time. Needs Linux.

A look is a dict that goes into a file of lines of JSON: the seconds since the beginning, and of each process its kind,
number, private KiB, anonymous KiB, and the seconds of the processor that it has taken. Anonymous memory belongs to no
file. It says more about growth: pages of libraries and of LMDB's files, which the kernel may take back, count as
private only as long as no other process has them, so private memory goes up and down with foreign processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections import defaultdict
from http.client import HTTPConnection
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from tests.fault.processes import descendants

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The kinds of processes whose memory counts; the rest are Spark's daemon, which only forks workers, and helpers.
KINDS: Final = ("driver", "JVM", "worker")
Look = dict[str, Any]


def processes(pid: int) -> list[dict[str, Any]]:
    """Look at a program's processes.

    Args:
        pid: Of the program, which is a driver.
    """
    found: list[dict[str, Any]] = []
    daemons = {each for each in descendants(pid) if _is_python_of_spark(each)}
    for each in (pid, *descendants(pid)):
        with contextlib.suppress(OSError):  # it has just ended
            kind = "driver" if each == pid else _kind(each, daemons)
            found.append({"kind": kind, "pid": each, **memory_kib(each), "processor_s": _processor_s(each)})
    return found


def _kind(pid: int, pythons: set[int]) -> str:
    if pid in pythons:
        return "worker" if int(_status(pid)[1]) in pythons else "daemon"
    return "JVM" if Path(f"/proc/{pid}/comm").read_text() == "java\n" else "other"


def _is_python_of_spark(pid: int) -> bool:
    try:
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def memory_kib(pid: int) -> dict[str, int]:
    """Return the memory that would be free if a process ended, and its memory without pages of files."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in lines)}
    return {"private_kib": sizes["Private_Clean"] + sizes["Private_Dirty"], "anonymous_kib": sizes["Pss_Anon"]}


def _processor_s(pid: int) -> float:
    return sum(map(int, _status(pid)[11:13])) / os.sysconf("SC_CLK_TCK")


def _status(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def add_live_heap(look: Look) -> None:
    """Let the JVM of a look collect its garbage, and note what is left of its heap. Needs the tools of a JDK.

    What a running epoch holds is no leak, so the least of three collections counts.
    """
    for one in look["processes"]:
        if one["kind"] == "JVM":
            one["live_kib"] = min(_live_heap_kib(str(one["pid"])) for _ in range(3))


def _live_heap_kib(pid: str) -> int:
    time.sleep(0.5)
    subprocess.run(["jcmd", pid, "GC.run"], check=True, capture_output=True)
    told = subprocess.run(["jstat", "-gc", pid], check=True, capture_output=True, text=True).stdout
    found = dict(zip(*(line.split() for line in told.splitlines()), strict=True))
    return round(sum(float(found[space]) for space in ("S0U", "S1U", "EU", "OU")))


def size_of(directory: Path) -> tuple[int, int]:
    """Return the KiB and the number of the files below a directory, of which some may go meanwhile."""
    sizes = list[int]()
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                sizes.append(Path(folder, name).stat().st_size)
    return sum(sizes) >> 10, len(sizes)


def ask(port: int, path: str, request: dict[str, Any] | None = None) -> Any:
    """Ask a job's REST server, or post a request."""
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        if request is None:
            connection.request("GET", f"/{path}")
        else:
            connection.request("POST", f"/{path}", json.dumps(request), {"Content-Type": "application/json"})
        return json.load(connection.getresponse())


# ------------------------------------------------------------------------------------------- what the looks say


def largest(look: Look, kind: str, memory: str = "anonymous_kib") -> float | None:
    """Return the MB of the largest process of a kind."""
    return max((_mb(one, memory) for one in look["processes"] if one["kind"] == kind), default=None)


def together(look: Look, kind: str) -> float | None:
    """Return the private MB of all processes of a kind."""
    return sum(_mb(one, "private_kib") for one in look["processes"] if one["kind"] == kind) or None


def _mb(process: dict[str, Any], memory: str) -> float:
    return process[memory] * 1024 / 1e6


def mb_per_hour(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of a line through points of seconds and MB: the median of those of all pairs."""
    slopes = [(end - start) / (later - at) for (at, start), (later, end) in combinations(points, 2)]
    return median(slopes) * 3600


def live_heap(look: Look) -> float | None:
    """Return the MB of what lives in the heap of the JVM, where it was noted."""
    return next((_mb(one, "live_kib") for one in look["processes"] if "live_kib" in one), None)


def growth_of_processes(looks: Sequence[Look], kind: str) -> float | None:
    """Return the MB an hour of that process of a kind that grows most, of those that were there all the time."""
    points: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for look in looks:
        for one in look["processes"]:
            if one["kind"] == kind:
                points[one["pid"]].append((look["at_s"], _mb(one, "anonymous_kib")))
    return max((mb_per_hour(of) for of in points.values() if len(of) > 0.9 * len(looks)), default=None)


def processor_share(looks: Sequence[Look]) -> float:
    """Return how many cores the processes took, between the first look and the last."""
    first, last = ({one["pid"]: one["processor_s"] for one in looks[place]["processes"]} for place in (0, -1))
    spent = sum(seconds - first.get(pid, 0) for pid, seconds in last.items())
    return spent / (looks[-1]["at_s"] - looks[0]["at_s"])


def middle(values: Iterable[float | None]) -> float | None:
    """Return the median of those that are there."""
    there = [value for value in values if value is not None]
    return median(there) if there else None
