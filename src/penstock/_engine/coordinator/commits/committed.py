"""Keeps what sinks have committed until operators behind their committers have got it (post-commit topologies).

A commit is over after its checkpoint, so what it committed is input of a later epoch. The chain entry of that epoch no
longer has it: at each moment a committable is outstanding, or in here, or an epoch that counts has passed it on. A
checkpoint of a sink is passed on as a whole, once nothing of it is outstanding; what was given up is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock._engine.protocol.control import encode
from penstock._engine.protocol.metadata import OutstandingCommit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.protocol.metadata import Committable, JobSnapshot


@dataclass(slots=True)
class _Feed:
    """The operator that passes on what one sink has committed."""

    vertex: int
    parallelism: int
    sink_uid: str
    #: The vertices whose committables these are.
    sources: tuple[int, ...]
    #: Whole checkpoints, oldest first; the last one may have a part that is still outstanding.
    commits: list[OutstandingCommit] = field(default_factory=list[OutstandingCommit])
    #: How many of them the running epoch passes on, and whether its input ends with them.
    begun: int = 0
    ends: bool = False


class CommittedCommittables:
    """What is committed and not passed on yet, of all sinks of a job with operators behind their committers.

    Args:
        graph: The job.
    """

    def __init__(self, graph: JobGraph) -> None:
        #: By uid.
        self._feeds: dict[str, _Feed] = {}
        for vertex_id, sources in graph.feeds.items():
            vertex = graph.vertices[vertex_id]
            head = vertex.operators[0]
            assert head.sink_uid is not None
            self._feeds[head.uid] = _Feed(vertex_id, vertex.parallelism, head.sink_uid, sources)
        self._by_sink = {feed.sink_uid: uid for uid, feed in self._feeds.items()}

    def __bool__(self) -> bool:
        """Tell whether the job has operators behind a committer."""
        return bool(self._feeds)

    @property
    def vertices(self) -> frozenset[int]:
        """The vertices that the driver feeds."""
        return frozenset(feed.vertex for feed in self._feeds.values())

    def restore(self, commits: Iterable[OutstandingCommit]) -> None:
        """Take up what a checkpoint has."""
        for feed in self._feeds.values():
            feed.commits.clear()
        for commit in commits:
            if commit.uid in self._feeds:
                self._feeds[commit.uid].commits.append(commit)

    def add(self, sink_uid: str, checkpoint_id: int, committables: tuple[Committable, ...]) -> None:
        """Note committables of a sink that are committed; it is called in the order of checkpoints."""
        uid = self._by_sink.get(sink_uid)
        if uid is None or not committables:
            return
        commits = self._feeds[uid].commits
        if commits and commits[-1].checkpoint_id == checkpoint_id:  # others of it were committed before
            committables = (*commits.pop().committables, *committables)
        in_order = sorted(committables, key=lambda committable: committable.subtask)
        commits.append(OutstandingCommit(uid, checkpoint_id, tuple(in_order)))

    # ------------------------------------------------------------------------------------------------------ an epoch

    def begin(self, outstanding: Iterable[OutstandingCommit], snapshot: JobSnapshot) -> None:
        """Decide what the next epoch passes on."""
        for feed in self._feeds.values():
            feed.begun, feed.ends = 0, False
        for feed, ready, ends in self._state(outstanding, snapshot):
            feed.begun, feed.ends = ready, ends

    def has_work(self, outstanding: Iterable[OutstandingCommit], snapshot: JobSnapshot) -> bool:
        """Tell whether the next epoch passes something on, or says that nothing follows."""
        return any(ready or ends for _, ready, ends in self._state(outstanding, snapshot))

    def waiting(self, outstanding: Iterable[OutstandingCommit], snapshot: JobSnapshot) -> frozenset[int]:
        """Return the vertices to which more will be passed on than what is committed so far."""
        return frozenset(feed.vertex for feed, _, ends in self._state(outstanding, snapshot) if not ends)

    def _state(
        self, outstanding: Iterable[OutstandingCommit], snapshot: JobSnapshot
    ) -> Iterable[tuple[_Feed, int, bool]]:
        """Yield each operator that has not finished, how much it may pass on, and whether nothing follows that."""
        left = {(commit.uid, commit.checkpoint_id) for commit in outstanding}
        sinks = {uid for uid, _ in left}
        for feed in self._feeds.values():
            if all(subtask.finished for subtask in snapshot.vertices[feed.vertex].subtasks):
                continue
            whole = [(feed.sink_uid, commit.checkpoint_id) not in left for commit in feed.commits]
            senders = (subtask for vertex in feed.sources for subtask in snapshot.vertices[vertex].subtasks)
            ends = feed.sink_uid not in sinks and all(subtask.finished for subtask in senders)
            yield feed, sum(whole), ends

    def dispatch(self, uid: str, subtask: int) -> tuple[bytes, ...]:
        """Return what a subtask passes on in this epoch, as events for its operator: that of its like in the sink."""
        feed = self._feeds.get(uid)
        if feed is None:
            return ()
        own = [
            (commit.checkpoint_id, committable.subtask, committable.payload)
            for commit in feed.commits[: feed.begun]
            for committable in commit.committables
            if committable.subtask % feed.parallelism == subtask
        ]
        return (encode(own),) if own else ()

    @property
    def ending(self) -> frozenset[int]:
        """The vertices whose input ends with this epoch."""
        return frozenset(feed.vertex for feed in self._feeds.values() if feed.ends)

    @property
    def begun(self) -> dict[str, int]:
        """What the running epoch passes on: by uid, how many checkpoints."""
        return {uid: feed.begun for uid, feed in self._feeds.items() if feed.begun}

    def ended(self, snapshot: JobSnapshot) -> dict[str, int]:
        """Return what is passed on of it, by uid, by vertices that have finished in a state."""
        return {
            uid: number
            for uid, number in self.begun.items()
            if all(subtask.finished for subtask in snapshot.vertices[self._feeds[uid].vertex].subtasks)
        }

    def passed_on(self, begun: Mapping[str, int]) -> None:
        """Note that an epoch has passed it on, and counts."""
        for uid, number in begun.items():
            del self._feeds[uid].commits[:number]

    def left(self, begun: Mapping[str, int]) -> tuple[OutstandingCommit, ...]:
        """Return what is not passed on once an epoch counts.

        Args:
            begun: What that epoch passes on.
        """
        return tuple(commit for uid, feed in self._feeds.items() for commit in feed.commits[begun.get(uid, 0) :])
