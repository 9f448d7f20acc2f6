"""Which committables are outstanding, which may be committed now, and what follows from each try.

A sink's checkpoints are committed in their order and one at a time. A commit may overlap the next epoch, but not two of
them: the record of checkpoint N + 2 waits until N is committed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.instructions import Commit, PublishGivenUp
from penstock._engine.coordinator.phases import RUNNING, Phase
from penstock._engine.protocol.metadata import Committable, OutstandingCommit
from penstock.errors import JobRunError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.coordinator.epochs.job_state import JobState
    from penstock._engine.protocol.control import SubtaskAck
    from penstock._engine.protocol.metadata import GivenUp, GivenUps

#: Entries about what a sink has lost: beyond that the oldest ones are put together, because every checkpoint has them.
MAX_GIVEN_UP: Final = 16
#: A committable that was put off is tried again after this time.
_PAUSE_MS: Final = 1_000


class CommitLedger:
    """The commits that are not known to be done, and what committers have given up.

    Args:
        outstanding: Those of the checkpoint that a job starts from; the driver before may have done them.
        given_up: What had been given up by that checkpoint.
    """

    def __init__(self, outstanding: Iterable[OutstandingCommit] = (), given_up: GivenUps = UNSET) -> None:
        #: By sink uid, oldest first.
        self._queues: dict[str, list[OutstandingCommit]] = {}
        #: Those that no committer has had: completed by this driver, and not begun since. All others may be done.
        self._untried: set[tuple[str, int]] = set()
        #: Sinks whose oldest commit is in the committer's hands, and those where it waits for its next try.
        self._running: set[str] = set()
        self._waiting: set[str] = set()
        #: Together with `outstanding` it is true at each moment: what is in neither is published.
        self.given_up = given_up
        self._append(outstanding)

    def add(self, commits: Iterable[OutstandingCommit]) -> None:
        """Append the commits of a checkpoint that this driver has completed; none of them was tried."""
        added = tuple(commits)
        self._untried.update((commit.uid, commit.checkpoint_id) for commit in added)
        self._append(added)

    def _append(self, commits: Iterable[OutstandingCommit]) -> None:
        for commit in commits:
            self._queues.setdefault(commit.uid, []).append(commit)

    def start(self) -> list[tuple[OutstandingCommit, bool]]:
        """Return the commits that may begin now, and count them as running; each with whether it may be done."""
        ready = [queue[0] for uid, queue in self._queues.items() if uid not in self._running | self._waiting]
        self._running.update(commit.uid for commit in ready)
        begun = [(commit, (commit.uid, commit.checkpoint_id) not in self._untried) for commit in ready]
        self._untried.difference_update((commit.uid, commit.checkpoint_id) for commit in ready)
        return begun

    def done(self, uid: str) -> None:
        """Note that the oldest commit of a sink is done."""
        self._running.remove(uid)
        queue = self._queues[uid]
        queue.pop(0)
        if not queue:
            del self._queues[uid]

    def put_off(self, uid: str, committables: tuple[Committable, ...]) -> None:
        """Note that a part of a sink's oldest commit is to be tried again, after `retry`."""
        self._running.remove(uid)
        self._waiting.add(uid)
        queue = self._queues[uid]
        queue[0] = replace(queue[0], committables=committables)

    def lost(self, given_up: Iterable[GivenUp]) -> None:
        """Note what the committer has given up of a sink's oldest commit, before `done` or `put_off`."""
        known = () if self.given_up is UNSET else self.given_up
        for new in given_up:
            known = _with(known, new)
        self.given_up = known or UNSET

    @property
    def lost_count(self) -> int:
        """The number of committables that were given up."""
        return 0 if self.given_up is UNSET else sum(entry.count for entry in self.given_up)

    def retry(self, uid: str) -> None:
        """Let `start` return a commit that was put off."""
        self._waiting.discard(uid)

    def retry_all(self) -> None:
        """Let `start` return all commits that were put off."""
        self._waiting.clear()

    def give_up(self, uid: str) -> None:
        """Note that a sink's oldest commit failed and is not to be tried again in this run."""
        self._running.remove(uid)
        self._waiting.add(uid)

    def failed(self, uid: str) -> None:
        """Note that a sink's oldest commit failed; it is still the next one."""
        self._running.remove(uid)

    @property
    def running(self) -> bool:
        """Whether a commit is in a committer's hands."""
        return bool(self._running)

    @property
    def outstanding(self) -> tuple[OutstandingCommit, ...]:
        """All commits that are not done, oldest checkpoint first."""
        commits = [commit for queue in self._queues.values() for commit in queue]
        return tuple(sorted(commits, key=lambda commit: commit.checkpoint_id))

    @property
    def has_room(self) -> bool:
        """Whether one more checkpoint may complete: no sink has more than one outstanding."""
        return all(len(queue) <= 1 for queue in self._queues.values())

    def __bool__(self) -> bool:
        """Tell whether anything is outstanding."""
        return bool(self._queues)


