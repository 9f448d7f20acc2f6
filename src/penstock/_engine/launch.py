"""Starts a job: the one place that knows the driver and Spark at the same time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._engine.driver.assembly import Surroundings, assemble
from penstock._engine.driver.client import JobHandle
from penstock._engine.driver.logs import set_up_log
from penstock._engine.driver.resumption import resumption
from penstock._engine.graph.pickling import script_directory, user_modules

if TYPE_CHECKING:
    from penstock._engine.graph.job_graph import JobGraph
    from penstock.common.configuration import Configuration

__all__ = ["JobHandle", "submit"]


def submit(job_graph: JobGraph, configuration: Configuration, main_classes: bytes | None) -> JobHandle:
    """Start a job on Spark, and return while it runs.

    Args:
        job_graph: The job.
        configuration: Its effective configuration.
        main_classes: The pickled classes of the main script, for the tasks; None without any.

    Raises:
        ConfigurationError: A key has a value that it cannot have.
        CheckpointStorageError: The checkpoint directory cannot be used.
        SparkSetupError: Spark cannot start on this machine.
    """
    # Imported here: a program that only builds jobs never loads Spark.
    from penstock._engine.spark.directories import user_directory
    from penstock._engine.spark.epoch import SparkEpochRunner
    from penstock._engine.spark.session import get_session
    from penstock._engine.spark.shipping import is_local, ship

    set_up_log(configuration)
    noted = None
    if (supervised := resumption()) is not None:
        configuration, noted = supervised.next_job(job_graph.name, configuration)
    spark = get_session()
    folders: tuple[str, ...] = ()
    if is_local(spark):
        folders = _user_folders()
    else:
        ship(spark, user_modules())
    surroundings = Surroundings(
        runner=SparkEpochRunner(spark),
        slots=spark.slots,
        state_directory=user_directory() / "state",
        python_path=folders,
    )
    driver, loop = assemble(job_graph, configuration, main_classes, surroundings)
    if noted is not None:
        loop.add_listener(noted.follow(driver))
    driver.start(loop)
    return JobHandle(driver)


def _user_folders() -> tuple[str, ...]:
    """Return the folders that the program imports its own modules from: its script's, and what it added itself."""
    installed = tuple(Path(prefix).resolve() for prefix in {sys.prefix, sys.base_prefix})
    script = script_directory()
    folders = {str(script): None} if script is not None else {}
    for entry in sys.path:
        folder = Path(entry or ".").resolve()
        if folder.is_dir() and not any(folder.is_relative_to(prefix) for prefix in installed):
            folders[str(folder)] = None
    return tuple(folders)
