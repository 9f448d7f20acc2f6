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
from penstock._engine.driver.checkpoints.savepoints import ClientRequests, SavepointFiles
from penstock._engine.driver.checkpoints.start_lookups import StartLookups
from penstock._engine.driver.client.other_drivers import OtherDrivers
from penstock._engine.driver.client.results import Results
from penstock._engine.driver.driver import JobDriver, RunCleanUp
from penstock._engine.driver.epochs.accumulators import AccumulatorMerger
from penstock._engine.driver.epochs.committers import Committers
from penstock._engine.driver.epochs.driver_operators import DriverOperators
from penstock._engine.driver.epochs.enumerators import Enumerators
from penstock._engine.driver.epochs.execution import EpochPlanner, Epochs
from penstock._engine.driver.epochs.signals import listen
from penstock._engine.driver.loop import JobLoop, JobReports, Performers
from penstock._engine.driver.mailbox import Mailbox, SystemClock
from penstock._engine.driver.monitor.job_monitor import JobMonitor, none_lost
from penstock._engine.driver.monitor.notebook_progress import NotebookProgress
from penstock._engine.driver.monitor.progress_bar import ProgressBar
from penstock._engine.driver.monitor.unread_splits import unread_splits
from penstock._engine.driver.monitor.views import plan_view
from penstock._engine.driver.stages.files import StageFiles
from penstock._engine.driver.stages.program import program_of
from penstock._engine.graph.job_graph import JobType
from penstock._engine.plan.homes import anywhere
from penstock._engine.plan.levels import build_plan
from penstock._engine.protocol.paths import frames_prefix
from penstock._engine.storage.local_state import LocalStateDirectory
from penstock._engine.storage.opening import checkpoint_directory, open_storage, options_for_tasks, storage_options
from penstock._engine.storage.run_files import RunFiles
from penstock._engine.storage.scratch import ScratchDirectory
from penstock._engine.storage.temporary import TemporaryStorage
from penstock._files.s3 import is_s3_setting
from penstock.common import batch_options, option_table, task_options
from penstock.common.notebook import is_notebook
from penstock.common.redaction import hiding, learn_secrets, shown_text
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock._engine.coordinator.settings import EarlierRun
    from penstock._engine.driver.background import BackgroundExecutor
    from penstock._engine.driver.mailbox import Clock
    from penstock._engine.gateway.job_view import PlanView
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
    #: Where tasks reach the driver while an epoch runs, and the address to listen at; "" where they do not.
    host: str = ""
    bind: str = ""
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
    run = _job_run(graph, configuration, main_classes, environment, earlier)
    performers = _performers(run)
    job_plan = plan_view(graph, (source for _, source in run.program.sources.values()), configuration)
    watch = _monitor(run, job_plan)
    clean_up = RunCleanUp(
        run.run_id, environment.runner, run.coordinator, run.storage, performers.epochs, run.stages, run.local_state
    )
    driver = JobDriver(
        graph.name,
        run.mailbox,
        run.results,
        performers.requests,
        watch=watch,
        storage=run.storage,
        clean_up=clean_up,
    )
    listeners = [watch, *_shown_progress(run, performers.enumerators, is_bounded=job_plan.bounded)]
    loop = JobLoop(
        run.coordinator,
        graph.name,
        run.mailbox,
        performers,
        watch=watch,
        background=run.background,
        reports=JobReports(run.coordinator, graph.name, run.mailbox.clock, listeners),
    )
    return driver, loop


@dataclass(frozen=True, slots=True)
class _JobRun:
    """What the parts of a job's driver are made of: the job, this process, and what several parts share."""

    graph: JobGraph
    configuration: Configuration
    main_classes: bytes | None
    environment: RuntimeEnvironment
    run_id: str
    #: Finished, opened and made for this run.
    plan: ExecutionPlan
    program: DriverOperators
    coordinator: JobCoordinator
    storage: FileStorage
    stages: StageFiles
    local_state: LocalStateDirectory
    mailbox: Mailbox
    background: BackgroundExecutor
    results: Results

    @property
    def is_batch(self) -> bool:
        """Whether the job runs by stages."""
        return self.graph.job_type is JobType.BATCH


def _job_run(
    graph: JobGraph,
    configuration: Configuration,
    main_classes: bytes | None,
    environment: RuntimeEnvironment,
    earlier: EarlierRun | None,
) -> _JobRun:
    """Check the settings of a job, open its storage, and make what the parts of its driver share."""
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
    return _JobRun(
        graph=graph,
        configuration=configuration,
        main_classes=main_classes,
        environment=environment,
        run_id=identity.run_id,
        plan=plan,
        program=program,
        coordinator=JobCoordinator(plan, settings, identity),
        storage=storage,
        stages=StageFiles(storage, configuration, mailbox, background, recovers=recovers),
        local_state=LocalStateDirectory(identity.run_id, environment.state_directory),
        mailbox=mailbox,
        background=background,
        results=Results(program.collectors, storage),
    )


