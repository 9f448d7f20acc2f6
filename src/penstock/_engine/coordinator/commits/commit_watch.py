"""Says in the log that a committer has been running for long, because the job's checkpoints wait for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.instructions import LogMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.coordinator.context import CoordinatorContext

#: Running commits are looked at after this time.
LOOK_MS: Final = 30_000
#: A commit is named when it has taken that long, and then each time after twice the pause, at most this one.
_LONGEST_PAUSE_MS: Final = 20 * LOOK_MS

_TEXT: Final = (
    "The committer of sink {name!r} (uid {uid!r}) has been committing checkpoint {checkpoint_id} for {seconds} s and "
    "has not returned; the next checkpoint may still complete, and all after it wait for this commit"
)


@dataclass(slots=True)
class _RunningCommit:
    checkpoint_id: int
    since_ms: int
    pause_ms: int
    due_ms: int


class CommitWatch:
    """Watches the running commits of one job.

    Args:
        context: The coordinator's context.
        name_of: Returns the name of a sink by its uid.
    """

    def __init__(self, context: CoordinatorContext, name_of: Callable[[str], str]) -> None:
        self._context = context
        self._name_of = name_of
        #: By sink uid.
        self._running: dict[str, _RunningCommit] = {}
        self._alarm_is_set = False

    def begun(self, uid: str, checkpoint_id: int) -> None:
        """Note that a committer was called."""
        now_ms = self._context.now.passed_ms
        self._running[uid] = _RunningCommit(checkpoint_id, now_ms, LOOK_MS, now_ms + LOOK_MS)
        if not self._alarm_is_set:  # one alarm for all commits: most are over long before it rings
            self._set_alarm()

    def ended(self, uid: str) -> None:
        """Note that it has returned."""
        self._running.pop(uid, None)

    def _set_alarm(self) -> None:
        self._alarm_is_set = True
        self._context.alarm(LOOK_MS, self._look)

    def _look(self) -> None:
        self._alarm_is_set = False
        now_ms = self._context.now.passed_ms
        for uid, commit in self._running.items():
            if now_ms >= commit.due_ms:
                commit.pause_ms = min(2 * commit.pause_ms, _LONGEST_PAUSE_MS)
                commit.due_ms = now_ms + commit.pause_ms
                seconds = (now_ms - commit.since_ms) // 1000
                text = _TEXT.format(
                    name=self._name_of(uid), uid=uid, checkpoint_id=commit.checkpoint_id, seconds=seconds
                )
                self._context.emit(LogMessage(text, unexpected=True))
        if self._running:
            self._set_alarm()
