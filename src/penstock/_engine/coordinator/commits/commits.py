"""Keeps the outstanding commits of sinks, and decides which may start and how each outcome is handled.

A sink's checkpoints are committed in their order and one at a time. A commit may overlap the next epoch, but not the
one after: the chain entry of checkpoint N + 2 waits until N is committed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.commits.commit_watch import CommitWatch
from penstock._engine.coordinator.instructions import Commit, PublishGivenUp
from penstock._engine.coordinator.phases import RUNNING, Phase
from penstock._engine.protocol.committables import committable_ids
from penstock._engine.protocol.metadata import Committable, OutstandingCommit
from penstock.errors import JobRunError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock._engine.coordinator.commits.committed import CommittedCommittables
    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.gateway.progress import JobProgress
    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.protocol.control import SubtaskAck
    from penstock._engine.protocol.metadata import GivenUp

#: Entries about lost committables of a sink; beyond this number the oldest are merged, because every checkpoint has
#: them.
MAX_GIVEN_UP: Final = 16
#: A postponed committable is tried again after this time.
_PAUSE_MS: Final = 1_000


class CommitLedger:
    """The commits that are not known to be done, and the committables that committers have given up."""

    def __init__(self) -> None:
        #: By sink uid, oldest first.
        self._queues: dict[str, list[OutstandingCommit]] = {}
        #: Commits that no committer has been called for yet. All others may be done already.
        self._untried: set[tuple[str, int]] = set()
        #: Sinks whose committer runs, and sinks whose oldest commit waits for its next try.
        self._running: set[str] = set()
        self._waiting: set[str] = set()
        #: The ids of committables that count as never tried, as the user has decided; until they are tried.
        self._anew = frozenset[str]()
        #: At each moment a committable is in here, in `outstanding`, or published.
        self.given_up: tuple[GivenUp, ...] = ()

    def restore(self, outstanding: Iterable[OutstandingCommit], given_up: tuple[GivenUp, ...] = ()) -> None:
        """Take up what is known of the commits of the checkpoint that the job starts from.

        Args:
            outstanding: Its commits; an earlier driver may have done them.
            given_up: The committables that had been given up.
        """
        self.given_up = given_up
        self._append(outstanding)

    def add(self, commits: Iterable[OutstandingCommit]) -> None:
        """Append the commits of a checkpoint that this driver completed; none was tried yet."""
        added = tuple(commits)
        self._untried.update((commit.uid, commit.checkpoint_id) for commit in added)
        self._append(added)

    def _append(self, commits: Iterable[OutstandingCommit]) -> None:
        for commit in commits:
            self._queues.setdefault(commit.uid, []).append(commit)

    def publish(self, committables: frozenset[str]) -> None:
        """Let committables count as never tried, once."""
        self._anew = committables

    def start(self) -> list[Commit]:
        """Return the commits that may start, and count them as running."""
        ready = [queue[0] for uid, queue in self._queues.items() if uid not in self._running | self._waiting]
        self._running.update(commit.uid for commit in ready)
        begun = [
            Commit(commit, (commit.uid, commit.checkpoint_id) not in self._untried, self._anew.intersection(ids))
            for commit in ready
            for ids in (committable_ids(commit) if self._anew else (),)
        ]
        self._anew = self._anew.difference(*(commit.anew for commit in begun))
        self._untried.difference_update((commit.uid, commit.checkpoint_id) for commit in ready)
        return begun

    def done(self, uid: str) -> None:
        """Note that the oldest commit of a sink is done."""
        self._running.remove(uid)
        queue = self._queues[uid]
        queue.pop(0)
        if not queue:
            del self._queues[uid]

    def oldest(self, uid: str) -> int:
        """Return the checkpoint of a sink's oldest commit."""
        return self._queues[uid][0].checkpoint_id

    def put_off(self, uid: str, committables: tuple[Committable, ...]) -> None:
        """Note that some committables of a sink's oldest commit are tried again after `retry`."""
        self._running.remove(uid)
        self._waiting.add(uid)
        queue = self._queues[uid]
        queue[0] = replace(queue[0], committables=committables)

    def lost(self, given_up: Iterable[GivenUp]) -> None:
        """Note what a committer gave up of a sink's oldest commit; call it before `done` or `put_off`."""
        for new in given_up:
            self.given_up = _with(self.given_up, new)

    @property
    def lost_count(self) -> int:
        """The number of committables that were given up."""
        return sum(entry.count for entry in self.given_up)

    def retry(self, uid: str) -> None:
        """Let `start` return a postponed commit."""
        self._waiting.discard(uid)

    def retry_all(self) -> None:
        """Let `start` return all postponed commits."""
        self._waiting.clear()

    def give_up(self, uid: str) -> None:
        """Note that a sink's oldest commit failed, and do not try it again in this run."""
        self._running.remove(uid)
        self._waiting.add(uid)

    def failed(self, uid: str) -> None:
        """Note that a sink's oldest commit failed; it stays the next one."""
        self._running.remove(uid)

    @property
    def running(self) -> bool:
        """Whether a committer runs."""
        return bool(self._running)

    @property
    def outstanding(self) -> tuple[OutstandingCommit, ...]:
        """All commits that are not done, oldest checkpoint first."""
        commits = [commit for queue in self._queues.values() for commit in queue]
        return tuple(sorted(commits, key=lambda commit: commit.checkpoint_id))

    @property
    def has_room(self) -> bool:
        """Whether one more checkpoint may complete, because no sink has more than one outstanding commit."""
        return all(len(queue) <= 1 for queue in self._queues.values())

    def __bool__(self) -> bool:
        """Tell whether anything is outstanding."""
        return bool(self._queues)


