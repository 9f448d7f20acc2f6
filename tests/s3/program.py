"""A user's program that says nothing about where its checkpoints go: numbers are counted by key.

Usage: penstock run -D execution.checkpointing.dir=… tests/s3/program.py DIRECTORY

The first time it stands still at one record, and says so with a file ``waiting``.
"""

import sys
import time
from pathlib import Path

from tests.fault.job import NAME, count
from tests.fault.spark_driver import FOR_EVER_S, TRAP, numbers

from penstock.datastream import StreamExecutionEnvironment


def main(directory: Path) -> None:
    def trap(number: int) -> int:
        if number == TRAP and not (directory / "waiting").exists():
            (directory / "waiting").touch()
            time.sleep(FOR_EVER_S)
        return number

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    count(numbers(env).map(trap), directory)
    env.execute(NAME)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
