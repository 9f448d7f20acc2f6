"""A process with REST and a job: python -m tests.hostile.victim DIRECTORY [--spark].

Numbers are counted by key, and each count is written once; without Spark in this process, some hundred a second, else
on two cores, many more. It tells its address on standard error and the job's id on standard output, and runs until its
standard input ends; then it drains the job.
"""

import sys
from pathlib import Path

from tests.compat.flink_cli.live_job import Cluster, numbers
from tests.fault.job import count  # pyright: ignore[reportUnknownVariableType]

from penstock._engine.protocol.control import StopMode
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment

PER_SECOND = 500
PER_SECOND_ON_SPARK = 10_000


def in_process(directory: Path) -> None:
    cluster = Cluster(directory)
    job = cluster.job(lambda env: count(numbers(env.set_parallelism(1), None, PER_SECOND), directory))
    print(job.job_id, flush=True)
    sys.stdin.read()
    job.savepoint(str(directory / "savepoints"), StopMode.DRAIN).result(60)
    job.result.result(60)
    cluster.close()


def on_spark(directory: Path) -> None:
    configuration = Configuration()
    for key, value in {
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.interval": "1 s",
        "penstock.rest.enabled": "true",
        "penstock.rest.registry-dir": str(directory / "registry"),
        # Attackers are let in, so that they reach what lies behind the token.
        "penstock.rest.token": "none",
        "restart-strategy.type": "none",
        # The process stays this long after its job, so that clients can read the outcomes of their operations.
        "rest.async.store-duration": "5 s",
        "rest.bind-port": "0",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    count(numbers(env, None, PER_SECOND_ON_SPARK).set_parallelism(1), directory)  # one: the numbers have no gap
    job = env.execute_async("counting")
    print(job.get_job_id(), flush=True)
    sys.stdin.read()
    job.stop_with_savepoint(True, str(directory / "savepoints")).result(60)
    job.get_job_execution_result().result(60)


if __name__ == "__main__":
    (on_spark if sys.argv[2:] == ["--spark"] else in_process)(Path(sys.argv[1]))
