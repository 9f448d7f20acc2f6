"""What a bounded job of one epoch takes in a session that is there: wall time and processor time of each `execute()`.

    python benchmarks/one_epoch.py                                        sixteen jobs, the first three not counted
    PYTHONPATH=OTHER_TREE/src python benchmarks/one_epoch.py --jobs 30    the same with another version, for a ratio

Two subtasks count 200 records by key and print them. Processor time is that of this process and of all below it, Java
and the Python workers among them. Prints both medians in seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from penstock.common import Configuration
from penstock.datastream import MapFunction, StreamExecutionEnvironment

WARM_UP = 3


class Next(MapFunction):
    """A function without anything to open or close."""

    def map(self, value: int) -> int:
        return value + 1


def processor_s() -> float:
    """Return the processor time that this process and all below it have had."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        parents[int(stat.parent.name)] = int(fields[1])
        ticks[int(stat.parent.name)] = sum(map(int, fields[11:15]))
    own, before = {os.getpid()}, 0
    while len(own) > before:
        before = len(own)
        own |= {process for process, parent in parents.items() if parent in own}
    return sum(ticks.get(process, 0) for process in own) / os.sysconf("SC_CLK_TCK")


def run(place: str) -> None:
    """Run one job to its end."""
    keys = {
        "execution.checkpointing.dir": place,
        "execution.checkpointing.interval": "1 h",
        "penstock.rest.enabled": "false",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(keys)).set_parallelism(2)
    counted = env.from_collection(list(range(200))).key_by(lambda value: value % 7).reduce(lambda a, b: a + b)
    counted.map(Next()).print()
    env.execute("one epoch")


def main() -> None:
    """Run the jobs and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=16)
    jobs: int = parser.parse_args().jobs
    figures: list[tuple[float, float]] = []
    terminal, sys.stdout = sys.stdout, Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - to the end
    for _ in range(jobs):
        with tempfile.TemporaryDirectory() as place:
            wall, processor = time.monotonic(), processor_s()
            run(place)
            figures.append((time.monotonic() - wall, processor_s() - processor))
    sys.stdout = terminal
    counted = figures[WARM_UP:]
    print(f"wall {median(one for one, _ in counted):.3f} s, processor {median(two for _, two in counted):.3f} s")


if __name__ == "__main__":
    main()
