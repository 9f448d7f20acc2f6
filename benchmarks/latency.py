"""From the creation of a record to the committed file that holds it, beside Structured Streaming.

    python benchmarks/latency.py                            1,000 records/s, interval 300 ms, about five minutes
    python benchmarks/latency.py --seconds 30 --systems penstock

A process of its own makes the records (programs/feeder.py) and stamps each with the time. Both jobs read them from a
socket, key them by number modulo 1,000, count them by key in a stateful operator written in Python, and write each
record with its count to files, on two cores. Penstock runs with a checkpoint interval of 300 ms, Structured Streaming
with a processing-time trigger of 300 ms, and with both of its stateful operators for Python.

A record's latency ends when the file that holds it counts: for Penstock when the file appears under its final name, for
Spark when its batch stands in `_spark_metadata`, which is what makes the files of a batch part of the table. Both
moments are read from the change times of these files, later, so that nobody looks on meanwhile. The first seconds,
while the JVM starts and warms up and the backlog goes, do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

from environments import CACHE, HERE, Environment, prepare
from figures import Figures
from measure import _kill_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERVAL_MS = 300
RATE = 1_000
#: From the start of the program: what is created before this does not count.
WARM_UP_S = 40
SYSTEMS = ("penstock", "transformWithState", "applyInPandasWithState")


@dataclass(frozen=True, slots=True)
class Latency:
    """What one system showed, in seconds."""

    records: int
    p50: float
    p99: float
    #: Between two commits.
    period: float


def measure(system: str, seconds: float) -> Latency:
    """Run one system and return its latencies."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        directory = Path(folder)
        feeder = subprocess.Popen(
            [sys.executable, HERE / "programs" / "feeder.py", str(RATE), str(WARM_UP_S + seconds + 10)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert feeder.stdout is not None
            plain, replay = (feeder.stdout.readline().strip() for _ in range(2))
            start = time.time()
            _run_program(system, replay if system == "penstock" else plain, directory, WARM_UP_S + seconds)
        finally:
            feeder.kill()
            feeder.wait()
        committed = _penstock_commits(directory) if system == "penstock" else _spark_commits(directory)
        return _latency(list(committed), start + WARM_UP_S, seconds)


def _run_program(system: str, port: str, directory: Path, seconds: float) -> None:
    environment: Environment
    if system == "penstock":
        environment, program, options = prepare("penstock"), "penstock_latency.py", ()
    else:
        environment, program, options = prepare("pyspark"), "spark_latency.py", (system,)
    log = CACHE / "logs" / f"latency-{system}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [environment.python, HERE / "programs" / program, port, directory, seconds, INTERVAL_MS, *options]
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


def _penstock_commits(directory: Path) -> Iterator[tuple[Path, float]]:
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


def _latency(files: list[tuple[Path, float]], begin: float, seconds: float) -> Latency:
    latencies: list[float] = []
    commits: set[float] = set()
    for path, at in files:
        for line in path.read_text().splitlines():
            created = int(line.split(",")[1]) / 1e9
            if begin <= created < begin + seconds - 5:  # what came last may not have been committed any more
                latencies.append(at - created)
                commits.add(round(at, 2))
    wanted = int((seconds - 5) * RATE)
    assert abs(len(latencies) - wanted) < 0.02 * wanted, f"{len(latencies)} records of {wanted} were committed"
    cuts = quantiles(latencies, n=100)
    return Latency(len(latencies), cuts[49], cuts[98], seconds / max(1, len(commits)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="seconds that count, after the warm-up (60)")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help=", ".join(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=1, help="of all systems, one after the other (1)")
    arguments = parser.parse_args()
    figures = Figures(f"Latency at {RATE:,} records/s, interval {INTERVAL_MS} ms")
    best: dict[str, list[Latency]] = {}
    for _ in range(arguments.rounds):
        for system in arguments.systems.split(","):
            best.setdefault(system, []).append(measure(system, arguments.seconds))
            shutil.rmtree(CACHE / "tmp", ignore_errors=True)
    ours = min((each.p50 for each in best.get("penstock", ())), default=None)
    for system, found in best.items():
        each = min(found, key=lambda latency: latency.p50)
        value = f"p50 {each.p50 * 1000:.0f} ms, p99 {each.p99 * 1000:.0f} ms, {each.records:,} records"
        if system == "penstock" or ours is None:
            figures.add("Penstock" if system == "penstock" else system, value)
            continue
        first = min(best["penstock"], key=lambda latency: latency.p50)
        ahead = first.p50 < each.p50 and first.p99 < each.p99
        figures.add(f"Structured Streaming, {system}", value, "Penstock ahead", met=ahead)
    return figures.show()


if __name__ == "__main__":
    sys.exit(main())
