"""The configuration keys of batch jobs; `option_table` has them with all others."""

from __future__ import annotations

from typing import Final

from penstock.common.config_options import option, optional, options_in
from penstock.common.config_values import BOOL, DURATION, MEMORY, PATH, POSITIVE
from penstock.common.time import Duration

_AUTO_PARALLELISM: Final = "execution.batch.adaptive.auto-parallelism"

SORTED_INPUTS_MEMORY = option("execution.sorted-inputs.memory", MEMORY, 128 << 20, "memory of a sort by key")
SORT_PARTITION_MEMORY = option("execution.sort-partition.memory", MEMORY, 128 << 20, "memory of a sort_partition")
SORT_KEYED_PARTITION_MEMORY = option(
    "execution.sort-keyed-partition.memory", MEMORY, 128 << 20, "memory of a sort_partition on a keyed stream"
)
BATCH_COMBINE = option("penstock.batch.combine", BOOL, True, "batch jobs combine records before the shuffle")
AUTO_PARALLELISM = option(
    f"{_AUTO_PARALLELISM}.enabled",
    BOOL,
    True,
    "operators of batch jobs that do not say how many subtasks get as many as"
    " the bytes of their input need, up to the parallelism of the job",
)
MIN_AUTO_PARALLELISM = option(f"{_AUTO_PARALLELISM}.min-parallelism", POSITIVE, 1, "the fewest subtasks of such ones")
MAX_AUTO_PARALLELISM = option(f"{_AUTO_PARALLELISM}.max-parallelism", POSITIVE, 128, "the most subtasks of such ones")
AVERAGE_DATA_VOLUME = option(
    f"{_AUTO_PARALLELISM}.avg-data-volume-per-task", MEMORY, 16 << 20, "bytes of input that a subtask of such ones gets"
)

_JOB_RECOVERY: Final = "execution.batch.job-recovery"
JOB_RECOVERY = option(
    f"{_JOB_RECOVERY}.enabled", BOOL, False, "a batch job whose driver is lost restarts with what had finished"
)
SNAPSHOT_MIN_PAUSE = option(
    f"{_JOB_RECOVERY}.snapshot.min-pause",
    DURATION,
    Duration.of_minutes(3),
    "least time between two snapshots of an enumerator in such a job; 0: before each reading",
    aliases=(f"{_JOB_RECOVERY}.operator-coordinator-snapshot.min-pause",),
)
PREVIOUS_WORKER_TIMEOUT = option(
    f"{_JOB_RECOVERY}.previous-worker.recovery.timeout",
    DURATION,
    Duration.of_seconds(30),
    "how long a recovering driver waits for stored results that it needs and does not see",
)
_EVENT_BUFFER: Final = "job-event.store.write-buffer"
EVENT_BUFFER_SIZE = option(
    f"{_EVENT_BUFFER}.size",
    MEMORY,
    1 << 20,
    "so many bytes of job events are stored before their interval is over",
)
EVENT_FLUSH_INTERVAL = option(
    f"{_EVENT_BUFFER}.flush-interval", DURATION, Duration.of_seconds(1), "time after which job events are stored"
)
HA_STORAGE = optional(
    "high-availability.storageDir",
    PATH,
    "directory of the events and results of batch jobs with recovery; without it they are in the checkpoint directory",
)
ACCEPT_CHANGED_FUNCTIONS = option(
    "penstock.batch.accept-changed-functions",
    BOOL,
    False,
    "a batch job with recovery restarts although functions have changed since it began",
)

BATCH_OPTIONS: Final = options_in(vars())
