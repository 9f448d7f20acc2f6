"""Flink's keys that nothing here reads, each with the reason.

They are known so that a configuration made for Flink can stay as it is. Their values are checked like any other; where
one differs from the default, the log says once that it has no effect, and why.
"""

from __future__ import annotations

from penstock.common.config_options import option, optional
from penstock.common.config_values import BOOL, COUNT, DURATION, LIST, MEMORY, POSITIVE, STRING, choice
from penstock.common.time import Duration

# -------------------------------------------------------------------------------------- the job, checkpoints and state

ALLOW_UNALIGNED_SOURCE_SPLITS = option(
    "pipeline.watermark-alignment.allow-unaligned-source-splits",
    BOOL,
    False,
    "watermark alignment goes without pausing single splits where a reader cannot pause them",
    no_effect="there is no watermark alignment",
)
CHECKPOINTS_AFTER_TASKS_FINISH = option(
    "execution.checkpointing.checkpoints-after-tasks-finish",
    BOOL,
    True,
    "checkpoints go on when some subtasks have ended",
    aliases=("execution.checkpointing.checkpoints-after-tasks-finish.enabled",),
    no_effect="an epoch commits by its checkpoint, so checkpoints always go on",
)
CHECKPOINT_STORAGE = optional(
    "execution.checkpointing.storage",
    STRING,
    "kind of checkpoint storage",
    aliases=("state.checkpoint-storage",),
    no_effect="execution.checkpointing.dir alone says where checkpoints go",
)
INCREMENTAL_CHECKPOINTS = option(
    "execution.checkpointing.incremental",
    BOOL,
    True,
    "checkpoints hold what changed",
    aliases=("state.backend.incremental",),
    no_effect="checkpoints always hold what changed",
)
STATE_BACKEND = optional(
    "state.backend.type",
    STRING,
    "what holds keyed state",
    aliases=("state.backend",),
    no_effect="there is one state backend, LMDB on the local disk",
)

# ---------------------------------------------------------------------------------------------------------- batch mode

_NO_BATCH = "there is no batch mode; bounded sources are read in streaming mode"
SORT_PARTITION_MEMORY = option(
    "execution.sort-partition.memory",
    MEMORY,
    128 << 20,
    "memory of a sort of a partition before it spills",
    no_effect=_NO_BATCH,
)
SORT_KEYED_PARTITION_MEMORY = option(
    "execution.sort-keyed-partition.memory",
    MEMORY,
    128 << 20,
    "memory of a sort of a keyed partition before it spills",
    no_effect=_NO_BATCH,
)
SORTED_INPUTS_MEMORY = option(
    "execution.sorted-inputs.memory",
    MEMORY,
    128 << 20,
    "memory of the sort by key before it spills",
    no_effect=_NO_BATCH,
)
BATCH_SHUFFLE_MODE = option(
    "execution.batch-shuffle-mode",
    choice(
        "ALL_EXCHANGES_BLOCKING",
        "ALL_EXCHANGES_PIPELINED",
        "ALL_EXCHANGES_HYBRID_FULL",
        "ALL_EXCHANGES_HYBRID_SELECTIVE",
    ),
    "ALL_EXCHANGES_BLOCKING",
    "how batch vertices exchange records; only blocking exchanges can be recovered",
    no_effect=_NO_BATCH,
)
BATCH_JOB_RECOVERY = option(
    "execution.batch.job-recovery.enabled",
    BOOL,
    False,
    "a restarted driver goes on with what a batch job has finished",
    no_effect=_NO_BATCH,
)
BATCH_RECOVERY_TIMEOUT = option(
    "execution.batch.job-recovery.previous-worker.recovery.timeout",
    DURATION,
    Duration.of_seconds(30),
    "time that a restarted driver waits for results of before",
    no_effect=_NO_BATCH,
)
BATCH_SNAPSHOT_MIN_PAUSE = option(
    "execution.batch.job-recovery.snapshot.min-pause",
    DURATION,
    Duration.of_minutes(3),
    "least time between two snapshots of a batch job's coordinators",
    aliases=("execution.batch.job-recovery.operator-coordinator-snapshot.min-pause",),
    no_effect=_NO_BATCH,
)
JOB_EVENT_BUFFER_SIZE = option(
    "job-event.store.write-buffer.size",
    MEMORY,
    1 << 20,
    "bytes of job events that wait to be written",
    no_effect=_NO_BATCH,
)
JOB_EVENT_FLUSH_INTERVAL = option(
    "job-event.store.write-buffer.flush-interval",
    DURATION,
    Duration.of_seconds(1),
    "longest time that a job event waits to be written",
    no_effect=_NO_BATCH,
)
AUTO_PARALLELISM = option(
    "execution.batch.adaptive.auto-parallelism.enabled",
    BOOL,
    True,
    "batch vertices choose their parallelism",
    no_effect=_NO_BATCH,
)
AUTO_PARALLELISM_MIN = option(
    "execution.batch.adaptive.auto-parallelism.min-parallelism",
    POSITIVE,
    1,
    "least parallelism chosen",
    no_effect=_NO_BATCH,
)
AUTO_PARALLELISM_MAX = option(
    "execution.batch.adaptive.auto-parallelism.max-parallelism",
    POSITIVE,
    128,
    "greatest parallelism chosen",
    no_effect=_NO_BATCH,
)
AUTO_PARALLELISM_DATA_VOLUME = option(
    "execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task",
    MEMORY,
    16 << 20,
    "bytes that a subtask should get",
    no_effect=_NO_BATCH,
)
AUTO_PARALLELISM_SOURCE = optional(
    "execution.batch.adaptive.auto-parallelism.default-source-parallelism",
    POSITIVE,
    "parallelism of batch sources that do not say how many",
    no_effect=_NO_BATCH,
)
SPECULATIVE_EXECUTION = option(
    "execution.batch.speculative.enabled",
    BOOL,
    False,
    "slow batch tasks are started a second time",
    no_effect=_NO_BATCH,
)
SPECULATIVE_MAX_EXECUTIONS = option(
    "execution.batch.speculative.max-concurrent-executions",
    POSITIVE,
    2,
    "times that a task may run at once",
    no_effect=_NO_BATCH,
)

