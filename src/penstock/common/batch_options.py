"""The options of batch jobs; `option_table` lists them with all others."""

from __future__ import annotations

from typing import Any, Final

from penstock.common.config_options import ConfigOption, option
from penstock.common.config_values import BOOL, MEMORY, POSITIVE

_AUTO_PARALLELISM: Final = "execution.batch.adaptive.auto-parallelism"

SORTED_INPUTS_MEMORY = option("execution.sorted-inputs.memory", MEMORY, 128 << 20, "memory of a sort by key")
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

BATCH_OPTIONS: Final[tuple[ConfigOption[Any], ...]] = (
    *(SORTED_INPUTS_MEMORY, BATCH_COMBINE, AUTO_PARALLELISM),
    *(MIN_AUTO_PARALLELISM, MAX_AUTO_PARALLELISM, AVERAGE_DATA_VOLUME),
)
