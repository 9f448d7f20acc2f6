"""The outstanding commits of a job: those of each sink run one after the other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.instructions import Commit, PublishGivenUp
from penstock._engine.coordinator.phases import RUNNING, Phase
from penstock.errors import JobRunError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.coordinator.epochs.job_state import JobState
    from penstock._engine.protocol.metadata import Committable

#: A committable that was put off is tried again after this time.
_PAUSE_MS: Final = 1_000


class CommitScheduler:
    """Starts the commits of one job, those of each sink in their order.

    Args:
        context: The coordinator's context.
        state: Holds the ledger.
        retries: How often a committable may be put off.
        fail: Called when the job has to break off.
        moved: Called when a commit is done or put off.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        state: JobState,
        retries: int,
        *,
        fail: Callable[[Exception], None],
        moved: Callable[[], None],
    ) -> None:
        self._context = context
        self._state = state
        self._retries = retries
        self._fail = fail
        self._moved = moved

    def start(self) -> None:
        """Start the commits that may run now; a failed job leaves them to its next start."""
        if self._context.phase not in {Phase.TEARDOWN, Phase.FAILING}:
            self._context.emit(*(Commit(*begun) for begun in self._state.ledger.start()))

    def answered(self, event: ev.Committed | ev.CommitFailed) -> None:
        """Go on after a commit."""
        ledger = self._state.ledger
        match event:
            case ev.CommitFailed(uid, error):
                self._failed(uid, error)
            case ev.Committed(uid, ()):
                self._lost(event)
                ledger.done(uid)
                self.start()
                self._moved()
            case ev.Committed(uid, retry) if max(item.retries for item in retry) > self._retries:
                self._failed(uid, self._too_often(uid, retry))
            case ev.Committed(uid, retry):
                self._lost(event)
                ledger.put_off(uid, retry)
                self._context.alarm(_PAUSE_MS, partial(self._retry, uid))
                self._moved()

    def _lost(self, event: ev.Committed) -> None:
        """Show the committables that a committer has given up; the next chain entry lists them."""
        if event.given_up:
            self._state.lost(event.given_up)
            self._context.emit(PublishGivenUp(self._state.given_up, self._state.progress))

    def _retry(self, uid: str) -> None:
        if self._context.phase in RUNNING:
            self._state.ledger.retry(uid)
            self.start()

    def _failed(self, uid: str, error: Exception) -> None:
        if self._context.phase is Phase.CANCELLING:  # it stands in the last checkpoint, for the next start from there
            self._state.ledger.give_up(uid)
        else:
            self._state.ledger.failed(uid)
        self._fail(error)

    def _too_often(self, uid: str, retry: tuple[Committable, ...]) -> JobRunError:
        return JobRunError(
            f"The committer of sink {uid!r} put {len(retry)} committables off more than {self._retries} times "
            "(sink.committer.retries)."
        )
