"""A process with REST and a job, without Spark: python -m tests.hostile.victim DIRECTORY.

Numbers are counted by key, and each count is written once. It tells its address on standard error and runs until its
standard input ends; then it drains the job.
"""

import sys
from pathlib import Path

from tests.compat.flink_cli.live_job import Cluster, numbers
from tests.fault.job import count

from penstock._engine.protocol.control import Stop
from penstock.datastream import StreamExecutionEnvironment

PER_SECOND = 500


def counting(env: StreamExecutionEnvironment, directory: Path) -> None:
    count(numbers(env.set_parallelism(1), None, PER_SECOND), directory)


def main(directory: Path) -> None:
    cluster = Cluster(directory)
    job = cluster.job(lambda env: counting(env, directory))
    print(job.job_id, flush=True)
    sys.stdin.read()
    job.savepoint(str(directory / "savepoints"), Stop.DRAIN).result(60)
    job.result.result(60)
    cluster.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
