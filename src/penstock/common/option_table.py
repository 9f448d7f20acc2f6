"""Every configuration key that Penstock reads: type, default, older names, and effect.

Code reads a key with ``configuration.get(option_table.CHECKPOINTING_INTERVAL)``; checking, listing and messages go
through :data:`OPTIONS`. Restarts, batch jobs and tasks have modules of their own beside this one
(``restart_options``, ``batch_options``, ``task_options``), and so do the keys that nothing here reads
(``unread_options``): all of them are in it.

Two defaults differ from Flink's: a job keeps its two newest checkpoints, also when it is cancelled or fails.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.common.batch_options import BATCH_OPTIONS
from penstock.common.config_options import ConfigOption, option, optional, options_in
from penstock.common.config_values import (
    BOOL,
    COUNT,
    DURATION,
    INT,
    LIST,
    LOCAL_PATH,
    MAP,
    MEMORY,
    PATH,
    POSITIVE,
    STRING,
    choice,
    duration,
)
from penstock.common.restart_options import RESTART_OPTIONS
from penstock.common.task_options import TASK_OPTIONS
from penstock.common.time import Duration
from penstock.common.unread_options import UNREAD

#: The value that stands for the job's newest checkpoint, in place of a path.
LATEST = "latest"

_MIN_CHECKPOINT_MS = 10
_MAX_KEY_GROUPS = 32768

_AT_LEAST_10_MS = DURATION.where(lambda value: value.to_millis() >= _MIN_CHECKPOINT_MS, "at least 10 ms")
_OFF_OR_10_MS = DURATION.where(
    lambda value: value.nanos == 0 or value.to_millis() >= _MIN_CHECKPOINT_MS, "0 for off, or at least 10 ms"
)
_PORT = INT.where(lambda value: 0 <= value <= 65535, "between 0 and 65535")
_PORTS = STRING.where(
    lambda value: re.fullmatch(r"\d+(-\d+)?(\s*,\s*\d+(-\d+)?)*", value) is not None,
    "a port, a range or a list of them",
)
_JOB_ID = STRING.where(lambda value: re.fullmatch("[0-9a-f]{32}", value) is not None, "32 hexadecimal digits")

# ------------------------------------------------------------------------------------------------- the job as a whole

RUNTIME_MODE = option(
    "execution.runtime-mode", choice("STREAMING", "BATCH", "AUTOMATIC"), "STREAMING", "streaming or batch execution"
)
PARALLELISM = option("parallelism.default", POSITIVE, 1, "subtasks of an operator that does not say how many")
MAX_PARALLELISM = option(
    "pipeline.max-parallelism",
    INT.where(lambda value: value == -1 or 1 <= value <= _MAX_KEY_GROUPS, f"-1, or between 1 and {_MAX_KEY_GROUPS}"),
    -1,
    "number of key groups; -1 derives it from the parallelism",
)
JOB_NAME = optional("pipeline.name", STRING, "name of a job that is executed without one")
GLOBAL_JOB_PARAMETERS = option("pipeline.global-job-parameters", MAP, {}, "what get_job_parameter() finds")
AUTO_WATERMARK_INTERVAL = option(
    "pipeline.auto-watermark-interval", DURATION, Duration.of_millis(200), "time between periodic watermarks; 0: none"
)
ALLOW_UNALIGNED_SOURCE_SPLITS = option(
    "pipeline.watermark-alignment.allow-unaligned-source-splits", BOOL, False, "single splits need not pause"
)
OPERATOR_CHAINING = option(
    "pipeline.operator-chaining.enabled",
    BOOL,
    True,
    "operators that need no exchange between them run as one",
    aliases=("pipeline.operator-chaining",),
)
CHAIN_DIFFERENT_MAX_PARALLELISM = option(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism",
    BOOL,
    True,
    "chaining also joins operators with different numbers of key groups",
)
AUTO_GENERATE_UIDS = option(
    "pipeline.auto-generate-uids", BOOL, True, "operators with state get a uid; false makes those without an error"
)
BUFFER_TIMEOUT = option(
    "execution.buffer-timeout.interval",
    DURATION,
    Duration.of_millis(100),
    "longest time that a network buffer waits to fill",
    aliases=("execution.buffer-timeout",),
    no_effect="records travel in blocks with Spark's exchange; there are no network buffers",
)
OBJECT_REUSE = option(
    "pipeline.object-reuse",
    BOOL,
    False,
    "records go from function to function without a copy; see docs/records.md for what functions may not do then",
)

JOB_LISTENERS = option(
    "execution.job-listeners", LIST, (), "classes that are told when jobs start and end, each as module.Class"
)

# --------------------------------------------------------------------------------------------------------- checkpoints

CHECKPOINTING_INTERVAL = optional(
    "execution.checkpointing.interval", _AT_LEAST_10_MS, "time between checkpoints, and the length of an epoch"
)
CHECKPOINTING_INTERVAL_DURING_BACKLOG = optional(
    "execution.checkpointing.interval-during-backlog",
    _OFF_OR_10_MS,
    "time between checkpoints while a source reports a backlog; 0 for none",
)
CHECKPOINTING_MODE = option(
    "execution.checkpointing.mode",
    choice("EXACTLY_ONCE", "AT_LEAST_ONCE"),
    "EXACTLY_ONCE",
    "what a record's effect on state may be after a failure",
    no_effect="every checkpoint is exactly once, which is also at least once",
)
CHECKPOINTING_TIMEOUT = option(
    "execution.checkpointing.timeout",
    _AT_LEAST_10_MS,
    Duration.of_minutes(10),
    "time without progress after which an epoch expires",
)
CHECKPOINTING_MIN_PAUSE = option(
    "execution.checkpointing.min-pause", DURATION, Duration(0), "least time between two checkpoints"
)
CHECKPOINTING_MAX_CONCURRENT = option(
    "execution.checkpointing.max-concurrent-checkpoints",
    POSITIVE,
    1,
    "checkpoints under way at the same time",
    no_effect="an epoch ends in one checkpoint, and epochs follow each other",
)
CHECKPOINTING_TOLERABLE_FAILURES = option(
    "execution.checkpointing.tolerable-failed-checkpoints",
    COUNT,
    0,
    "failed checkpoints in a row that do not fail the job",
)
CHECKPOINT_RETENTION = option(
    "execution.checkpointing.externalized-checkpoint-retention",
    choice("RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"),
    "RETAIN_ON_CANCELLATION",
    "which ends of a job keep its checkpoints",
)
UNALIGNED_CHECKPOINTS = option(
    "execution.checkpointing.unaligned.enabled",
    BOOL,
    False,
    "checkpoints overtake records",
    aliases=("execution.checkpointing.unaligned",),
    no_effect="there are no barriers that records could hold up",
)
FORCE_UNALIGNED_CHECKPOINTS = option(
    "execution.checkpointing.unaligned.forced",
    BOOL,
    False,
    "checkpoints overtake records in loops too",
    no_effect="there are no barriers that records could hold up",
)
ALIGNED_CHECKPOINT_TIMEOUT = option(
    "execution.checkpointing.aligned-checkpoint-timeout",
    DURATION,
    Duration(0),
    "time after which checkpoints overtake records",
    aliases=("execution.checkpointing.alignment-timeout",),
    no_effect="there are no barriers that records could hold up",
)
CHECKPOINTS_RETAINED = option(
    "execution.checkpointing.num-retained",
    POSITIVE,
    2,
    "number of newest checkpoints that are kept",
    aliases=("state.checkpoints.num-retained",),
)
CHECKPOINT_DIRECTORY = optional(
    "execution.checkpointing.dir", PATH, "where checkpoints are kept", aliases=("state.checkpoints.dir",)
)
SAVEPOINT_DIRECTORY = optional(
    "execution.checkpointing.savepoint-dir",
    PATH,
    "directory of savepoints that are asked for without one",
    aliases=("state.savepoints.dir",),
)
CHECKPOINT_INLINE_THRESHOLD = option(
    "execution.checkpointing.data-inline-threshold",
    MEMORY,
    20 * 1024,
    "state up to this size is stored in the checkpoint's metadata",
    aliases=("state.storage.fs.memory-threshold",),
)
SNAPSHOT_COMPRESSION = option(
    "execution.checkpointing.snapshot-compression",
    BOOL,
    True,
    "snapshots are compressed",
    no_effect="snapshots are always compressed",
)
STATE_CHANGELOG = optional(
    "state.changelog.enabled",
    BOOL,
    "changes of state are written as they happen",
    no_effect="checkpoints always hold what changed",
)
RECOVERY_PATH = optional(
    "execution.state-recovery.path",
    PATH.unless(LATEST),
    "checkpoint or savepoint to start from; 'latest' is this job's newest one",
    aliases=("execution.savepoint.path",),
)
RECOVERY_CLAIM_MODE = option(
    "execution.state-recovery.claim-mode",
    choice(
        "NO_CLAIM",
        "CLAIM",
        refused={"LEGACY": "LEGACY leaves open who owns the files; take CLAIM to own them or NO_CLAIM to leave them"},
    ),
    "NO_CLAIM",
    "whether the job owns, and so deletes, what it was started from",
    aliases=("execution.savepoint-restore-mode", "execution.savepoint.restore-mode"),
)
IGNORE_UNCLAIMED_STATE = option(
    "execution.state-recovery.ignore-unclaimed-state",
    BOOL,
    False,
    "state of operators that the job does not have is dropped",
    aliases=("execution.savepoint.ignore-unclaimed-state",),
)

# -------------------------------------------------------------------------------------------------- checkpoints in S3

S3_ENDPOINT = optional(
    "s3.endpoint", STRING, "the server that s3:// means; Amazon's by default", aliases=("fs.s3a.endpoint",)
)
S3_REGION = optional(
    "s3.region", STRING, "region of the buckets", aliases=("s3.endpoint.region", "fs.s3a.endpoint.region")
)
S3_PATH_STYLE = optional(
    "s3.path.style.access",
    BOOL,
    "the bucket is part of the path of requests (the default), not of the host name",
    aliases=("s3.path-style-access", "fs.s3a.path.style.access"),
)
S3_ACCESS_KEY = optional(
    "s3.access-key", STRING, "whose requests they are", aliases=("s3.access.key", "fs.s3a.access.key")
)
S3_SECRET_KEY = optional("s3.secret-key", STRING, "what signs requests", aliases=("s3.secret.key", "fs.s3a.secret.key"))
S3_SESSION_TOKEN = optional(
    "s3.session-token",
    STRING,
    "goes with temporary keys",
    aliases=("s3.session.token", "fs.s3a.session.token"),
)

# --------------------------------------------------------------------------------------------------- sources and sinks

READER_QUEUE_CAPACITY = option("source.reader.element.queue.capacity", POSITIVE, 2, "batches that readers fetch ahead")
READER_CLOSE_TIMEOUT = option(
    "source.reader.close.timeout", DURATION, Duration.of_millis(30_000), "time that a reader has to close"
)
COMMITTER_RETRIES = option("sink.committer.retries", COUNT, 10, "times that a committable is tried again")

# ----------------------------------------------------------------------------------------------------------- REST, CLI

EXCEPTION_HISTORY_SIZE = option("web.exception-history-size", POSITIVE, 16, "failures of a job that can be asked for")
REST_PORT = option("rest.port", _PORT, 8081, "port of the REST server; 8081 or the next free one by default")
REST_BIND_PORT = optional("rest.bind-port", _PORTS, "port or range of ports that the server may take")
REST_ADDRESS = optional("rest.address", STRING, "name that clients use for the server; its bind address by default")
REST_BIND_ADDRESS = optional("rest.bind-address", STRING, "address that the server listens on; loopback by default")
REST_STORE_DURATION = option(
    "rest.async.store-duration", DURATION, Duration.of_minutes(5), "time that results of savepoints can be asked for"
)
REST_TLS_ENABLED = option("security.ssl.rest.enabled", BOOL, False, "the REST server speaks TLS")
REST_TLS_KEYSTORE = optional(
    "security.ssl.rest.keystore",
    LOCAL_PATH,
    "PEM file with the server's certificate, those above it, and its private key",
    aliases=("security.ssl.keystore",),
)
REST_TLS_KEYSTORE_TYPE = optional("security.ssl.rest.keystore-type", STRING, "PEM, whatever Flink takes")
REST_TLS_KEY_PASSWORD = optional(
    "security.ssl.rest.key-password",
    STRING,
    "password of that private key",
    aliases=("security.ssl.key-password",),
)
REST_TLS_AUTHENTICATION = option(
    "security.ssl.rest.authentication-enabled", BOOL, False, "clients of the REST server show certificates, too"
)
REST_TLS_TRUSTSTORE = optional(
    "security.ssl.rest.truststore",
    LOCAL_PATH,
    "PEM file with the certificates that those of clients come from",
    aliases=("security.ssl.truststore",),
)
REST_TLS_TRUSTSTORE_TYPE = optional("security.ssl.rest.truststore-type", STRING, "PEM, whatever Flink takes")
ARCHIVE_DIRECTORY = optional(
    "jobmanager.archive.fs.dir", PATH, "where ended jobs are written, as Flink's history server reads them"
)
JOB_STORE_EXPIRATION = option(
    "jobstore.expiration-time", duration("s"), Duration.of_seconds(3600), "time that ended jobs stay listed"
)

# ---------------------------------------------------------------------------------------------------- Flink's clusters

TASK_CANCELLATION_INTERVAL = option(
    "task.cancellation.interval",
    DURATION,
    Duration.of_millis(30_000),
    "time between two attempts to interrupt a task",
    no_effect="Spark interrupts the tasks of a cancelled job",
)
TASK_CANCELLATION_TIMEOUT = option(
    "task.cancellation.timeout",
    DURATION,
    Duration.of_millis(180_000),
    "time after which a task that does not end takes its process with it",
    no_effect="Spark interrupts the tasks of a cancelled job",
)
METRICS_REPORTERS = optional(
    "metrics.reporters", STRING, "names of the reporters that run, with commas between; only prom does anything here"
)
PROMETHEUS_FACTORY = optional(
    "metrics.reporter.prom.factory.class",
    STRING,
    "org.apache.flink.metrics.prometheus.PrometheusReporterFactory serves metrics on a port of their own, too",
)
PROMETHEUS_PORT = optional(
    "metrics.reporter.prom.port", _PORTS, "that port, or some of which the first free one is taken; 9249 with the class"
)
PROMETHEUS_HOST = optional(
    "metrics.reporter.prom.host", STRING, "where that port listens; where the REST server does when left out"
)
LATENCY_INTERVAL = option(
    "metrics.latency.interval",
    DURATION,
    Duration(0),
    "time between two latency markers; 0 for none",
    no_effect="there are no latency markers; an epoch's time is a metric of its own",
)

# ---------------------------------------------------------------------------------------------------------------- ours

_SET_BY_FLINK = ("$internal.pipeline.job-id",)
JOB_ID = optional("penstock.job-id", _JOB_ID, "id of the job, 32 hexadecimal digits", aliases=_SET_BY_FLINK)
_NEW_WITHOUT_ID = "whether latest may begin a job without a record in the directory; by default without penstock.job-id"
ALLOW_FIRST_START = optional("penstock.allow-first-start", BOOL, _NEW_WITHOUT_ID)
TAKEOVER = option(
    "penstock.takeover", BOOL, True, "a start takes the job over from a driver that runs; false refuses the start"
)
STATE_MEMORY = option("penstock.state.memory", MEMORY, 256 << 20, "memory of the keyed state of an operator subtask")
STATE_PRIVATE = option(
    "penstock.state.private-files", BOOL, True, "files of state and checkpoints are their user's alone, else by umask"
)
STATE_SIGNING_KEY = optional(
    "penstock.state.signing-key",
    STRING,
    "signs checkpoints and savepoints, and nothing else is restored; of several, with spaces between, the first signs",
)
REST_ENABLED = option("penstock.rest.enabled", BOOL, True, "the driver has a REST server")
REST_TOKEN = optional(
    "penstock.rest.token",
    STRING,
    "bearer token of clients of the REST server, 16 characters or more; one is made by default; none asks for none",
)
REST_READ_ONLY_TOKEN = optional(
    "penstock.rest.read-only-token", STRING, "bearer token of clients that only read, 16 characters or more"
)
REST_ALLOWED_DIRECTORIES = optional(
    "penstock.rest.allowed-directories",
    LIST,
    "directories below which clients of the REST server may have savepoints made and deleted",
)
REST_BEHIND_PROXY = option(
    "penstock.rest.behind-proxy", BOOL, False, "a proxy with TLS is in front of the REST server, which then serves HTTP"
)
REST_TLS_PRIVATE_KEY = optional(
    "penstock.rest.private-key", LOCAL_PATH, "PEM file of the private key, where security.ssl.rest.keystore has none"
)
REST_REGISTRY_DIRECTORY = optional(
    "penstock.rest.registry-dir",
    LOCAL_PATH,
    "where this user's running jobs are listed; below the user's state by default",
)
RESTART_FINISHED_SOURCES = option(
    "penstock.restart-finished-sources", LIST, (), "uids of finished sources that read new input after a restore"
)
COMMITTABLES = option("penstock.committables", LIST, (), "ID=ACTION for committables that cannot be committed")
PROGRESS_ENABLED = option(
    "penstock.progress.enabled", BOOL, False, "a line shows records, epochs and checkpoints; in notebooks by default"
)
LOG_FORMAT = optional(
    "penstock.log.format",
    choice("text", "json"),
    "Penstock writes its log to standard error, as lines of text or of JSON; by default as the program's logging says",
)
SENSITIVE_WORDS = option("penstock.sensitive-words", LIST, (), "more words of keys whose values are never shown")
LOG_LEVEL = option(
    "penstock.log.level", choice("DEBUG", "INFO", "WARNING", "ERROR"), "INFO", "least level of the log with a format"
)
_ARCHIVED = "the first run makes an archive of Java's classes in the user's cache, by which later ones start sooner"
CLASS_DATA_ARCHIVE_ENABLED = option("penstock.class-data-archive.enabled", BOOL, True, _ARCHIVED)
_FIRED = "a drain fires the processing-time timers that are left"
DRAIN_FIRES_PROCESSING_TIME_TIMERS = option("penstock.drain.fire-processing-time-timers", BOOL, False, _FIRED)

OPTIONS: dict[str, ConfigOption[Any]] = {
    one.key: one for one in (*options_in(vars()), *RESTART_OPTIONS, *BATCH_OPTIONS, *TASK_OPTIONS, *UNREAD)
}
"""All options by their key: those of this file in its order, then those of the modules beside it."""
KNOWN_KEYS: dict[str, ConfigOption[Any]] = OPTIONS | {
    alias: known for known in OPTIONS.values() for alias in known.aliases
}
"""All options by each of their names."""
