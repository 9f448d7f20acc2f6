"""Records the progress of a batch job as events, and takes it up again, in another driver or after a restart here.

What is recorded here is in memory as well, so a restart in the driver replays the same events without reading them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.snapshots import advance, unfinished
from penstock._engine.coordinator.checkpoints.subtask_state import on_the_way
from penstock._engine.coordinator.stages.replay import RecoveredJob, replay
from penstock._engine.coordinator.stages.results import idle_ack
from penstock._engine.coordinator.stages.tracker import PartitionTracker
from penstock._engine.coordinator.stages.walk_back import RecoveryPlan, walk_back
from penstock._engine.gateway.recovery_view import RecoveryView
from penstock._engine.plan.levels import build_plan
from penstock._engine.protocol.events import AddSplitsEvent, decode_event
from penstock._engine.protocol.job_events import (
    CoordinatorSnapshot,
    ExecutionJobVertexInitializedEvent,
    ExecutionVertexFinishedEvent,
    ExecutionVertexResetEvent,
    LogBaseEvent,
)
from penstock._engine.protocol.metadata import ReaderMessages, SourceCoordinatorState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from penstock._engine.coordinator import events as ev
    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.coordinator.epochs.acks import Subtask
    from penstock._engine.coordinator.epochs.sources import EnumeratorSnapshot, SourceCoordinator
    from penstock._engine.coordinator.settings import BatchRecoverySettings
    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.plan.bounds import Bounds
    from penstock._engine.protocol.control import SubtaskAck, SubtaskDispatch
    from penstock._engine.protocol.job_events import JobEvent
    from penstock._engine.protocol.metadata import JobSnapshot, ReturnedSplits

#: A driver that waits for stored results looks for them this often.
LOOK_EVERY_MS: Final = 500


class JobRecovery:
    """The recovery of one batch job.

    Args:
        context: The coordinator's context.
        graph: The job.
        settings: Its settings.
    """

    def __init__(self, context: CoordinatorContext, graph: JobGraph, settings: BatchRecoverySettings) -> None:
        self._context = context
        self._graph = graph
        self._settings = settings
        self._plan = build_plan(graph)
        self._sources = {vertex.operators[0].uid: vertex.id for vertex in graph.vertices if vertex.is_source}
        self._history: list[JobEvent] = []
        #: Whether the log is this driver's, and what it held then.
        self.is_claimed = False
        self._damage = ""
        self._tracker: PartitionTracker | None = None
        self._deadline_ms = 0
        #: Subtasks whose results readers have found missing or damaged since the last replay.
        self._lost: set[Subtask] = set()
        self.job = RecoveredJob()
        #: By subtask of a source: the acks of its runs that count, and the splits that it was sent.
        self._rounds: dict[Subtask, list[SubtaskAck]] = {}
        self._splits: dict[Subtask, list[bytes]] = {}
        #: By subtask of the running stage: its ack and dispatched splits.
        self._dispatched: dict[Subtask, tuple[bytes, ...]] = {}
        self._registered: dict[Subtask, SubtaskAck] = {}
        #: By source vertex: the last snapshot of the enumerator, and its number, which no later one has; below when the
        #: last ones were taken.
        self._snapshots: dict[int, CoordinatorSnapshot] = {}
        self._numbers: dict[int, int] = {}
        self._snapshot_ms: int | None = None
        #: The numbers of snapshots that an event has carried.
        self._carried: set[tuple[int, int]] = set()
        #: Source vertices that have been assigned something since their last snapshot.
        self._stale: set[int] = set(self._sources.values())
        #: What users see.
        self.view = RecoveryView()

    # ------------------------------------------------------------------------------------------------------ the start

    def claim(self) -> None:
        """Take the log over from earlier drivers, and read it."""
        chain = self._context.chain
        first = chain.next_id - 1 if chain.program is None else chain.program.first
        self._context.call(do.ClaimJobEvents(chain.job_id, chain.runs[-1], chain.next_id - 1, first))

    def claimed(self, event: ev.JobEventsClaimed) -> None:
        """Take up the events of earlier drivers."""
        self.is_claimed = True
        self._history = list(event.events)
        self._damage = event.damage
        if event.damage:
            text = f"The events of the job are damaged, and the rest of them is not used: {event.damage}"
            self._context.emit(do.LogMessage(text, unexpected=True))
        self._deadline_ms = self._context.now.passed_ms + self._settings.timeout_ms

    @property
    def has_events(self) -> bool:
        """Whether there is anything to recover."""
        return bool(self._history)

    def partitions_listed(self, event: ev.PartitionsListed) -> bool:
        """Take up what is stored; tell whether to go on, because all that is needed is there, or the wait is over."""
        is_late = self._context.now.passed_ms >= self._deadline_ms
        if event.error is not None:
            if is_late:
                raise event.error
            return False
        self._tracker = PartitionTracker(event.partitions)
        return is_late or not self._misses_results()

    def _misses_results(self) -> bool:
        """Tell whether results that are needed are not there yet."""
        try:
            trial = replay(self._history, self._graph)
            return bool(walk_back(self._plan, trial, self._is_stored(trial)).lost)
        except Exception:  # noqa: BLE001 - waiting mends nothing, and `replay` will say what is wrong
            return False

    def _is_stored(self, job: RecoveredJob) -> Callable[[Subtask], bool]:
        tracker, lost = self._tracker, self._lost

        def is_stored(place: Subtask) -> bool:
            done = job.finished[place]
            return place not in lost and (tracker is None or tracker.tracks(done))

        return is_stored

    def replay(self) -> RecoveryPlan:
        """Replay the events, and decide what runs; results that are needed and lost are recorded as reset."""
        self.job = replay(self._history, self._graph)
        recorded = len(self.job.finished)
        plan = walk_back(self._plan, self.job, self._is_stored(self.job))
        if self._damage:
            self._rebase()
        elif plan.again:
            names = ", ".join(f"subtask {subtask} of vertex {vertex}" for vertex, subtask in sorted(plan.lost)[:3])
            reason = f"lost results: {names}{' and others' if len(plan.lost) > 3 else ''}"
            self._record(ExecutionVertexResetEvent(tuple(sorted(plan.again)), reason))
            text = f"{len(plan.again)} finished subtasks run again, because of {reason}"
            self._context.emit(do.LogMessage(text, unexpected=True))
        self._lost.clear()
        self._tracker = None  # from now on, what is lost is found by its readers
        self._take_up()
        before = self.view
        self.view = RecoveryView(
            recorded=max(before.recorded, recorded),
            recovered=_by_vertex(place for place, done in self.job.finished.items() if done.run_id != self._run_id),
            ran_again=Counter(before.ran_again) + _by_vertex(plan.again),
            damage=self._damage or before.damage,
        )
        self._damage = ""
        if kept := sum(self.view.recovered.values()):
            text = f"Resuming a batch job: {kept} subtasks have finished in earlier runs, and {len(plan.runs)} run now"
            self._context.emit(do.LogMessage(text))
        return plan

    def _rebase(self) -> None:
        """Begin the log again with what is known, because what is behind the damage is never read."""
        events: list[JobEvent] = list(self.job.initialized.values())
        carried = dict(self.job.coordinators)
        for (vertex, _), done in sorted(self.job.finished.items()):
            events.append(msgspec.structs.replace(done, coordinator=carried.pop(vertex, None)))
        self._history = events
        self._context.emit(do.RecordJobEvents((LogBaseEvent(self._damage), *events), cut=True))

    def _take_up(self) -> None:
        """Begin with what has been recovered."""
        self._registered, self._dispatched, self._rounds, self._splits = {}, {}, {}, {}
        self._snapshots = dict(self.job.coordinators)
        self._numbers = {vertex: snapshot.number for vertex, snapshot in self._snapshots.items()}
        self._carried = set(self._numbers.items())
        self._stale = set(self._sources.values())
        self._snapshot_ms = None

    def idle(self, checkpoint: JobSnapshot) -> list[SubtaskAck]:
        """Return the acks of subtasks that did not run, of vertices that finished with fewer after a checkpoint."""
        graph, job, left = self._graph, self.job, set(unfinished(checkpoint))
        return [
            idle_ack((vertex.id, subtask), 0)
            for vertex in graph.vertices
            if vertex.id in job.initialized and job.has_finished(vertex.id, graph)
            for subtask in range(job.parallelism(vertex.id, graph), vertex.parallelism)
            if (vertex.id, subtask) in left
        ]

    def finished_after(self, checkpoint: JobSnapshot) -> list[ExecutionVertexFinishedEvent]:
        """Return the subtasks that have finished after a checkpoint; the checkpoint has the others."""
        left = set(unfinished(checkpoint))
        return [done for place, done in sorted(self.job.finished.items()) if place in left]

    def state(self, checkpoint: JobSnapshot) -> JobSnapshot:
        """Return the state of the job after what has been recovered after a checkpoint; that itself for nothing."""
        acks = [done.acks[-1] for done in self.finished_after(checkpoint)]
        acks += self.idle(checkpoint)
        left = {vertex for vertex, _ in unfinished(checkpoint)}
        enumerators = {
            uid: self._enumerator(vertex, self._snapshots[vertex])
            for uid, vertex in self._sources.items()
            if vertex in self._snapshots and vertex in left
        }
        return advance(checkpoint, acks, enumerators, ()) if acks or enumerators else checkpoint

    def _enumerator(self, vertex: int, snapshot: CoordinatorSnapshot) -> SourceCoordinatorState:
        """Return the state from which an enumerator continues: unfinished subtasks are reset, their splits return."""
        uid = self._graph.vertices[vertex].operators[0].uid
        returned: list[ReturnedSplits] = []
        for subtask, events in sorted(snapshot.assigned.items()):
            if (vertex, subtask) not in self.job.finished:
                returned += on_the_way(subtask, events)
        unseen: list[ReaderMessages] = []
        for place, done in sorted(self.job.finished.items()):
            if place[0] == vertex and done.snapshot == snapshot.number:
                unheard = done.acks[snapshot.seen.get(place[1], 0) :]
                events = tuple(event for ack in unheard for event in ack.operators[uid].events)
                unseen += [ReaderMessages(place[1], events)] if events else []
        return SourceCoordinatorState(snapshot.state, snapshot.version, {}, tuple(unseen), tuple(returned))

    # ------------------------------------------------------------------------------------------------ what is recorded

    def initialized(self, vertex: int, bounds: Bounds, input_bytes: dict[int, int]) -> None:
        """Record how many subtasks of a vertex run, and what they read."""
        event = ExecutionJobVertexInitializedEvent(vertex, bounds, input_bytes)
        self.job.initialized[vertex] = event
        self._record(event)

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

    def is_registered(self, place: Subtask) -> bool:
        """Tell whether a subtask of the running stage has finished already."""
        return place in self._registered

    def register(self, acks: Iterable[SubtaskAck], running: Collection[Subtask]) -> None:
        """Record the subtasks of the running stage that have finished; of two attempts the first one counts."""
        run_id = self._run_id
        for ack in acks:
            place = ack.vertex, ack.subtask
            if not ack.finished or place in self._registered or place not in running:
                continue
            self._registered[place] = ack
            number, carried = self._covering(ack.vertex)
            splits = (*self._splits.get(place, ()), *self._dispatched.get(place, ()))
            all_acks = (*self._rounds.get(place, ()), ack)
            self._record(ExecutionVertexFinishedEvent(*place, run_id, all_acks, splits, number, carried))

    def _covering(self, vertex: int) -> tuple[int, CoordinatorSnapshot | None]:
        """Return the snapshot that has all splits of a source's running subtasks; its content for the first event."""
        if vertex in self._stale or vertex not in self._snapshots:
            return 0, None
        snapshot = self._snapshots[vertex]
        if (vertex, snapshot.number) in self._carried:
            return snapshot.number, None
        self._carried.add((vertex, snapshot.number))
        return snapshot.number, snapshot

    def counting(self, acks: Iterable[SubtaskAck]) -> tuple[SubtaskAck, ...]:
        """Return the acks of a stage that count: for a subtask that had been registered, the registered one."""
        left = {(ack.vertex, ack.subtask): ack for ack in acks}
        return tuple({**left, **self._registered}.values())

    def accepted(self, acks: Iterable[SubtaskAck]) -> None:
        """Note a stage that counts; its vertex is flushed to the log once it has ended."""
        vertices = set[int]()
        for ack in acks:
            place = ack.vertex, ack.subtask
            vertices.add(ack.vertex)
            if self._graph.vertices[ack.vertex].is_source:
                self._splits.setdefault(place, []).extend(self._dispatched.get(place, ()))
                self._rounds.setdefault(place, []).append(ack)
        self._registered, self._dispatched = {}, {}
        self._context.emit(do.RecordJobEvents((), cut=True))

    def clear(self, reason: str) -> None:
        """Forget what was recorded: the job begins anew."""
        self._history, self._damage = [], ""
        self._context.emit(do.RecordJobEvents((LogBaseEvent(reason),), cut=True))

    def void(self) -> None:
        """Record that the subtasks of a void stage run again."""
        if self._registered:
            self._record(ExecutionVertexResetEvent(tuple(sorted(self._registered)), "the stage was void"))
            self._registered = {}

    def lost(self, subtasks: Iterable[Subtask]) -> None:
        """Note results that a reader has found missing or damaged; the next replay resets their subtasks."""
        self._lost.update(subtasks)

    @property
    def _run_id(self) -> str:
        return self._context.chain.runs[-1]

    def _record(self, event: JobEvent) -> None:
        self._history.append(event)
        self._context.emit(do.RecordJobEvents((event,)))

    # ----------------------------------------------------------------------------------------- snapshots of enumerators

    def assigned(self, uids: Iterable[str]) -> None:
        """Note that enumerators have assigned something since their last snapshots."""
        self._stale.update(self._sources[uid] for uid in uids)

    def wants_snapshot(self, vertex: int) -> bool:
        """Tell whether the enumerators are to take snapshots before a source runs."""
        now_ms, pause_ms = self._context.now.passed_ms, self._settings.snapshot_min_pause_ms
        is_due = self._snapshot_ms is None or now_ms - self._snapshot_ms >= pause_ms
        return vertex in self._stale and is_due

    def snapshotted(
        self, snapshots: Mapping[str, EnumeratorSnapshot], sources: Mapping[str, SourceCoordinator]
    ) -> None:
        """Take up the snapshots of the enumerators, with the splits of all unfinished subtasks."""
        self._snapshot_ms = self._context.now.passed_ms
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


def _by_vertex(subtasks: Iterable[Subtask]) -> Counter[int]:
    return Counter(vertex for vertex, _ in subtasks)
