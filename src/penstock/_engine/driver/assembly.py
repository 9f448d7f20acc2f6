"""Assembles the driver of a job from its parts, for any runner, clock and threads."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from penstock import __version__
from penstock._engine.coordinator.checkpoints.chain import DriverIdentity
from penstock._engine.coordinator.job import JobCoordinator
from penstock._engine.coordinator.settings import LATEST, BatchRecoverySettings, JobSettings
from penstock._engine.driver.background import BackgroundThreads
from penstock._engine.driver.checkpoints.checkpoint_store import CheckpointStore
from penstock._engine.driver.checkpoints.requests import ClientRequests
from penstock._engine.driver.checkpoints.savepoint_files import SavepointFiles
from penstock._engine.driver.client.results import Results
from penstock._engine.driver.driver import JobDriver
from penstock._engine.driver.epochs.accumulators import AccumulatorMerger
from penstock._engine.driver.epochs.committers import Committers
from penstock._engine.driver.epochs.driver_operators import DriverOperators
from penstock._engine.driver.epochs.enumerators import Enumerators
from penstock._engine.driver.epochs.execution import EpochPlanner, Epochs
from penstock._engine.driver.loop import JobLoop, Performers
from penstock._engine.driver.mailbox import Mailbox, SystemClock
from penstock._engine.driver.monitor.job_monitor import JobMonitor, none_lost
from penstock._engine.driver.monitor.notebook_progress import NotebookProgress
from penstock._engine.driver.monitor.progress_bar import ProgressBar
from penstock._engine.driver.monitor.unread_splits import unread_splits
from penstock._engine.driver.monitor.views import plan_view
from penstock._engine.driver.stages.files import StageFiles, delete_of_runs
from penstock._engine.driver.stages.program import program_of
from penstock._engine.graph.job_graph import JobType
from penstock._engine.plan.homes import ANYWHERE
from penstock._engine.plan.levels import build_plan
from penstock._engine.protocol.paths import (
    blobs_directory,
    frames_directory,
    frames_prefix,
    staged_directory,
)
from penstock._engine.storage.local_state import LocalStateDirectory
from penstock._engine.storage.opening import checkpoint_directory, open_storage, options_for_tasks, storage_options
from penstock._engine.storage.run_files import RunFiles
from penstock._engine.storage.scratch import ScratchDirectory
from penstock._engine.storage.temporary import TemporaryStorage
from penstock._files.s3 import is_s3_setting
from penstock.common import batch_options, option_table
from penstock.common.notebook import is_notebook
from penstock.common.redaction import hiding, learn_secrets, shown_text
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock._engine.coordinator.settings import EarlierRun
    from penstock._engine.driver.background import BackgroundExecutor
    from penstock._engine.driver.mailbox import Clock
    from penstock._engine.gateway.progress import JobStatusListener
    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.plan.epoch_plan import EpochRunner
    from penstock._engine.plan.levels import ExecutionPlan
    from penstock._engine.storage.checkpoint_storage import FileStorage
    from penstock.common.configuration import Configuration


_log = hiding(logging.getLogger(__name__))

#: Keys of the REST server: its addresses, clients and secrets.
_OF_REST = ("penstock.rest.", "rest.", "security.ssl.")


@dataclass(frozen=True, slots=True)
class RuntimeEnvironment:
    """The environment of a job in its process: runner, slots, directories, clock, threads."""

    runner: EpochRunner
    #: The number of tasks that run at the same time.
    slots: int
    #: The directory of local state on this host, in which each run has its own; the user's by default.
    state_directory: Path | None = None
    #: The folders from which tasks import the user's modules.
    python_path: tuple[str, ...] = ()
    #: The real clock and threads by default.
    clock: Clock | None = None
    background: BackgroundExecutor | None = None
    #: The working directory of tasks on this machine; empty where they keep their own.
    working_directory: str = ""
    #: On a cluster, which grows and shrinks: tells the hosts of the tasks that run at the same time now.
    hosts: Callable[[], tuple[str, ...]] | None = None
    #: And returns the executors that Spark has lost since the last call; True for the last call.
    lost_executors: Callable[[bool], Sequence[Exception]] = none_lost


def assemble(
    graph: JobGraph,
    configuration: Configuration,
    main_classes: bytes | None,
    environment: RuntimeEnvironment,
    earlier: EarlierRun | None = None,
) -> tuple[JobDriver, JobLoop]:
    """Make the driver of a job and its main loop.

    Args:
        graph: The job.
        configuration: Its effective configuration.
        main_classes: The pickled classes of the main script, for the tasks; None without any.
        environment: The environment of the job in this process.
        earlier: What is known of an earlier run of the job; the configuration may know more.

    Raises:
        ConfigurationError: A key has a value that it cannot have.
        CheckpointStorageError: The checkpoint directory cannot be used.
    """
    learn_secrets(configuration.to_dict(), configuration.get(option_table.SENSITIVE_WORDS))
    program = DriverOperators(graph)
    settings = replace(check_settings(graph, configuration, earlier), collects=program.collects)
    recovers = recovers_from_lost_drivers(graph, configuration)
    if recovers:
        settings = replace(settings, recovery=BatchRecoverySettings.read(configuration, program_of(graph)))
    storage = _open_checkpoints(graph, configuration, recovers=recovers)
    identity = DriverIdentity(run_id=uuid.uuid4().hex, fresh_job_id=uuid.uuid4().hex, penstock_version=__version__)
    plan = build_plan(graph)
    mailbox = Mailbox(environment.clock or SystemClock())
    background = environment.background or BackgroundThreads(f"penstock-{graph.name}")
    coordinator = JobCoordinator(plan, settings, identity)
    stages = StageFiles(storage, configuration, mailbox, background, recovers=recovers)
    results = Results(program.collectors, storage)
    planner = _planner(
        plan, configuration, environment, storage, stages, run_id=identity.run_id, main_classes=main_classes
    )
    local_state = LocalStateDirectory(identity.run_id, environment.state_directory)
    savepoints = SavepointFiles(storage, mailbox, background)
    run_files = cache(partial(_run_files, storage, coordinator, identity.run_id))
    is_batch = graph.job_type is JobType.BATCH
    performers = Performers(
        store=CheckpointStore(storage, background, mailbox.clock),
        enumerators=Enumerators(program.sources, mailbox, background, run_files, is_batch=is_batch),
        merger=AccumulatorMerger(graph),
        committers=Committers(program.committing_sinks, mailbox, background, storage),
        epochs=Epochs(
            planner,
            runner=environment.runner,
            storage=storage,
            mailbox=mailbox,
            background=background,
            results=results,
            local_state=local_state,
            finished=stages.finished_subtasks(identity.run_id, planner.dispatch_key),
        ),
        results=results,
        savepoints=savepoints,
        requests=ClientRequests(configuration.get(option_table.SAVEPOINT_DIRECTORY), savepoints, mailbox, background),
        job_events=stages.job_events,
        partitions=stages.partitions,
    )
    job_plan = plan_view(graph, (source for _, source in program.sources.values()), configuration)
    watch = JobMonitor(
        coordinator,
        shown_text(graph.name),
        identity.run_id,
        job_plan,
        mailbox.clock.now,
        configuration=configuration,
        storage=storage,
        lost_executors=environment.lost_executors,
    )
    driver = JobDriver(
        graph.name,
        mailbox,
        results,
        performers.requests,
        watch=watch,
        storage=storage,
        clean_up=partial(_clean_up, coordinator, storage, performers.epochs, stages, local_state, is_batch=is_batch),
        close_functions=lambda: environment.runner.release(identity.run_id),
    )
    left = partial(_unread_splits, performers.enumerators, coordinator) if job_plan.bounded else None
    listeners = [watch, *_shown_progress(graph.name, configuration, left)]
    loop = JobLoop(
        coordinator, graph.name, mailbox, performers, watch=watch, background=background, listeners=listeners
    )
    return driver, loop


def _open_checkpoints(graph: JobGraph, configuration: Configuration, *, recovers: bool) -> FileStorage:
    """Return the probed checkpoint storage; without a directory, a temporary one of this host."""
    directory, options = checkpoint_directory(configuration, recovers=recovers), storage_options(configuration)
    if directory is None:
        storage: FileStorage = TemporaryStorage(ScratchDirectory("penstock-checkpoints-"))
        storage.options = options
    else:
        _name_those_without_uid(graph)
        storage = open_storage(directory, options)
    storage.probe()
    return storage


def _planner(
    plan: ExecutionPlan,
    configuration: Configuration,
    environment: RuntimeEnvironment,
    storage: FileStorage,
    stages: StageFiles,
    *,
    run_id: str,
    main_classes: bytes | None,
) -> EpochPlanner:
    return EpochPlanner(
        plan=plan,
        job_name=plan.graph.name,
        run_id=run_id,
        hosts=environment.hosts or (lambda: (ANYWHERE,) * environment.slots),
        storage_url=storage.url,
        python_path=environment.python_path,
        working_directory=environment.working_directory,
        configuration=_for_tasks(configuration),
        results_url=stages.storage.url,
        announces=stages.recovers,
        main_classes=main_classes,
    )


def _run_files(storage: FileStorage, coordinator: JobCoordinator, run_id: str) -> RunFiles:
    prefix = frames_prefix(coordinator.job_id, run_id)
    return RunFiles(storage.url, prefix, options_for_tasks(storage.options))


def _clean_up(
    coordinator: JobCoordinator,
    storage: FileStorage,
    epochs: Epochs,
    stages: StageFiles,
    local_state: LocalStateDirectory,
    *,
    is_batch: bool,
) -> None:
    """Delete what only this run needed, once it has ended."""
    local_state.remove()
    if epochs.has_stored:
        delete_of_runs(storage, coordinator, blobs_directory(coordinator.job_id))
    if coordinator.is_over or (is_batch and (coordinator.has_ended_for_good or not stages.recovers)):
        delete_of_runs(storage, coordinator, frames_directory(coordinator.job_id))
    if coordinator.is_over:
        delete_of_runs(storage, coordinator, staged_directory(coordinator.job_id))
    if is_batch:
        stages.clean_up(coordinator)
    if isinstance(storage, TemporaryStorage):
        storage.remove()


def recovers_from_lost_drivers(graph: JobGraph, configuration: Configuration) -> bool:
    """Tell whether a job recovers from a lost driver; warn where it was asked to, and cannot."""
    if not configuration.get(batch_options.JOB_RECOVERY):
        return False
    if graph.job_type is not JobType.BATCH:
        _log.warning(
            "Job %r runs in STREAMING mode, in which %s has no effect: set execution.runtime-mode to BATCH, or let the "
            "job go on from its checkpoints with execution.state-recovery.path: latest",
            *(graph.name, batch_options.JOB_RECOVERY.key),
        )
        return False
    if checkpoint_directory(configuration, recovers=True) is not None:
        return True
    keys = f"{batch_options.HA_STORAGE.key} or {option_table.CHECKPOINT_DIRECTORY.key}"
    _log.warning(
        "Batch job %r runs without recovery, although %s is set: set %s to a directory that outlives the driver",
        *(graph.name, batch_options.JOB_RECOVERY.key, keys),
    )
    return False


def _name_those_without_uid(graph: JobGraph) -> None:
    """Warn of operators without a uid, whose state a changed program may not find."""
    unnamed = [str(node) for node in graph.operators.values() if node.stateful and not node.explicit_uid]
    if unnamed:
        _log.warning(
            "Operators of job %r that keep state and have no uid(...): %s. Their state is found by their place in the "
            "program alone; give them a uid, so that the program may change around them",
            *(graph.name, ", ".join(unnamed)),
        )


def _shown_progress(
    job_name: str, configuration: Configuration, unread_splits: Callable[[], int | None] | None
) -> list[JobStatusListener]:
    """Return what shows a job's progress: where that is wanted, and in a notebook where nothing is said about it."""
    option = option_table.PROGRESS_ENABLED
    if not configuration.get(option) and (not is_notebook() or configuration.contains_key(option.key)):
        return []
    return [NotebookProgress(job_name, unread_splits) if is_notebook() else ProgressBar(job_name, None, unread_splits)]


