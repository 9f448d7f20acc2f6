"""Where the enumerators of a batch job with recovery stand: their snapshots, and the splits that their readers have.

An event about a finished subtask of a source names the snapshot that has its splits, so that another driver knows which
of them the enumerator assigns again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.coordinator.checkpoints.subtask_state import on_the_way
from penstock._engine.protocol.events import AddSplitsEvent, decode_event
from penstock._engine.protocol.job_events import CoordinatorSnapshot
from penstock._engine.protocol.metadata import ReaderMessages, SourceCoordinatorState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from penstock._engine.coordinator.checkpoints.subtask_state import Subtask
    from penstock._engine.coordinator.epochs.sources import EnumeratorSnapshot, SourceCoordinator
    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.protocol.control import SubtaskAck, SubtaskDispatch
    from penstock._engine.protocol.job_events import ExecutionVertexFinishedEvent
    from penstock._engine.protocol.metadata import ReturnedSplits


class EnumeratorSnapshots:
    """The last snapshot of each enumerator of one job, and what has happened since.

    Args:
        graph: The job.
        pause_ms: The shortest time between two snapshots, in milliseconds.
    """

    def __init__(self, graph: JobGraph, pause_ms: int) -> None:
        self._graph = graph
        self._pause_ms = pause_ms
        self._sources = graph.sources
        self.take_up({})

    def take_up(self, snapshots: Mapping[int, CoordinatorSnapshot]) -> None:
        """Begin with the snapshots that have been recovered, by source vertex."""
        #: By subtask of a source: the acks of its runs that count, the splits that it was sent before, and those that
        #: the running stage sends it.
        self._rounds: dict[Subtask, list[SubtaskAck]] = {}
        self._splits: dict[Subtask, list[bytes]] = {}
        self._dispatched: dict[Subtask, tuple[bytes, ...]] = {}
        #: By source vertex: the last snapshot of the enumerator, and its number, which no later one has; below when the
        #: last ones were taken.
        self._snapshots = dict(snapshots)
        self._numbers = {vertex: snapshot.number for vertex, snapshot in self._snapshots.items()}
        self._snapshot_ms: int | None = None
        #: The numbers of snapshots that an event has carried.
        self._carried = set(self._numbers.items())
        #: Source vertices that have been assigned something since their last snapshot.
        self._stale = set(self._sources.values())

    def states(
        self, left: Collection[int], finished: Mapping[Subtask, ExecutionVertexFinishedEvent]
    ) -> dict[str, SourceCoordinatorState]:
        """Return the states from which enumerators continue, by the uids of their sources.

        Args:
            left: The vertices that have not finished.
            finished: What is known of the subtasks that have.
        """
        return {
            uid: self._state(vertex, self._snapshots[vertex], finished)
            for uid, vertex in self._sources.items()
            if vertex in self._snapshots and vertex in left
        }

    def _state(
        self, vertex: int, snapshot: CoordinatorSnapshot, finished: Mapping[Subtask, ExecutionVertexFinishedEvent]
    ) -> SourceCoordinatorState:
        """Return the state from which an enumerator continues: unfinished subtasks are reset, their splits return."""
        uid = self._graph.vertices[vertex].operators[0].uid
        returned: list[ReturnedSplits] = []
        for subtask, events in sorted(snapshot.assigned.items()):
            if (vertex, subtask) not in finished:
                returned += on_the_way(subtask, events)
        unseen: list[ReaderMessages] = []
        for place, done in sorted(finished.items()):
            if place[0] == vertex and done.snapshot == snapshot.number:
                unheard = done.acks[snapshot.seen.get(place[1], 0) :]
                events = tuple(event for ack in unheard for event in ack.operators[uid].events)
                unseen += [ReaderMessages(place[1], events)] if events else []
        return SourceCoordinatorState(snapshot.state, snapshot.version, {}, tuple(unseen), tuple(returned))

    def dispatched(self, stage: Mapping[Subtask, SubtaskDispatch]) -> None:
        """Note what a stage sends to its sources' readers."""
        self._dispatched = {
            place: tuple(
                event
                for restore in part.operators.values()
                for event in restore.events
                if isinstance(decode_event(event), AddSplitsEvent)
            )
            for place, part in stage.items()
            if self._graph.vertices[place[0]].is_source
        }

    def runs_of(self, place: Subtask) -> tuple[tuple[SubtaskAck, ...], tuple[bytes, ...]]:
        """Return the acks of a subtask's earlier runs, and all splits that it was sent."""
        splits = (*self._splits.get(place, ()), *self._dispatched.get(place, ()))
        return tuple(self._rounds.get(place, ())), splits

    def covering(self, vertex: int) -> tuple[int, CoordinatorSnapshot | None]:
        """Return the snapshot that has all splits of a source's running subtasks; its content for the first event."""
        if vertex in self._stale or vertex not in self._snapshots:
            return 0, None
        snapshot = self._snapshots[vertex]
        if (vertex, snapshot.number) in self._carried:
            return snapshot.number, None
        self._carried.add((vertex, snapshot.number))
        return snapshot.number, snapshot

    def accepted(self, acks: Iterable[SubtaskAck]) -> None:
        """Note a stage that counts."""
        for ack in acks:
            place = ack.vertex, ack.subtask
            if self._graph.vertices[ack.vertex].is_source:
                self._splits.setdefault(place, []).extend(self._dispatched.get(place, ()))
                self._rounds.setdefault(place, []).append(ack)
        self._dispatched = {}

    def assigned(self, uids: Iterable[str]) -> None:
        """Note that enumerators have assigned something since their last snapshots."""
        self._stale.update(self._sources[uid] for uid in uids)

    def are_wanted(self, vertex: int, passed_ms: int) -> bool:
        """Tell whether the enumerators are to take snapshots before a source runs, at this monotonic time."""
        is_due = self._snapshot_ms is None or passed_ms - self._snapshot_ms >= self._pause_ms
        return vertex in self._stale and is_due

    def take(
        self, snapshots: Mapping[str, EnumeratorSnapshot], sources: Mapping[str, SourceCoordinator], passed_ms: int
    ) -> None:
        """Take up the snapshots of the enumerators, with the splits of all unfinished subtasks."""
        self._snapshot_ms = passed_ms
        for uid, vertex in self._sources.items():
            if uid not in snapshots:
                self._snapshots.pop(vertex, None)
                continue
            number = self._numbers[vertex] = self._numbers.get(vertex, 0) + 1
            source = sources[uid]
            assigned = {
                subtask: (*self._splits.get((vertex, subtask), ()), *source.splits_on_the_way(subtask))
                for subtask in source.unfinished
            }
            seen = {subtask: len(self._rounds.get((vertex, subtask), ())) for subtask in assigned}
            found = snapshots[uid]
            self._snapshots[vertex] = CoordinatorSnapshot(number, found.state, found.version, assigned, seen=seen)
            self._stale.discard(vertex)
