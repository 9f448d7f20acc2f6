"""What follows from a completed checkpoint: sinks commit, and the program gets its output.

The ledger keeps the outstanding commits; the scheduler decides which may start and how each outcome is handled. A
sink's checkpoints are committed in their order and one at a time. A commit may overlap the next epoch, but not the one
after: the chain entry of checkpoint N + 2 waits until N is committed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.alarms import CommitRetryDue, CommitsLookDue
from penstock._engine.coordinator.instructions import Commit, DeliverOutputs, Leftovers, LogMessage, SetAlarm
from penstock._engine.coordinator.phases import RUNNING, Phase
from penstock._engine.protocol.committables import committable_ids
from penstock._engine.protocol.metadata import Committable, OutstandingCommit
from penstock.errors import JobRunError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock._engine.coordinator import events as ev
    from penstock._engine.coordinator.checkpoints.chain import CheckpointRetention, RetainedCheckpoint
    from penstock._engine.coordinator.commits.committed import CommittedCommittables
    from penstock._engine.coordinator.instructions import Instruction, OperatorOutput
    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.protocol.control import SubtaskAck
    from penstock._engine.protocol.metadata import GivenUp


#: Entries about lost committables of a sink; beyond this number the oldest are merged, because every checkpoint has
#: them.
MAX_GIVEN_UP: Final = 16
#: A postponed committable is tried again after this time.
_PAUSE_MS: Final = 1_000
#: Running commits are looked at after this time.
LOOK_MS: Final = 30_000
#: A commit is named when it has taken that long, and then each time after twice the pause, at most this one.
_LONGEST_PAUSE_MS: Final = 20 * LOOK_MS
_HANGS: Final = (
    "The committer of sink {name!r} (uid {uid!r}) has been committing checkpoint {checkpoint_id} for {seconds} s and "
    "has not returned; the next checkpoint may still complete, and all after it wait for this commit"
)


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
        """Note what a committer gave up."""
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
    def accepts_checkpoint(self) -> bool:
        """Whether one more checkpoint may complete, because no sink has more than one outstanding commit."""
        return all(len(queue) <= 1 for queue in self._queues.values())

    def __bool__(self) -> bool:
        """Tell whether anything is outstanding."""
        return bool(self._queues)


@dataclass(slots=True)
class _RunningCommit:
    checkpoint_id: int
    since_ms: int
    pause_ms: int
    due_ms: int


class CommitWatch:
    """Says in the log that a committer has been running for long, because the job's checkpoints wait for it.

    Args:
        graph: The job, for the names of sinks.
    """

    def __init__(self, graph: JobGraph) -> None:
        self._graph = graph
        #: By sink uid.
        self._running: dict[str, _RunningCommit] = {}
        self._alarm_is_set = False

    def begun(self, commit: OutstandingCommit, passed_ms: int) -> list[Instruction]:
        """Note that a committer was called."""
        self._running[commit.uid] = _RunningCommit(commit.checkpoint_id, passed_ms, LOOK_MS, passed_ms + LOOK_MS)
        if self._alarm_is_set:
            return []
        return self._set_alarm()  # one for all commits: most are over long before it rings

    def ended(self, uid: str) -> None:
        """Note that it has returned."""
        self._running.pop(uid, None)

    def _set_alarm(self) -> list[Instruction]:
        self._alarm_is_set = True
        return [SetAlarm(LOOK_MS, CommitsLookDue())]

    def look(self, passed_ms: int) -> list[Instruction]:
        """Name the committers that have been running for long, each less and less often."""
        self._alarm_is_set = False
        told: list[Instruction] = []
        for uid, commit in self._running.items():
            if passed_ms >= commit.due_ms:
                commit.pause_ms = min(2 * commit.pause_ms, _LONGEST_PAUSE_MS)
                commit.due_ms = passed_ms + commit.pause_ms
                seconds = (passed_ms - commit.since_ms) // 1000
                name = self._graph.operators[uid].name
                text = _HANGS.format(name=name, uid=uid, checkpoint_id=commit.checkpoint_id, seconds=seconds)
                told.append(LogMessage(text, unexpected=True))
        return [*told, *self._set_alarm()] if self._running else told


class CommitScheduler:
    """Starts the commits of one job, in order within each sink.

    Args:
        graph: The job, for the names of sinks.
        ledger: The job's commits.
        committed: Keeps what is committed for operators behind committers.
        retries: How often a committable may be postponed.
    """

    def __init__(
        self, graph: JobGraph, ledger: CommitLedger, committed: CommittedCommittables, *, retries: int
    ) -> None:
        self._ledger = ledger
        self._committed = committed
        self._retries = retries
        self._watch = CommitWatch(graph)

    def start(self, phase: Phase, passed_ms: int) -> list[Instruction]:
        """Start the commits that may run now; a failed job leaves them for its next start.

        Args:
            phase: Of the job.
            passed_ms: This moment, by the monotonic clock.
        """
        if phase in {Phase.TEARDOWN, Phase.FAILING}:
            return []
        return [step for begun in self._ledger.start() for step in (begun, *self._watch.begun(begun.commit, passed_ms))]

    def on_committed(self, event: ev.Committed, phase: Phase, passed_ms: int) -> list[Instruction]:
        """Note a commit that is done or, in part, postponed; go on with the sink's next one.

        Raises:
            JobRunError: Committables were postponed too often.
        """
        uid, retry = event.uid, event.retry
        self._watch.ended(uid)
        if any(item.retries > self._retries for item in retry):
            self.on_failed(uid, phase)
            raise JobRunError(
                f"The committer of sink {uid!r} put {len(retry)} committables off more than {self._retries} times "
                "(sink.committer.retries)."
            )
        self._committed.add(uid, self._ledger.oldest(uid), event.committed)
        if retry:
            self._ledger.put_off(uid, retry)
            return [SetAlarm(_PAUSE_MS, CommitRetryDue(uid))]
        self._ledger.done(uid)
        return self.start(phase, passed_ms)

    def retry(self, uid: str, phase: Phase, passed_ms: int) -> list[Instruction]:
        """Try a postponed commit again, while the job runs."""
        if phase not in RUNNING:
            return []
        self._ledger.retry(uid)
        return self.start(phase, passed_ms)

    def on_failed(self, uid: str, phase: Phase) -> None:
        """Note a commit that failed: it is tried again by a restart."""
        self._watch.ended(uid)
        if phase is Phase.CANCELLING:  # the last checkpoint has it, for the next start from there
            self._ledger.give_up(uid)
        else:
            self._ledger.failed(uid)

    def look(self, passed_ms: int) -> list[Instruction]:
        """Say in the log which committers have been running for long."""
        return self._watch.look(passed_ms)


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


class OutputDelivery:
    """Delivers the output of each checkpoint to the program exactly once, with retries.

    No epoch produces the output again once its checkpoint has completed. So its files stay until the program has it,
    and a restart first delivers what is still owed.
    """

    def __init__(self) -> None:
        self._outputs: tuple[OperatorOutput, ...] = ()
        self._pinned: RetainedCheckpoint | None = None

    @property
    def is_due(self) -> bool:
        """Whether outputs are still to be delivered."""
        return bool(self._outputs)

    def begin(
        self, checkpoint_id: int, outputs: tuple[OperatorOutput, ...], retention: CheckpointRetention
    ) -> list[DeliverOutputs]:
        """Deliver the outputs of an epoch, whose files stay until the program has them."""
        if not outputs:
            return []
        files = frozenset(output.path for output in outputs if output.path is not None)
        self._outputs, self._pinned = outputs, retention.pin(checkpoint_id, files)
        return self.again()

    def again(self) -> list[DeliverOutputs]:
        """Deliver again the outputs that the program has not taken."""
        return [DeliverOutputs(self._outputs)] if self._outputs else []

    def done(self, retention: CheckpointRetention) -> Leftovers:
        """Note that the program has taken the outputs, and return their files."""
        pinned, self._outputs, self._pinned = self._pinned, (), None
        return retention.unpin(pinned) if pinned is not None else Leftovers()
