"""Long runs and jobs under pressure, with figures: the programs of tests/endurance, which check the same.

    python benchmarks/endurance.py                    everything, about twenty minutes
    python benchmarks/endurance.py --epochs 100       a shorter long run
    python benchmarks/endurance.py --only slow_map

- *long_job*: 1,000 epochs with two sources, and 1,000 more after one of them has ended; 20 looks on the way.
- *slow_map*: a source without limit before a map of 10 ms a record, interval 1 s: how late records are in their file.
- *three_sources*: each on one of two cores with a busy operator behind it, interval 1 s.
- *many_files*: 10,000 files of one line.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from environments import PROJECT
from figures import Figures

CASES = ("long_job", "slow_map", "three_sources", "many_files")
SECONDS = {"slow_map": 120, "three_sources": 60, "many_files": 300}
#: What is shown of a long job: name, and how to read it.
SHOWN = {
    "driver_mib": "driver, private MiB",
    "driver_threads": "driver, threads",
    "driver_descriptors": "driver, descriptors",
    "jvm_heap_mib": "JVM, heap in use MiB",
    "jvm_mib": "JVM, private MiB",
    "jvm_threads": "JVM, threads",
    "jvm_descriptors": "JVM, descriptors",
    "worker_mib": "largest Python worker, private MiB",
    "worker_descriptors": "Python worker, descriptors",
    "checkpoint_files": "checkpoint directory, files",
    "checkpoint_kib": "checkpoint directory, KiB",
    "spark_files": "Spark's local directory, files",
    "spark_jobs": "running Spark jobs",
}


def run(*arguments: object) -> list[dict[str, Any]]:
    """Run a program and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=PROJECT, env={**os.environ, "PYTHONPATH": str(PROJECT / "src")},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def long_job(figures: Figures, directory: str, epochs: int) -> None:
    """Add what a long job took, after a tenth of its epochs, half, nearly all, and after its end."""
    *looks, last = run("tests.endurance.long_job", directory, epochs)
    chosen = [*(looks[len(looks) * tenths // 20] for tenths in (2, 9, 11)), looks[-1], last]
    at = ", ".join(f"{look['checkpoint']:,}" for look in chosen[:-1])
    figures.add("Long run: seen at checkpoints", f"{at}, after the end")
    for name, text in SHOWN.items():
        figures.add(text, ", ".join(f"{look[name]:,}" for look in chosen))


def pressure(figures: Figures, case: str, directory: str) -> None:
    """Add what was seen of a job under pressure."""
    (seen,) = run("tests.endurance.pressure", case, directory, SECONDS[case])
    memory = seen.pop("worker_mib")
    text = ", ".join(f"{name} {value}" for name, value in seen.items())
    figures.add(case, f"{text}, MiB of the largest worker {memory[len(memory) // 4 :: max(1, len(memory) // 5)]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES, help="one case")
    parser.add_argument("--epochs", type=int, default=1_000, help="of the long run, before and after a source ends")
    arguments = parser.parse_args()
    figures = Figures("Endurance")
    for case in CASES:
        if arguments.only in (None, case):
            with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
                if case == "long_job":
                    long_job(figures, directory, arguments.epochs)
                else:
                    pressure(figures, case, directory)
    return figures.show()


if __name__ == "__main__":
    sys.exit(main())
