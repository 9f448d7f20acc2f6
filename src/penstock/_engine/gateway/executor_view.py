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
    #: 0 where nothing listens.
    port: int
    #: Tasks that run at the same time, and those that run now.
    slots: int
    running_tasks: int
    #: Bytes of its memory, and those of them that are taken, as far as Spark or the system says.
    memory: int
    used_memory: int