# ---------------------------------------------------------------------------------------------------- Python processes

PYTHON_FILES = option(
    "python.files",
    LIST,
    (),
    "files and folders that tasks can import from",
    no_effect="tasks on other machines get the modules that the program has loaded from below its script's folder",
)
PYTHON_REQUIREMENTS = optional(
    "python.requirements",
    STRING,
    "requirements file of the tasks' packages",
    no_effect="packages are installed where the tasks run, before the job",
)
PYTHON_EXECUTABLE = optional(
    "python.executable",
    STRING,
    "Python of the tasks; the driver's own by default",
    no_effect="a session that Penstock starts runs tasks with the driver's Python; another one needs your own session",
)
PYTHON_STATE_CACHE_SIZE = option(
    "python.state.cache-size",
    COUNT,
    1000,
    "values of state that a Python process keeps",
    no_effect="state is read in the Python process itself, so no cache stands between",
)
PYTHON_BUNDLE_SIZE = option(
    "python.fn-execution.bundle.size",
    POSITIVE,
    1000,
    "records that are handed to Python together",
    no_effect="records are handed on in blocks whose size the engine finds",
)
PYTHON_BUNDLE_TIME = option(
    "python.fn-execution.bundle.time",
    DURATION,
    Duration.of_seconds(1),
    "longest time that a bundle waits",
    no_effect="records are handed on in blocks whose size the engine finds",
)

# ---------------------------------------------------------------------------------------------------- Flink's clusters

_NO_CLUSTER = "there is no Flink cluster; Spark runs the tasks and the driver coordinates them"
HIGH_AVAILABILITY_TYPE = optional(
    "high-availability.type",
    STRING,
    "who elects the job manager",
    aliases=("high-availability",),
    no_effect="a driver takes a job over by its checkpoints alone",
)
HIGH_AVAILABILITY_CLUSTER_ID = optional(
    "high-availability.cluster-id",
    STRING,
    "name of the cluster",
    no_effect="a driver takes a job over by its checkpoints alone",
)
TASKMANAGER_REGISTRATION_TIMEOUT = option(
    "taskmanager.registration.timeout",
    DURATION,
    Duration.of_minutes(5),
    "time that a task manager tries to register",
    no_effect=_NO_CLUSTER,
)
SCHEDULER = optional("jobmanager.scheduler", STRING, "which scheduler deploys tasks", no_effect=_NO_CLUSTER)
