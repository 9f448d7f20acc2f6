"""What a worker gives to the subtasks of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock._engine.operators.clocks import TaskClock
    from penstock._engine.storage.checkpoint_storage import FileStorage
    from penstock._engine.storage.local_state import LocalStateDirectory


@dataclass(frozen=True, slots=True)
class TaskEnvironment:
    """The clocks, the checkpoint storage, and the directory in which the run keeps state on this host."""

    clock: TaskClock
    storage: FileStorage
    local_state: LocalStateDirectory
