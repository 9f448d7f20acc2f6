"""The settings that the coordinator's decisions depend on, read once from the job's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from penstock.common import batch_options, option_table, restart_options, task_options
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.protocol.batch_program import BatchProgram
    from penstock.common.configuration import Configuration
    from penstock.common.time import Duration

#: The value of `execution.state-recovery.path` that stands for the job's own newest checkpoint.
LATEST: Final = option_table.LATEST


_NO_FIRST_START: Final = (
    "{} says that the job has run before (if it has not, allow its first start: penstock run --allow-first-start, or "
    "penstock.allow-first-start: true)"
)


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """The settings of the retention of checkpoints."""

    #: The number of checkpoints that are kept while the job runs.
    retained: int
    on_cancel: bool
    on_failure: bool
    #: Only if a later start can continue from them.
    on_finish: bool = False


@dataclass(frozen=True, slots=True)
class RestartStrategySettings:
    """Flink's keys below ``restart-strategy``; times in milliseconds."""

    strategy: str = "none"
    fixed_attempts: int = 1
    fixed_delay_ms: int = 1_000
    rate_max_failures: int = 1
    rate_interval_ms: int = 60_000
    rate_delay_ms: int = 1_000
    initial_backoff_ms: int = 1_000
    max_backoff_ms: int = 60_000
    backoff_multiplier: float = 1.5
    reset_threshold_ms: int = 3_600_000
    jitter_factor: float = 0.1
    attempts_before_reset: int = 2**31 - 1

    @classmethod
    def read(cls, configuration: Configuration, *, checkpointing: bool) -> RestartStrategySettings:
        """Read the settings; the default is exponential delay with checkpointing and none without."""
        get = configuration.get
        return cls(
            strategy=get(restart_options.RESTART_STRATEGY) or ("exponential-delay" if checkpointing else "none"),
            fixed_attempts=get(restart_options.FIXED_DELAY_ATTEMPTS),
            fixed_delay_ms=get(restart_options.FIXED_DELAY_DELAY).to_millis(),
            rate_max_failures=get(restart_options.FAILURE_RATE_MAX_FAILURES),
            rate_interval_ms=get(restart_options.FAILURE_RATE_INTERVAL).to_millis(),
            rate_delay_ms=get(restart_options.FAILURE_RATE_DELAY).to_millis(),
            initial_backoff_ms=get(restart_options.EXPONENTIAL_INITIAL_BACKOFF).to_millis(),
            max_backoff_ms=get(restart_options.EXPONENTIAL_MAX_BACKOFF).to_millis(),
            backoff_multiplier=get(restart_options.EXPONENTIAL_MULTIPLIER),
            reset_threshold_ms=get(restart_options.EXPONENTIAL_RESET_THRESHOLD).to_millis(),
            jitter_factor=get(restart_options.EXPONENTIAL_JITTER),
            attempts_before_reset=get(restart_options.EXPONENTIAL_ATTEMPTS),
        )


