"""The processes that run tasks, as others see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: The id that represents all of Spark, where a subtask may run in any executor.
SPARK: Final = "spark"


@dataclass(frozen=True, slots=True)
class ExecutorView:
    """An executor of Spark; where Spark is local, the driver's own process."""

    id: str
    host: str
    #: 0 without a port.
    port: int
    #: The maximum number of running tasks, and their current number.
    slots: int
    running_tasks: int
    #: The bytes of its memory, and the used bytes; None if Spark and the system do not tell.
    memory: int
    used_memory: int
