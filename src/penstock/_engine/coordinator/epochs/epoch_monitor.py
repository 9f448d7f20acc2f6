"""Watches the timeout of an epoch, which expires when no task has ended for that long.

Source: Flink's ``CheckpointFailureManager`` for tolerable failures. Unlike Flink's, the timeout counts time without
    progress: an expired epoch reads its input again, which must not happen to a slow but healthy one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.alarms import EpochLookDue
from penstock.errors import CheckpointExpiredError

if TYPE_CHECKING:
    from penstock._engine.coordinator.events import EpochObserved
    from penstock._engine.coordinator.instructions import Instruction
    from penstock._engine.coordinator.settings import JobSettings

#: The number of looks at an epoch within the timeout.
_LOOKS: Final = 5


class EpochMonitor:
    """Polls the progress of the running epoch.

    Args:
        settings: Hold the timeout, and how many epochs in a row may expire.
    """

    def __init__(self, settings: JobSettings) -> None:
        self._timeout_ms = settings.timeout_ms
        self._tolerable = settings.tolerable_failures
        #: Why the running epoch was given up; None if it was not.
        self.expired: CheckpointExpiredError | None = None
        self._in_a_row = 0
        self._tasks_done = 0
        self._progress_ms = 0
        self._alarm_is_set = False

    @property
    def is_tolerable(self) -> bool:
        """Whether the job continues although its last epochs expired."""
        return self._in_a_row <= self._tolerable

    def begin(self, passed_ms: int) -> list[Instruction]:
        """Start watching a new epoch, which begins at this monotonic time."""
        self.expired = None
        self._tasks_done, self._progress_ms = 0, passed_ms
        return [] if self._alarm_is_set else self._set_alarm()  # one for all: most epochs are over before it rings

    def succeeded(self) -> None:
        """Note an accepted epoch."""
        self._in_a_row = 0

    def observed(self, event: EpochObserved, checkpoint_id: int, passed_ms: int) -> bool:
        """Note how far the epoch of a checkpoint has come; tell whether it has expired now."""
        if self.expired is not None:
            return False
        if event.tasks_done != self._tasks_done:
            self._tasks_done, self._progress_ms = event.tasks_done, passed_ms
        elif passed_ms - self._progress_ms >= self._timeout_ms:
            self._in_a_row += 1
            self.expired = CheckpointExpiredError(checkpoint_id, self._timeout_ms, event.running)
        return self.expired is not None

    def look(self, *, is_running: bool) -> list[Instruction]:
        """Ask for the progress of an epoch if one is running; without one, the next epoch sets the alarm again."""
        self._alarm_is_set = False
        return [do.ObserveEpoch(), *self._set_alarm()] if is_running else []

    def _set_alarm(self) -> list[Instruction]:
        self._alarm_is_set = True
        return [do.SetAlarm(max(1, self._timeout_ms // _LOOKS), EpochLookDue())]