class CommitScheduler:
    """Starts the commits of one job, in order within each sink.

    Args:
        context: The coordinator's context.
        graph: The job, for the names of sinks.
        ledger: The job's commits.
        committed: Keeps what is committed for operators behind committers.
        retries: How often a committable may be postponed.
        lost: Notes what a committer gave up, and returns the job's figures with it.
        fail: Called when the job has to fail.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        graph: JobGraph,
        ledger: CommitLedger,
        committed: CommittedCommittables,
        *,
        retries: int,
        lost: Callable[[tuple[GivenUp, ...]], JobProgress],
        fail: Callable[[Exception], None],
    ) -> None:
        self._context = context
        self._ledger = ledger
        self._committed = committed
        self._retries = retries
        self._lost = lost
        self._fail = fail
        self._watch = CommitWatch(context, lambda uid: graph.operators[uid].name)

    def start(self) -> None:
        """Start the commits that may run now; a failed job leaves them for its next start."""
        if self._context.phase not in {Phase.TEARDOWN, Phase.FAILING}:
            for begun in self._ledger.start():
                self._context.emit(begun)
                self._watch.begun(begun.commit.uid, begun.commit.checkpoint_id)

    def answered(self, event: ev.Committed | ev.CommitFailed) -> bool:
        """Handle the outcome of a commit, and tell whether it was done or postponed."""
        ledger = self._ledger
        self._watch.ended(event.uid)
        match event:
            case ev.CommitFailed(uid, error):
                self._failed(uid, error)
                return False
            case ev.Committed(uid, ()):
                self._settled(event)
                ledger.done(uid)
                self.start()
            case ev.Committed(uid, retry) if max(item.retries for item in retry) > self._retries:
                self._failed(uid, self._too_often(uid, retry))
                return False
            case ev.Committed(uid, retry):
                self._settled(event)
                ledger.put_off(uid, retry)
                self._context.alarm(_PAUSE_MS, partial(self._retry, uid))
        return True

    def _settled(self, event: ev.Committed) -> None:
        """Note what is committed, and publish what a committer gave up; the next chain entry has both."""
        self._committed.add(event.uid, self._ledger.oldest(event.uid), event.committed)
        if event.given_up:
            progress = self._lost(event.given_up)
            self._context.emit(PublishGivenUp(self._ledger.given_up, progress))

    def _retry(self, uid: str) -> None:
        if self._context.phase in RUNNING:
            self._ledger.retry(uid)
            self.start()

    def _failed(self, uid: str, error: Exception) -> None:
        if self._context.phase is Phase.CANCELLING:  # the last checkpoint has it, for the next start from there
            self._ledger.give_up(uid)
        else:
            self._ledger.failed(uid)
        self._fail(error)

    def _too_often(self, uid: str, retry: tuple[Committable, ...]) -> JobRunError:
        return JobRunError(
            f"The committer of sink {uid!r} put {len(retry)} committables off more than {self._retries} times "
            "(sink.committer.retries)."
        )


def commits_of(
    checkpoint_id: int, acks: Sequence[SubtaskAck], sink_uids: Mapping[str, str]
) -> tuple[OutstandingCommit, ...]:
    """Collect the committables of an epoch by sink, in the order of subtasks and within each subtask.

    Args:
        checkpoint_id: The checkpoint.
        acks: The acks of the epoch.
        sink_uids: By the uid of the last operator of a pre-commit topology: the uid of the sink.
    """
    by_sink: dict[str, list[Committable]] = {}
    for ack in sorted(acks, key=lambda ack: (ack.vertex, ack.subtask)):
        for uid, operator in ack.operators.items():
            if operator.committables:
                items = (Committable(ack.subtask, payload) for payload in operator.committables)
                by_sink.setdefault(sink_uids.get(uid, uid), []).extend(items)
    return tuple(OutstandingCommit(uid, checkpoint_id, tuple(items)) for uid, items in by_sink.items())


def _with(known: tuple[GivenUp, ...], new: GivenUp) -> tuple[GivenUp, ...]:
    """Add an entry for a checkpoint of a sink; merge the oldest entries when there are too many."""
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
