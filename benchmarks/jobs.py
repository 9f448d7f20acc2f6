"""Starts a job in this process with somebody who looks on: figures of the engine need more than its API shows."""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._engine.driver.assembly import RuntimeEnvironment, assemble
from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.graph.pickling import main_classes
from penstock.common import Configuration
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.gateway.progress import JobFailure, JobProgress
    from penstock._engine.plan.epoch_plan import EpochRunner
    from penstock.common.job_status import JobStatus
    from penstock.datastream import StreamExecutionEnvironment


class _Listener:
    def __init__(self, on_epoch: Callable[[JobProgress], None]) -> None:
        self._on_epoch = on_epoch

    def on_status(self, status: JobStatus) -> None:
        pass

    def on_progress(self, progress: JobProgress) -> None:
        self._on_epoch(progress)

    def on_failure(self, failure: JobFailure) -> None:
        pass


def start(
    env: StreamExecutionEnvironment,
    name: str,
    runner: EpochRunner,
    *,
    slots: int,
    state_directory: Path,
    on_epoch: Callable[[JobProgress], None] | None = None,
    hosts: Callable[[], tuple[str, ...]] | None = None,
) -> JobDriver:
    """Start the job of an environment.

    Args:
        env: The environment; its job has a sink.
        name: The job's name.
        runner: Runs its epochs.
        slots: Tasks that run at the same time.
        state_directory: For keyed state on the local disk.
        on_epoch: Is told of each epoch that counts, on the driver's thread.
        hosts: Tells the hosts of these tasks, where the job runs on a cluster.
    """
    folders = (str(Path(sys.argv[0]).resolve().parent),)
    driver, loop = assemble(
        build_job_graph(env._stream_graph(name)),
        Configuration(env._configuration),
        main_classes(),
        RuntimeEnvironment(runner, slots, state_directory, folders, hosts=hosts),
    )
    if on_epoch is not None:
        loop.add_listener(_Listener(on_epoch))
    driver.start(loop)
    return driver


def seconds_in_process(env: StreamExecutionEnvironment, name: str, slots: int, place: Path) -> float:
    """Run the job of an environment in this process without Spark, and return its processor time.

    Args:
        env: The environment; its job is bounded and has a sink.
        name: The job's name.
        slots: Its parallelism.
        place: For keyed state on the local disk.
    """
    runner = InProcessEpochRunner(seed=1)
    graph, environment = build_job_graph(env._stream_graph(name)), RuntimeEnvironment(runner, slots, place)
    driver, loop = assemble(graph, Configuration(env._configuration), None, environment)
    env._pipeline.clear()
    gc.collect()
    start = time.process_time()
    driver.run(loop)
    driver.result.result(0)
    runner.close()
    return time.process_time() - start
