"""Starts a job: the only module that imports both the driver and Spark."""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock._engine.driver.assembly import RuntimeEnvironment, assemble, check_settings
from penstock._engine.driver.client.job_client import JobHandle
from penstock._engine.driver.client.logs import set_up_log
from penstock._engine.driver.client.preflight import look_at_paths
from penstock._engine.driver.client.resumption import resumption
from penstock._engine.driver.client.signals import ending_the_start
from penstock._engine.driver.client.submissions import Submissions
from penstock._engine.driver.monitor.job_monitor import none_lost
from penstock._engine.graph.job_graph import JobType
from penstock._engine.graph.pickling import user_folders, user_modules
from penstock._engine.plan.levels import build_plan
from penstock._engine.protocol.clocks import Moment
from penstock._engine.rest.archiving import Archivist
from penstock._engine.rest.directories import places
from penstock._engine.rest.log_lines import keep_lines
from penstock._engine.rest.metric_history import MetricHistory
from penstock._engine.rest.server import RestServer
from penstock._engine.rest.settings import RestSettings, metrics_are_wanted
from penstock._engine.savepoints.disposal import dispose
from penstock._engine.storage.opening import storage_options
from penstock.common import batch_options, option_table
from penstock.common.process import available_cores, protect_standard_streams
from penstock.common.redaction import hiding
from penstock.common.task_options import LOCAL_SLOTS, PYTHON_EXECUTABLE, SPARK_SLOTS, is_pipelined
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.coordinator.settings import EarlierRun
    from penstock._engine.driver.client.resumption import ResumableJob
    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.spark.executors import SparkExecutors
    from penstock._engine.spark.session import SparkHandle
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
        NoCheckpointError: There is no savepoint or checkpoint at the path to start from.
        PathError: A bounded source is to read a local path at which nothing is.
        RepeatedJobError: With ``latest``, it would be a job that this program has submitted before.
        MissingRecordsError: An earlier process of a supervised program has kept the job's checkpoints, and this one has
            no directory for them.
        SparkSetupError: Spark cannot start on this machine, or its cluster lacks what the job needs.
    """
    protect_standard_streams()
    set_up_log(configuration)
    keep_lines()
    supervised = resumption()
    with _submissions.admitted(job_graph, configuration, named_apart=supervised is not None) as submission:
        if submission.name != job_graph.name:
            _log.info("Job %r is one of several of its name, and is named %r", job_graph.name, submission.name)
            job_graph = replace(job_graph, name=submission.name)
        noted, earlier = None, submission.earlier
        if supervised is not None:
            configuration, noted = supervised.next_job(job_graph.name, configuration)
            earlier = noted.earlier or earlier
        submission.driver = _start(job_graph, configuration, main_classes, on_end, noted, earlier=earlier)
    return JobHandle(submission.driver)


def _start(
    job_graph: JobGraph,
    configuration: Configuration,
    main_classes: bytes | None,
    on_end: Callable[[JobView], None] | None,
    noted: ResumableJob | None,
    *,
    earlier: EarlierRun | None,
) -> JobDriver:
    check_settings(job_graph, configuration)  # invalid settings are reported before Spark starts, which takes seconds
    _check_alone(job_graph, configuration)
    look_at_paths(job_graph, configuration)
    server = _rest_server(configuration)

    # Imported here: a program that only builds jobs never loads Spark.
    from penstock._engine.spark.pipelined import check_session
    from penstock._engine.spark.session import get_session, slot_count

    starting = contextlib.nullcontext() if server is None else server.starting(job_graph.name)
    with ending_the_start(job_graph.name), starting:
        pipelined, slots = is_pipelined(configuration), configuration.get(LOCAL_SLOTS)
        if pipelined:  # each level of an epoch has slots of its own
            slots = (slots or available_cores()) * len(build_plan(job_graph).levels)
        spark = get_session(
            slots,
            pipelined=pipelined,
            archived=configuration.get(option_table.CLASS_DATA_ARCHIVE_ENABLED),
            python=configuration.get(PYTHON_EXECUTABLE),
            name=job_graph.name,
        )
        environment, executors = _environment(spark, job_graph, configuration)
        if pipelined:
            check_session(spark, len(build_plan(job_graph).levels), configuration)
    if server is not None:
        none_since = None if executors is None else executors.none_since
        server.start(slot_count(spark.session.sparkContext), executors, none_since)
    driver, loop = assemble(job_graph, configuration, main_classes, environment, earlier)
    if on_end is not None:
        driver.watch.on_end.append(on_end)
    if noted is not None:
        loop.add_listener(noted.follow(driver))
    figures = MetricHistory(driver, Moment.now)
    loop.add_listener(figures)
    archive_directory = configuration.get(option_table.ARCHIVE_DIRECTORY)
    if archive_directory is not None:
        kept = configuration.get(option_table.CHECKPOINT_DIRECTORY)
        archivist = Archivist(archive_directory, storage_options(configuration), kept, figures)
        driver.watch.on_named.append(archivist.job_named)
        driver.watch.on_end.append(archivist.job_ended)
    if server is not None:
        server.add(driver, places(driver, configuration, storage_options(configuration)), figures)
        loop.add_listener(server)
        driver.watch.on_named.append(server.job_named)
        driver.watch.on_end.append(server.job_ended)
    if executors is not None:
        executors.watch()
    driver.start(loop)
    _started.append(_recovers(job_graph, configuration))
    return driver


def _environment(
    spark: SparkHandle, job_graph: JobGraph, configuration: Configuration
) -> tuple[RuntimeEnvironment, SparkExecutors | None]:
    """Bring the program to the tasks, and return the environment of its job; on a cluster its executors, too."""
    from penstock._engine.spark.dependencies import bring
    from penstock._engine.spark.epoch import SparkEpochRunner
    from penstock._engine.spark.executors import executors_of, slots_of
    from penstock._engine.spark.preflight import NewHosts, check_cluster
    from penstock._engine.spark.shipping import driver_addresses, is_local, ship

    brought = bring(spark, configuration)
    if is_local(spark):
        python_path = (*map(str, user_folders()), *brought.python_path)
        executors = hosts = None
        runner = SparkEpochRunner(spark, python_path=python_path)
    else:
        python_path = (*ship(spark, user_modules()), *brought.python_path)
        looked_at = check_cluster(spark, job_graph, configuration, python_path)
        executors = executors_of(spark)
        hosts = slots_of(spark, executors, configuration.get(SPARK_SLOTS), build_plan(job_graph).width)
        new = NewHosts(spark, job_graph, configuration, python_path, looked_at)
        runner = SparkEpochRunner(spark, hosts, python_path, new.check, executors.lost_since)
    host, bind = driver_addresses(spark)
    environment = RuntimeEnvironment(
        runner=runner,
        slots=spark.slots,
        python_path=python_path,
        working_directory=brought.working_directory,
        host=host,
        bind=bind,
        hosts=hosts,
        lost_executors=executors.take_lost if executors is not None else none_lost,
    )
    return environment, executors


#: Jobs that this process has submitted.
_submissions: Final = Submissions()
#: By job that this process has started: whether it is a batch job with recovery.
_started: list[bool] = []
_ONE_ALONE: Final = (
    "a program that is started again would start the first of them fresh, although that may have ended; give each job "
    f"a program of its own, or set {batch_options.JOB_RECOVERY.key} to false"
)


def _check_alone(job_graph: JobGraph, configuration: Configuration) -> None:
    """Refuse a second job beside a batch job with recovery."""
    if _started and (any(_started) or _recovers(job_graph, configuration)):
        raise UnsupportedOperationError("A second job in a program of a batch job with recovery", _ONE_ALONE)


def _recovers(job_graph: JobGraph, configuration: Configuration) -> bool:
    return job_graph.job_type is JobType.BATCH and configuration.get(batch_options.JOB_RECOVERY)


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
