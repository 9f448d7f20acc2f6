"""Watches the timeout of an epoch, which expires when no task has ended for that long.

Source: Flink's ``CheckpointFailureManager`` for tolerable failures. Unlike Flink's, the timeout counts time without
    progress: an expired epoch reads its input again, which must not happen to a slow but healthy one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import instructions as do
from penstock.errors import CheckpointExpiredError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.coordinator.events import EpochObserved
    from penstock._engine.coordinator.settings import JobSettings

#: The number of looks at an epoch within the timeout.
_LOOKS: Final = 5


class EpochMonitor:
    """Polls the progress of the running epoch.

    Args:
        context: The coordinator's context.
        settings: Hold the timeout, and how many epochs in a row may expire.
        expire: Called when the epoch has expired.
    """

    def __init__(self, context: CoordinatorContext, settings: JobSettings, expire: Callable[[], None]) -> None:
        self._context = context
        self._timeout_ms = settings.timeout_ms
        self._tolerable = settings.tolerable_failures
        self._expire = expire
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

    def begin(self) -> None:
        """Start watching a new epoch."""
        self.expired = None
        self._tasks_done, self._progress_ms = 0, self._context.now.passed_ms
        if not self._alarm_is_set:  # one alarm for all epochs: most are over long before it rings
            self._set_alarm()

    def succeeded(self) -> None:
        """Note an accepted epoch."""
        self._in_a_row = 0

    def observed(self, event: EpochObserved) -> None:
        """Note how far the epoch has come."""
        passed_ms = self._context.now.passed_ms
        if self.expired is not None:
            return
        if event.tasks_done != self._tasks_done:
            self._tasks_done, self._progress_ms = event.tasks_done, passed_ms
        elif passed_ms - self._progress_ms >= self._timeout_ms:
            self._in_a_row += 1
            self.expired = CheckpointExpiredError(self._context.chain.next_id, self._timeout_ms, event.running)
            self._expire()

    def _set_alarm(self) -> None:
        self._alarm_is_set = True
        self._context.alarm(max(1, self._timeout_ms // _LOOKS), self._look)

    def _look(self) -> None:
        self._alarm_is_set = False
        if self._context.epoch_running:
            self._context.emit(do.ObserveEpoch())
            self._set_alarm()