@dataclass(frozen=True, slots=True)
class AutoParallelism:
    """How many subtasks a vertex of a batch job gets by the bytes of its input."""

    enabled: bool = True
    least: int = 1
    most: int = 128
    bytes_per_subtask: int = 16 << 20

    @classmethod
    def read(cls, configuration: Configuration) -> AutoParallelism:
        """Read Flink's keys below ``execution.batch.adaptive.auto-parallelism``."""
        get = configuration.get
        return cls(
            get(batch_options.AUTO_PARALLELISM),
            get(batch_options.MIN_AUTO_PARALLELISM),
            get(batch_options.MAX_AUTO_PARALLELISM),
            get(batch_options.AVERAGE_DATA_VOLUME),
        )

    def decide(self, size: int, parallelism: int) -> int:
        """Return the number of subtasks for an input of some bytes, at most the parallelism of the job graph."""
        wanted = -(-size // self.bytes_per_subtask)
        return max(1, min(max(wanted, self.least), self.most, parallelism))


@dataclass(frozen=True, slots=True)
class BatchRecoverySettings:
    """The settings of a batch job that recovers from a lost driver; times in milliseconds."""

    #: The program, which the run before must have had.
    program: BatchProgram
    accept_changed_functions: bool = False
    snapshot_min_pause_ms: int = 180_000
    timeout_ms: int = 30_000

    @classmethod
    def read(cls, configuration: Configuration, program: BatchProgram) -> BatchRecoverySettings:
        """Read Flink's keys below ``execution.batch.job-recovery``."""
        get = configuration.get
        return cls(
            program,
            get(batch_options.ACCEPT_CHANGED_FUNCTIONS),
            get(batch_options.SNAPSHOT_MIN_PAUSE).to_millis(),
            get(batch_options.PREVIOUS_WORKER_TIMEOUT).to_millis(),
        )


class CommitAction(StrEnum):
    """What becomes of a committable."""

    #: It is published, although it may have been before.
    PUBLISH = "publish"
    #: It counts as published.
    SKIP = "skip"
    #: Its records are in no output.
    GIVE_UP = "give-up"


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """The decision about one committable."""

    committable: str
    action: CommitAction
    #: The file that gets the records of a committable that is given up.
    records: str | None = None


def read_decisions(texts: Iterable[str]) -> tuple[CommitDecision, ...]:
    """Return the decisions of a configuration.

    Raises:
        ConfigurationError: One is none, or a committable or a file occurs twice.

    Example:
        >>> [str(decision.action) for decision in read_decisions(["7-0-5f=skip", "7-1-9a=give-up:/tmp/lost.jsonl"])]
        ['skip', 'give-up']
        >>> read_decisions(["7-0-5f"])
        Traceback (most recent call last):
        penstock.errors.ConfigurationError: penstock.committables cannot be '7-0-5f': it is not ID=ACTION, ...
    """
    key, found = option_table.COMMITTABLES.key, dict[str, CommitDecision]()
    files: set[str] = set()
    for text in texts:
        name, _, wanted = text.partition("=")
        action, _, records = wanted.partition(":")
        if action not in {*CommitAction} or (records and action != CommitAction.GIVE_UP):
            reason = "it is not ID=ACTION, where the action is publish, skip, give-up or give-up:FILE"
            raise ConfigurationError(key, text, reason)
        if name in found or records in files:
            raise ConfigurationError(key, text, "the committable or the file is named twice")
        found[name] = CommitDecision(name, CommitAction(action), records or None)
        files.update({records} - {""})
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """An earlier run that a job is known to have had: the checkpoint directory must have its records."""

    #: How it is known, a clause without a full stop.
    reason: str
    #: The last checkpoint that the run is known to have completed.
    checkpoint_id: int = 0
    #: Whether the job has ended there: one that was cancelled or stopped is not started again.
    has_ended: bool = False

    @classmethod
    def read(cls, configuration: Configuration) -> EarlierRun | None:
        """Return what the configuration knows; None if the start may be the job's first one."""
        allows, job_id = configuration.get(option_table.ALLOW_FIRST_START), configuration.get(option_table.JOB_ID)
        if configuration.get(option_table.RECOVERY_PATH) != LATEST or allows or (allows is None and job_id is None):
            return None
        return cls(_NO_FIRST_START.format("penstock run -s latest" if job_id is None else option_table.JOB_ID.key))


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The settings of one job that the coordinator's decisions depend on."""

    job_name: str
    #: None to find it by the job's name, or to make a random one.
    job_id: str | None
    #: A checkpoint, LATEST, or None for a fresh start.
    recovery_path: str | None
    ignore_unclaimed_state: bool
    #: Whether claim mode is CLAIM: the job owns the checkpoint that it starts from, and deletes it after newer ones.
    claim: bool
    #: The intended length of an epoch in milliseconds: the checkpoint interval, or the minimum pause between two
    #: checkpoints if that is longer (records flow during the pause). None without checkpointing.
    epoch_ms: int | None
    #: The same while a source reports a backlog.
    backlog_epoch_ms: int | None
    #: An epoch expires when none of its tasks has ended for this long.
    timeout_ms: int
    #: The number of epochs in a row that may expire without failing the job.
    tolerable_failures: int
    committer_retries: int
    retention: RetentionSettings
    restart: RestartStrategySettings
    #: The uids of sources that read new input although they had finished in the restored checkpoint.
    reopened_sources: tuple[str, ...] = ()
    #: What becomes of committables of the restored checkpoint.
    commit_decisions: tuple[CommitDecision, ...] = ()
    auto_parallelism: AutoParallelism = AutoParallelism()
    #: Whether the user's program collects results of the job.
    collects: bool = False
    #: None if a lost driver means that the job starts from its beginning.
    recovery: BatchRecoverySettings | None = None
    #: The directory of checkpoints, for messages.
    directory: str = ""
    #: None if this may be the first start of the job.
    earlier: EarlierRun | None = None
    #: Whether the job is taken over from a driver that is known to run.
    takes_over: bool = True
    #: Whether all levels of an epoch run at the same time, for as long as an epoch is to last.
    pipelined: bool = False
    #: The least length of an epoch that no request ends.
    min_pause_ms: int = 0

    @property
    def latest(self) -> bool:
        """Whether the job continues from its own newest checkpoint."""
        return self.recovery_path == LATEST

    @property
    def finds_itself(self) -> bool:
        """Whether the job is found by its name: it continues from its newest checkpoint, or recovers by its events."""
        return self.latest or (self.recovery is not None and self.recovery_path is None)

    @classmethod
    def read(cls, configuration: Configuration, job_name: str) -> JobSettings:
        """Read the settings of a job; raise ConfigurationError for an invalid value."""
        interval = configuration.get(option_table.CHECKPOINTING_INTERVAL)
        backlog = configuration.get(option_table.CHECKPOINTING_INTERVAL_DURING_BACKLOG)
        pause = configuration.get(option_table.CHECKPOINTING_MIN_PAUSE)
        pipelined = task_options.is_pipelined(configuration)
        if backlog is None or (pipelined and not backlog.to_millis()):  # a pipelined epoch lasts as long as an interval
            backlog = interval
        retention = configuration.get(option_table.CHECKPOINT_RETENTION)
        reopened_sources = configuration.get(option_table.RESTART_FINISHED_SOURCES)
        return cls(
            job_name=job_name,
            job_id=configuration.get(option_table.JOB_ID),
            recovery_path=configuration.get(option_table.RECOVERY_PATH),
            ignore_unclaimed_state=configuration.get(option_table.IGNORE_UNCLAIMED_STATE),
            claim=configuration.get(option_table.RECOVERY_CLAIM_MODE) == "CLAIM",
            epoch_ms=_epoch_ms(interval, pause),
            backlog_epoch_ms=_epoch_ms(backlog, pause),
            timeout_ms=configuration.get(option_table.CHECKPOINTING_TIMEOUT).to_millis(),
            tolerable_failures=configuration.get(option_table.CHECKPOINTING_TOLERABLE_FAILURES),
            committer_retries=configuration.get(option_table.COMMITTER_RETRIES),
            retention=RetentionSettings(
                retained=configuration.get(option_table.CHECKPOINTS_RETAINED),
                on_cancel=retention == "RETAIN_ON_CANCELLATION",
                on_failure=retention != "NO_EXTERNALIZED_CHECKPOINTS",
                on_finish=bool(reopened_sources) and retention != "NO_EXTERNALIZED_CHECKPOINTS",
            ),
            restart=RestartStrategySettings.read(configuration, checkpointing=interval is not None),
            reopened_sources=tuple(dict.fromkeys(reopened_sources)),
            commit_decisions=read_decisions(configuration.get(option_table.COMMITTABLES)),
            auto_parallelism=AutoParallelism.read(configuration),
            directory=configuration.get(option_table.CHECKPOINT_DIRECTORY) or "",
            earlier=EarlierRun.read(configuration),
            takes_over=configuration.get(option_table.TAKEOVER),
            pipelined=pipelined,
            min_pause_ms=pause.to_millis(),
        )


def _epoch_ms(interval: Duration | None, pause: Duration) -> int | None:
    """Return the length of an epoch; an interval of 0 means no checkpointing."""
    if interval is None or not interval.to_millis():
        return None
    return max(interval.to_millis(), pause.to_millis())
