"""From the creation of a record to the committed file that holds it, beside PyFlink and Structured Streaming.

    python benchmarks/latency.py                                                    interval 300 ms, quiet: ten minutes
    python benchmarks/latency.py --intervals 50,100,300,1000 --busy 0,50,100        two hours
    python benchmarks/latency.py --seconds 30 --systems penstock
    python benchmarks/latency.py --intervals 2000 --systems "at once"              sinks that are at least once

A process of its own makes 1,000 records a second (programs/feeder.py) and stamps each with the time. All jobs read
them from a socket, key them by number modulo 1,000, count them by key in a stateful operator written in Python, and
write each record with its count to files, on two cores. Penstock and PyFlink make a checkpoint at each interval
(PyFlink's process mode with a bundle time of 10 ms), Structured Streaming has a processing-time trigger of that length,
and both of its stateful operators for Python.

A record's latency ends when the file that holds it counts: for Penstock and PyFlink when the file appears under its
final name, for Spark when its batch stands in `_spark_metadata`, which is what makes the files of a batch part of the
table. Both moments are read from the change times of these files, later, so that nobody looks on meanwhile. The first
seconds, while the JVM starts and warms up and the backlog goes, do not count. `--busy 50` lets another process take
half of the processors' time, if it gets it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

from environments import CACHE, HERE, UnavailableError, prepare
from figures import Figures
from measure import _kill_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

RATE = 1_000
#: From the start of the program: what is created before this does not count.
WARM_UP_S = 40
#: The beginning of the systems in which each record is shown when it comes, and Penstock's program for it.
AT_ONCE_NAME, AT_ONCE = "at once", "penstock_at_once.py"
#: The environment of each system, its program, and what the program gets behind the interval.
SYSTEMS = {
    "penstock": ("penstock", "penstock_latency.py", ()),
    "pipelined penstock": ("penstock", "penstock_latency.py", ("pipelined",)),
    "pipelined penstock, parallelism 1": ("penstock", "penstock_latency.py", ("pipelined", "1")),
    "at once, pipelined, two levels": ("penstock", AT_ONCE, ("pipelined", "2")),
    "at once, pipelined, three levels": ("penstock", AT_ONCE, ("pipelined", "3")),
    "at once, blocking, two levels": ("penstock", AT_ONCE, ("blocking", "2")),
    "at once, PyFlink, thread mode, two levels": ("pyflink", "pyflink_latency.py", ("thread", "2")),
    "at once, PyFlink, thread mode, three levels": ("pyflink", "pyflink_latency.py", ("thread", "3")),
    "at once, PyFlink, process mode, two levels": ("pyflink", "pyflink_latency.py", ("process", "2")),
    "PyFlink, thread mode": ("pyflink", "pyflink_latency.py", ("thread",)),
    "PyFlink, process mode": ("pyflink", "pyflink_latency.py", ("process",)),
    "Structured Streaming, transformWithState": ("pyspark", "spark_latency.py", ("transformWithState",)),
    "Structured Streaming, applyInPandasWithState": ("pyspark", "spark_latency.py", ("applyInPandasWithState",)),
}


@dataclass(frozen=True, slots=True)
class Latency:
    """What one system showed, in seconds."""

    p50: float
    p95: float
    p99: float

    def __str__(self) -> str:
        return f"p50 {self.p50 * 1000:,.0f} ms, p95 {self.p95 * 1000:,.0f} ms, p99 {self.p99 * 1000:,.0f} ms"


def measure(system: str, seconds: float, interval_ms: int, busy: int) -> Latency:
    """Run one system and return its latencies."""
    with others(busy), tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        directory = Path(folder)
        feeder = subprocess.Popen(
            [sys.executable, HERE / "programs" / "feeder.py", str(RATE), str(WARM_UP_S + seconds + 10)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert feeder.stdout is not None
            plain, replay = (feeder.stdout.readline().strip() for _ in range(2))
            start = time.time()
            port = replay if SYSTEMS[system][0] == "penstock" else plain
            _run_program(system, port, directory, WARM_UP_S + seconds, interval_ms)
        finally:
            feeder.kill()
            feeder.wait()
        if system.startswith(AT_ONCE_NAME):
            return _latency(_shown(directory), start + WARM_UP_S, seconds)
        files = _spark_commits(directory) if SYSTEMS[system][0] == "pyspark" else _named_files(directory)
        return _latency(_committed(files), start + WARM_UP_S, seconds)


@contextmanager
def others(busy: int) -> Iterator[None]:
    """Let other processes want a share of the processors' time, in percent."""
    share = busy / 100 * (os.cpu_count() or 1)
    spin = "import sys, time\nwhile True:\n end = time.thread_time() + 0.01 * float(sys.argv[1])\n"
    spin += " while time.thread_time() < end: pass\n time.sleep(0.01 * (1 - float(sys.argv[1])))"
    parts = [min(1.0, share - number) for number in range(math.ceil(share))]
    processes = [subprocess.Popen([sys.executable, "-c", spin, str(part)]) for part in parts]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _run_program(system: str, port: str, directory: Path, seconds: float, interval_ms: int) -> None:
    name, program, options = SYSTEMS[system]
    environment = prepare(name)
    log = CACHE / "logs" / f"latency-{system}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [environment.python, HERE / "programs" / program, port, directory, seconds, interval_ms, *options]
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=output, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env={**os.environ, **environment.variables},
        )  # fmt: skip
        try:
            code = process.wait(seconds + 120)
        finally:
            _kill_tree(process)
    if code != 0:
        reason = f"{system} ended with code {code}, see {log}"
        raise RuntimeError(reason)


