"""A job with a pipelined exchange, to be attacked: python -m tests.hostile.exchange_victim DIRECTORY.

It counts numbers by key, some hundred a second, and writes each count once; it starts again after each failure. It runs
until its standard input ends; then it drains the job.
"""

import logging
import sys
from pathlib import Path

from tests.compat.flink_cli.live_job import numbers
from tests.fault.job import count, settings
from tests.kit import exchange

from penstock.datastream import StreamExecutionEnvironment

PER_SECOND = 300
SETTINGS = {
    "interval": "1 s",
    "restart": "fixed-delay",
    "attempts": "1000",
    "delay": "0 s",
    "tolerable": "1000",
    "timeout": "20 s",  # an epoch ends then whose reader waits for ever
    **exchange.SETTINGS,
    "penstock.local.slots": "2",
}


def main(directory: Path) -> None:
    logging.basicConfig(level=logging.INFO)
    env = StreamExecutionEnvironment.get_execution_environment(settings(directory, **SETTINGS)).set_parallelism(2)
    count(numbers(env, None, PER_SECOND).set_parallelism(1), directory)  # one: the numbers have no gap
    job = env.execute_async("attacked")
    sys.stdin.read()
    job.stop_with_savepoint(True, str(directory / "savepoints")).result(120)
    job.get_job_execution_result().result(120)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
