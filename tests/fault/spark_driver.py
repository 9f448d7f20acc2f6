"""The job of the fault tests on real Spark, in a process of its own.

Usage: python -m tests.fault.spark_driver DIRECTORY [--wait] [--cluster] [--kill-executor] [--checkpoints DIRECTORY]

With ``--wait`` a task stands still at one record, the first time, and says so with a file ``waiting``. ``--cluster``
runs on two executors that are processes of their own; with ``--kill-executor`` one of them dies at that record.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from tests.fault.job import NAME, count, settings

from penstock.common import WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource

#: More than fit into the first epochs; the trap is in one of the later ones.
TOTAL = 10_000
TRAP = 9_000
#: Longer than any test waits.
FOR_EVER_S = 3600


def main() -> None:
    """Run the job to its end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--kill-executor", action="store_true")
    parser.add_argument("--checkpoints", help="where checkpoints are kept; below the directory by default")
    options = parser.parse_args()
    directory: Path = options.directory

    def trap(number: int) -> int:
        if number == TRAP:
            with (directory / "notes").open("a") as notes:
                notes.write("sprung\n")
            first = len((directory / "notes").read_text().split()) == 1
            if first and options.wait:
                (directory / "waiting").touch()
                time.sleep(FOR_EVER_S)
            if first and options.kill_executor:
                os.kill(parent_of(os.getppid()), signal.SIGKILL)  # worker, its daemon, the executor
        return number

    if options.cluster:
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
        builder.config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"]).getOrCreate()
    env = environment(directory, options.checkpoints)
    count(numbers(env).map(trap), directory)
    env.execute(NAME)


def environment(directory: Path, checkpoints: str | None = None) -> StreamExecutionEnvironment:
    """Return an environment whose jobs checkpoint below a directory, or where they are told to, and do not restart."""
    place = checkpoints or str(directory / "checkpoints")
    configuration = settings(directory, checkpoints=place, interval="1 s", restart="none")
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)


def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_source(NumberSequenceSource(0, TOTAL - 1), WatermarkStrategy.no_watermarks(), "numbers")


def parent_of(pid: int) -> int:
    """Return the parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    main()