def _unread_splits(enumerators: Enumerators, coordinator: JobCoordinator) -> int | None:
    return unread_splits(enumerators, coordinator.state.snapshot)


def _for_tasks(configuration: Configuration) -> dict[str, str]:
    """Return the configuration for tasks, without the keys of the REST server, storage and signatures."""
    return {
        key: value
        for key, value in configuration.to_dict().items()
        if not key.startswith(_OF_REST) and key != option_table.STATE_SIGNING_KEY.key and not is_s3_setting(key)
    }


def check_settings(graph: JobGraph, configuration: Configuration, earlier: EarlierRun | None = None) -> JobSettings:
    """Return the settings of a job.

    Args:
        graph: The job.
        configuration: Its effective configuration.
        earlier: What is known of an earlier run of it.

    Raises:
        ConfigurationError: A key has a value that it cannot have.
    """
    settings = JobSettings.read(configuration, graph.name)
    sources = [vertex.operators[0].uid for vertex in graph.vertices if vertex.is_source]
    unknown = set(settings.reopened_sources).difference(sources)
    if unknown:
        key = option_table.RESTART_FINISHED_SOURCES.key
        reason = f"the job has no such source; the uids of its sources are {', '.join(map(repr, sources))}"
        raise ConfigurationError(key, ", ".join(sorted(unknown)), reason)
    path = settings.recovery_path
    if path == LATEST and configuration.get(option_table.CHECKPOINT_DIRECTORY) is None:
        key = option_table.CHECKPOINT_DIRECTORY.key
        reason = f"there is no directory in which the job's newest checkpoint could be; set {key} to it"
        raise ConfigurationError(option_table.RECOVERY_PATH.key, LATEST, reason)
    return settings if earlier is None else replace(settings, earlier=earlier)