def _performers(run: _JobRun) -> Performers:
    """Make the parts that perform the coordinator's instructions."""
    storage, mailbox, background, program = run.storage, run.mailbox, run.background, run.program
    savepoints = SavepointFiles(storage, mailbox, background)
    return Performers(
        lookups=StartLookups(storage),
        store=CheckpointStore(storage, background, mailbox.clock),
        enumerators=Enumerators(
            program.sources, mailbox, background, cache(partial(_run_files, run)), is_batch=run.is_batch
        ),
        merger=AccumulatorMerger(run.graph),
        committers=Committers(program.committing_sinks, mailbox, background, storage),
        epochs=_epochs(run),
        results=run.results,
        savepoints=savepoints,
        requests=ClientRequests(
            run.configuration.get(option_table.SAVEPOINT_DIRECTORY), savepoints, mailbox, background
        ),
        job_events=run.stages.job_events,
        partitions=run.stages.partitions,
        drivers=OtherDrivers(run.configuration, run.run_id),
    )


def _epochs(run: _JobRun) -> Epochs:
    environment = run.environment
    planner = EpochPlanner(
        plan=run.plan,
        job_name=run.graph.name,
        run_id=run.run_id,
        hosts=environment.hosts or partial(anywhere, environment.slots),
        storage_url=run.storage.url,
        python_path=environment.python_path,
        working_directory=environment.working_directory,
        configuration=_for_tasks(run.configuration),
        results_url=run.stages.storage.url,
        announces=run.stages.recovers,
        pipelined=task_options.is_pipelined(run.configuration),
        listen=(lambda _: None) if run.is_batch else partial(listen, environment.host, environment.bind),
        main_classes=run.main_classes,
    )
    return Epochs(
        planner,
        runner=environment.runner,
        storage=run.storage,
        mailbox=run.mailbox,
        background=run.background,
        results=run.results,
        local_state=run.local_state,
        finished=run.stages.finished_subtasks(run.run_id, planner.dispatch_key),
    )


def _monitor(run: _JobRun, job_plan: PlanView) -> JobMonitor:
    return JobMonitor(
        run.coordinator,
        shown_text(run.graph.name),
        run.run_id,
        job_plan,
        run.mailbox.clock.now,
        configuration=run.configuration,
        storage=run.storage,
        lost_executors=run.environment.lost_executors,
    )


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


def _run_files(run: _JobRun) -> RunFiles:
    prefix = frames_prefix(run.coordinator.job_id, run.run_id)
    return RunFiles(run.storage.url, prefix, options_for_tasks(run.storage.options))


def recovers_from_lost_drivers(graph: JobGraph, configuration: Configuration) -> bool:
    """Tell whether a job recovers from a lost driver; warn where it was asked to, and cannot."""
    if not configuration.get(batch_options.JOB_RECOVERY):
        return False
    if graph.job_type is not JobType.BATCH:
        _log.warning(
            "Job %r runs in STREAMING mode, in which %s has no effect: set execution.runtime-mode to BATCH, or restore "
            "the job from its checkpoints with execution.state-recovery.path: latest",
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


def _shown_progress(run: _JobRun, enumerators: Enumerators, *, is_bounded: bool) -> list[JobStatusListener]:
    """Return what shows a job's progress: where that is wanted, and in a notebook where nothing is said about it."""
    option, configuration = option_table.PROGRESS_ENABLED, run.configuration
    if not configuration.get(option) and (not is_notebook() or configuration.contains_key(option.key)):
        return []
    left = partial(_unread_splits, enumerators, run.coordinator) if is_bounded else None
    name = run.graph.name
    return [NotebookProgress(name, left) if is_notebook() else ProgressBar(name, None, left)]


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
        reason = f"{key} is not set, so there is no directory to look for the job's newest checkpoint in; set it"
        raise ConfigurationError(option_table.RECOVERY_PATH.key, LATEST, reason)
    if settings.pipelined:
        _check_exchange(graph, configuration, settings)
    return settings if earlier is None else replace(settings, earlier=earlier)


def _check_exchange(graph: JobGraph, configuration: Configuration, settings: JobSettings) -> None:
    """Refuse a pipelined exchange for a job, or in a network, that it is not for."""
    key = task_options.EXCHANGE.key
    if graph.job_type is JobType.BATCH:
        reason = f"a batch job runs one stage after the other; leave {key} out, or run the job as a stream"
        raise ConfigurationError(key, "pipelined", reason)
    if not configuration.get(option_table.CHECKPOINTING_INTERVAL):
        reason = f"an epoch lasts as long as the checkpoint interval; set {option_table.CHECKPOINTING_INTERVAL.key}"
        raise ConfigurationError(key, "pipelined", reason)
    longest_ms = max(settings.epoch_ms or 0, settings.backlog_epoch_ms or 0)
    if longest_ms >= settings.timeout_ms:
        limit = f"{option_table.CHECKPOINTING_TIMEOUT.key}, which is {settings.timeout_ms} ms"
        reason = f"an epoch lasts as long as the checkpoint interval, {longest_ms} ms, which is not less than {limit}"
        raise ConfigurationError(key, "pipelined", reason)
    if not configuration.get(task_options.TRUSTED_NETWORK):
        reason = (
            "Spark's servers for it listen at all addresses of each host, and answer anybody: who reaches them can "
            f"read records and end the job. Set {task_options.TRUSTED_NETWORK.key} to true where nobody else does"
        )
        raise ConfigurationError(key, "pipelined", reason)