def _named_files(directory: Path) -> Iterator[tuple[Path, float]]:
    """Yield each file with the time at which it appeared."""
    for path in (directory / "out").rglob("part-*"):
        yield path, path.stat().st_ctime


def _spark_commits(directory: Path) -> Iterator[tuple[Path, float]]:
    """Yield each file with the time at which its batch was added to the log."""
    entries = [entry for entry in (directory / "out" / "_spark_metadata").iterdir() if entry.name[0] != "."]
    seen: set[str] = set()
    for entry in sorted(entries, key=lambda entry: int(entry.name.split(".")[0])):
        at = entry.stat().st_ctime
        for line in entry.read_text().splitlines()[1:]:
            path = json.loads(line)["path"].removeprefix("file://")
            if path not in seen:  # a compact entry repeats those before it
                seen.add(path)
                yield Path(path), at


def _committed(files: Iterable[tuple[Path, float]]) -> Iterator[tuple[float, float]]:
    """Yield the creation of each record, and the time at which its file counted."""
    for path, at in files:
        for line in path.read_text().splitlines():
            yield int(line.split(",")[1]) / 1e9, at


def _shown(directory: Path) -> Iterator[tuple[float, float]]:
    """Yield the creation of each record, and the time at which the sink wrote it for the first time."""
    first: dict[str, tuple[float, float]] = {}
    for path in (directory / "at-once").iterdir():
        for line in path.read_text().splitlines():
            number, created, _, at = line.split(",")
            shown = int(created) / 1e9, int(at) / 1e9
            first[number] = min(shown, first.get(number, shown))
    yield from first.values()


def _latency(records: Iterable[tuple[float, float]], begin: float, seconds: float) -> Latency:
    # What came last may not have been committed any more.
    latencies = [at - created for created, at in records if begin <= created < begin + seconds - 5]
    wanted = int((seconds - 5) * RATE)
    assert abs(len(latencies) - wanted) < 0.02 * wanted, f"{len(latencies)} records of {wanted} were committed"
    cuts = quantiles(latencies, n=100)
    return Latency(cuts[49], cuts[94], cuts[98])


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="seconds that count, after the warm-up (60)")
    parser.add_argument(
        "--systems", default="all", help=f"beginnings of names, with semicolons between them: {'; '.join(SYSTEMS)}"
    )
    parser.add_argument("--intervals", type=_numbers, default=[300], help="of checkpoints, in milliseconds (300)")
    parser.add_argument("--busy", type=_numbers, default=[0], help="percent of the processors that others want (0)")
    arguments = parser.parse_args()
    wanted = tuple(arguments.systems.split(";")) if arguments.systems != "all" else ("",)
    figures = Figures(f"Latency at {RATE:,} records/s")
    for interval_ms, busy in product(arguments.intervals, arguments.busy):
        for system in SYSTEMS:
            if system.startswith(wanted):
                try:
                    found = str(measure(system, arguments.seconds, interval_ms, busy))
                except (AssertionError, RuntimeError, UnavailableError) as error:  # one that cannot keep up is a result
                    found = str(error)
                figures.add(f"{interval_ms} ms, {busy} % taken by others, {system}", found)
                shutil.rmtree(CACHE / "tmp", ignore_errors=True)
    return figures.show()


if __name__ == "__main__":
    sys.exit(main())
