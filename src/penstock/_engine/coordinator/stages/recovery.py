"""Records the progress of a batch job as events, and takes it up again, in another driver or after a restart here.

What is recorded here is in memory as well, so a restart in the driver replays the same events without reading them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.snapshots import advance, unfinished
from penstock._engine.coordinator.stages.enumerators import EnumeratorSnapshots
from penstock._engine.coordinator.stages.replay import RecoveredJob, replay
from penstock._engine.coordinator.stages.results import idle_ack
from penstock._engine.coordinator.stages.tracker import PartitionTracker
from penstock._engine.coordinator.stages.walk_back import walk_back
from penstock._engine.gateway.recovery_view import RecoveryView
from penstock._engine.protocol.job_events import (
    ExecutionJobVertexInitializedEvent,
    ExecutionVertexFinishedEvent,
    ExecutionVertexResetEvent,
    LogBaseEvent,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from penstock._engine.coordinator import events as ev
    from penstock._engine.coordinator.checkpoints.chain import ChainWriter
    from penstock._engine.coordinator.checkpoints.subtask_state import Subtask
    from penstock._engine.coordinator.settings import BatchRecoverySettings
    from penstock._engine.plan.bounds import Bounds
    from penstock._engine.plan.levels import ExecutionPlan
    from penstock._engine.protocol.control import SubtaskAck
    from penstock._engine.protocol.job_events import JobEvent
    from penstock._engine.protocol.metadata import JobSnapshot

#: A driver that waits for stored results looks for them this often.
LOOK_EVERY_MS: Final = 500


class JobRecovery:
    """The recovery of one batch job.

    Args:
        plan: The job with its levels.
        settings: Its settings.
    """

    def __init__(self, plan: ExecutionPlan, settings: BatchRecoverySettings) -> None:
        self._plan = plan
        self._graph = plan.graph
        self._timeout_ms = settings.timeout_ms
        self.enumerators = EnumeratorSnapshots(plan.graph, settings.snapshot_min_pause_ms)
        self._history: list[JobEvent] = []
        #: Whether the log is this driver's, which run that is, and what is wrong with the log.
        self.is_claimed = False
        self._run_id = ""
        self._damage = ""
        self._tracker: PartitionTracker | None = None
        self._deadline_ms = 0
        #: Subtasks whose results readers have found missing or damaged since the last replay.
        self._lost: set[Subtask] = set()
        self.job = RecoveredJob()
        #: By subtask of the running stage that has finished: its ack.
        self._registered: dict[Subtask, SubtaskAck] = {}
        #: What users see.
        self.view = RecoveryView()

    # ------------------------------------------------------------------------------------------------------ the start

    def claim(self, chain: ChainWriter) -> do.ClaimJobEvents:
        """Take the log over from earlier drivers, and read it."""
        self._run_id = chain.runs[-1]
        first = chain.next_id - 1 if chain.program is None else chain.program.first
        return do.ClaimJobEvents(chain.job_id, self._run_id, chain.next_id - 1, first)

    def claimed(self, event: ev.JobEventsClaimed, passed_ms: int) -> list[do.Instruction]:
        """Take up the events of earlier drivers, at this monotonic time."""
        self.is_claimed = True
        self._history = list(event.events)
        self._damage = event.damage
        self._deadline_ms = passed_ms + self._timeout_ms
        text = f"The events of the job are damaged, and the rest of them is not used: {event.damage}"
        return [do.LogMessage(text, unexpected=True)] if event.damage else []

    @property
    def has_events(self) -> bool:
        """Whether there is anything to recover."""
        return bool(self._history)

    def partitions_listed(self, event: ev.PartitionsListed, passed_ms: int) -> bool:
        """Take up what is stored; tell whether to go on, because all that is needed is there, or the wait is over."""
        is_late = passed_ms >= self._deadline_ms
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

    def replay(self) -> list[do.Instruction]:
        """Replay the events, and decide what runs; results that are needed and lost are recorded as reset."""
        self.job = replay(self._history, self._graph)
        recorded = len(self.job.finished)
        plan = walk_back(self._plan, self.job, self._is_stored(self.job))
        told: list[do.Instruction] = []
        if self._damage:
            told.append(self._rebased())
        elif plan.again:
            names = ", ".join(f"subtask {subtask} of vertex {vertex}" for vertex, subtask in sorted(plan.lost)[:3])
            reason = f"lost results: {names}{' and others' if len(plan.lost) > 3 else ''}"
            text = f"{len(plan.again)} finished subtasks run again, because of {reason}"
            told.append(self._record(ExecutionVertexResetEvent(tuple(sorted(plan.again)), reason)))
            told.append(do.LogMessage(text, unexpected=True))
        self._lost.clear()
        self._tracker = None  # from now on, what is lost is found by its readers
        self._registered = {}
        self.enumerators.take_up(self.job.coordinators)
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
            told.append(do.LogMessage(text))
        return told

    def _rebased(self) -> do.RecordJobEvents:
        """Begin the log again with what is known, because what is behind the damage is never read."""
        events: list[JobEvent] = list(self.job.initialized.values())
        carried = dict(self.job.coordinators)
        for (vertex, _), done in sorted(self.job.finished.items()):
            events.append(msgspec.structs.replace(done, coordinator=carried.pop(vertex, None)))
        self._history = events
        return do.RecordJobEvents((LogBaseEvent(self._damage), *events), cut=True)

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
        enumerators = self.enumerators.states(left, self.job.finished)
        return advance(checkpoint, acks, enumerators, ()) if acks or enumerators else checkpoint

    # ------------------------------------------------------------------------------------------------ what is recorded

    def initialized(self, vertex: int, bounds: Bounds, input_bytes: dict[int, int]) -> do.RecordJobEvents:
        """Record how many subtasks of a vertex run, and what they read."""
        event = ExecutionJobVertexInitializedEvent(vertex, bounds, input_bytes)
        self.job.initialized[vertex] = event
        return self._record(event)

    def is_registered(self, place: Subtask) -> bool:
        """Tell whether a subtask of the running stage has finished already."""
        return place in self._registered

    def register(self, acks: Iterable[SubtaskAck], running: Collection[Subtask]) -> list[do.Instruction]:
        """Record the subtasks of the running stage that have finished; of two attempts the first one counts."""
        recorded: list[do.Instruction] = []
        for ack in acks:
            place = ack.vertex, ack.subtask
            if not ack.finished or place in self._registered or place not in running:
                continue
            self._registered[place] = ack
            number, carried = self.enumerators.covering(ack.vertex)
            before, splits = self.enumerators.runs_of(place)
            done = ExecutionVertexFinishedEvent(*place, self._run_id, (*before, ack), splits, number, carried)
            recorded.append(self._record(done))
        return recorded

    def counting(self, acks: Iterable[SubtaskAck]) -> tuple[SubtaskAck, ...]:
        """Return the acks of a stage that count: for a subtask that had been registered, the registered one."""
        left = {(ack.vertex, ack.subtask): ack for ack in acks}
        return tuple({**left, **self._registered}.values())

    def accepted(self, acks: Iterable[SubtaskAck]) -> do.RecordJobEvents:
        """Note a stage that counts; its vertex is flushed to the log once it has ended."""
        self.enumerators.accepted(acks)
        self._registered = {}
        return do.RecordJobEvents((), cut=True)

    def clear(self, reason: str) -> do.RecordJobEvents:
        """Forget what was recorded: the job starts fresh."""
        self._history, self._damage = [], ""
        return do.RecordJobEvents((LogBaseEvent(reason),), cut=True)

    def void(self) -> list[do.Instruction]:
        """Record that the subtasks of a void stage run again."""
        registered, self._registered = self._registered, {}
        if not registered:
            return []
        return [self._record(ExecutionVertexResetEvent(tuple(sorted(registered)), "the stage was void"))]

    def lost(self, subtasks: Iterable[Subtask]) -> None:
        """Note results that a reader has found missing or damaged; the next replay resets their subtasks."""
        self._lost.update(subtasks)

    def _record(self, event: JobEvent) -> do.RecordJobEvents:
        self._history.append(event)
        return do.RecordJobEvents((event,))


def _by_vertex(subtasks: Iterable[Subtask]) -> Counter[int]:
    return Counter(vertex for vertex, _ in subtasks)
