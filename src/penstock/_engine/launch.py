"""Starts a job: the only module that imports both the driver and Spark."""

from __future__ import annotations

import logging
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._engine.driver.assembly import RuntimeEnvironment, assemble, check_settings
from penstock._engine.driver.client.job_client import JobHandle
from penstock._engine.driver.client.logs import set_up_log
from penstock._engine.driver.client.resumption import resumption
from penstock._engine.graph.pickling import script_directory, user_modules
from penstock._engine.rest.directories import places
from penstock._engine.rest.server import RestServer
from penstock._engine.rest.settings import RestSettings, metrics_are_wanted
from penstock._engine.savepoints.disposal import dispose
from penstock._engine.storage.opening import open_storage, storage_options
from penstock.common import option_table
from penstock.common.process import tend_standard_streams
from penstock.common.redaction import hiding
from penstock.common.task_options import LOCAL_SLOTS, PYTHON_EXECUTABLE
from penstock.errors import CheckpointStorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.graph.job_graph import JobGraph
    from penstock.common.configuration import Configuration

__all__ = ["JobHandle", "submit"]

_log = hiding(logging.getLogger(__name__))


def submit(
    job_graph: JobGraph,
    configuration: Configuration,
    main_classes: bytes | None,
    on_end: Callable[[JobView], None] | None = None,
) -> JobHandle:
    """Start a job on Spark, and return while it runs.

    Args:
        job_graph: The job.
        configuration: Its effective configuration.
        main_classes: The pickled classes of the main script, for the tasks; None without any.
        on_end: Called when the job has ended, before its result is set.

    Raises:
        ConfigurationError: A key has an invalid value.
        CheckpointStorageError: The checkpoint directory cannot be used.
        SparkSetupError: Spark cannot start on this machine.
    """
    tend_standard_streams()
    set_up_log(configuration)
    noted = None
    if (supervised := resumption()) is not None:
        configuration, noted = supervised.next_job(job_graph.name, configuration)
    check_settings(job_graph, configuration)  # invalid settings are reported before Spark starts, which takes seconds
    server = _rest_server(configuration)

    # Imported here: a program that only builds jobs never loads Spark.
    from penstock._engine.spark.dependencies import bring
    from penstock._engine.spark.epoch import SparkEpochRunner
    from penstock._engine.spark.executors import executors_of
    from penstock._engine.spark.session import get_session
    from penstock._engine.spark.shipping import is_local, ship

    spark = get_session(
        configuration.get(LOCAL_SLOTS),
        archived=configuration.get(option_table.CLASS_DATA_ARCHIVE_ENABLED),
        python=configuration.get(PYTHON_EXECUTABLE),
    )
    brought = bring(spark, configuration)
    folders: tuple[str, ...] = ()
    if is_local(spark):
        folders = _user_folders()
    else:
        ship(spark, user_modules())
    environment = RuntimeEnvironment(
        runner=SparkEpochRunner(spark),
        slots=spark.slots,
        python_path=(*folders, *brought.python_path),
        working_directory=brought.working_directory,
    )
    if server is not None:
        server.start(spark.slots, None if is_local(spark) else executors_of(spark))
    driver, loop = assemble(job_graph, configuration, main_classes, environment)
    if on_end is not None:
        driver.watch.on_end.append(on_end)
    if noted is not None:
        loop.add_listener(noted.follow(driver))
    archive_directory = configuration.get(option_table.ARCHIVE_DIRECTORY)
    if archive_directory is not None:
        driver.watch.on_end.append(partial(_archive, archive_directory, storage_options(configuration)))
    if server is not None:
        server.add(driver, places(driver, configuration, storage_options(configuration)))
        loop.add_listener(server)
        driver.watch.on_named.append(server.job_named)
        driver.watch.on_end.append(server.job_ended)
    driver.start(loop)
    return JobHandle(driver)


#: One server serves all jobs of the process, with the settings of the first one that has REST.
_servers: list[RestServer] = []
_server_lock = threading.Lock()


def _rest_server(configuration: Configuration) -> RestServer | None:
    """Return the REST server of this process; None if the job switches it off."""
    if not configuration.get(option_table.REST_ENABLED):
        if metrics_are_wanted(configuration):
            _log.warning("There is no port for metrics: %s is false", option_table.REST_ENABLED.key)
        return None
    with _server_lock:
        if not _servers:
            server = RestServer(RestSettings.read(configuration), dispose=dispose)
            _servers.append(server)
        else:
            _servers[0].check_same(configuration)
        return _servers[0]


def _archive(directory: str, options: dict[str, str], job: JobView) -> None:
    """Write the archive of an ended job for Flink's history server; a failure is logged."""
    from penstock._engine.rest.archive import archive

    try:
        open_storage(directory, options).put(job.job_id, archive(job))
    except CheckpointStorageError as error:
        _log.warning("Job %r could not be archived: %s", job.name, error)


def _user_folders() -> tuple[str, ...]:
    """Return the folders of the program's own modules: its script's folder, and those that it added to sys.path."""
    installed = tuple(Path(prefix).resolve() for prefix in {sys.prefix, sys.base_prefix})
    script = script_directory()
    folders = {str(script): None} if script is not None else {}
    for entry in sys.path:
        folder = Path(entry or ".").resolve()
        if folder.is_dir() and not any(folder.is_relative_to(prefix) for prefix in installed):
            folders[str(folder)] = None
    return tuple(folders)