class CommitScheduler:
    """Starts the commits of one job, those of each sink in their order.

    Args:
        context: The coordinator's context.
        state: Holds the ledger.
        retries: How often a committable may be put off.
        fail: Called when the job has to break off.
    """

    def __init__(
        self, context: CoordinatorContext, state: JobState, retries: int, *, fail: Callable[[Exception], None]
    ) -> None:
        self._context = context
        self._state = state
        self._retries = retries
        self._fail = fail

    def start(self) -> None:
        """Start the commits that may run now; a failed job leaves them to its next start."""
        if self._context.phase not in {Phase.TEARDOWN, Phase.FAILING}:
            self._context.emit(*(Commit(*begun) for begun in self._state.ledger.start()))

    def answered(self, event: ev.Committed | ev.CommitFailed) -> bool:
        """Go on after a commit, and tell whether it was done or put off."""
        ledger = self._state.ledger
        match event:
            case ev.CommitFailed(uid, error):
                self._failed(uid, error)
                return False
            case ev.Committed(uid, ()):
                self._lost(event)
                ledger.done(uid)
                self.start()
            case ev.Committed(uid, retry) if max(item.retries for item in retry) > self._retries:
                self._failed(uid, self._too_often(uid, retry))
                return False
            case ev.Committed(uid, retry):
                self._lost(event)
                ledger.put_off(uid, retry)
                self._context.alarm(_PAUSE_MS, partial(self._retry, uid))
        return True

    def _lost(self, event: ev.Committed) -> None:
        """Show what a committer has given up; the next record has it, together with what is still to do."""
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


def commits_of(checkpoint_id: int, acks: Sequence[SubtaskAck]) -> tuple[OutstandingCommit, ...]:
    """Collect the committables of an epoch by sink, in subtask order and each subtask's in its own."""
    by_sink: dict[str, list[Committable]] = {}
    for ack in sorted(acks, key=lambda ack: (ack.vertex, ack.subtask)):
        for uid, operator in ack.operators.items():
            if operator.committables:
                items = (Committable(ack.subtask, payload) for payload in operator.committables)
                by_sink.setdefault(uid, []).extend(items)
    return tuple(OutstandingCommit(uid, checkpoint_id, tuple(items)) for uid, items in by_sink.items())


def _with(known: tuple[GivenUp, ...], new: GivenUp) -> tuple[GivenUp, ...]:
    """Add an entry: one for each checkpoint of a sink, as long as these are few."""
    others = [entry for entry in known if entry.uid != new.uid]
    own = [*(entry for entry in known if entry.uid == new.uid), new]
    close = next((at for at, (a, b) in enumerate(pairwise(own)) if a.last_checkpoint_id == b.last_checkpoint_id), None)
    if close is None and len(own) > MAX_GIVEN_UP:
        close = 0
    if close is not None:
        first, second = own[close : close + 2]
        last = second.last_checkpoint_id
        own[close : close + 2] = [replace(first, last_checkpoint_id=last, count=first.count + second.count)]
    return tuple(sorted([*others, *own], key=lambda entry: entry.last_checkpoint_id))
