"""Replays the events of a batch job: which subtasks have finished, with what, and where the enumerators stand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from penstock._engine.coordinator.checkpoints.subtask_state import Subtask
from penstock._engine.plan.bounds import one_each, subtasks_of
from penstock._engine.protocol.job_events import (
    CoordinatorSnapshot,
    ExecutionJobVertexInitializedEvent,
    ExecutionVertexFinishedEvent,
    ExecutionVertexResetEvent,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.plan.bounds import Bounds
    from penstock._engine.protocol.job_events import JobEvent


@dataclass(slots=True)
class RecoveredJob:
    """The progress of a job by its events."""

    #: By vertex, as far as that was decided.
    initialized: dict[int, ExecutionJobVertexInitializedEvent] = field(
        default_factory=dict[int, ExecutionJobVertexInitializedEvent]
    )
    finished: dict[Subtask, ExecutionVertexFinishedEvent] = field(
        default_factory=dict[Subtask, ExecutionVertexFinishedEvent]
    )
    #: By vertex: the last snapshot of a source's enumerator.
    coordinators: dict[int, CoordinatorSnapshot] = field(default_factory=dict[int, CoordinatorSnapshot])

    def parallelism(self, vertex: int, graph: JobGraph) -> int:
        """Return the number of subtasks that run of a vertex."""
        return subtasks_of(self.bounds(vertex, graph))

    def bounds(self, vertex: int, graph: JobGraph) -> Bounds:
        """Return which receivers each subtask of a vertex reads for."""
        known = self.initialized.get(vertex)
        return one_each(graph.vertices[vertex].parallelism) if known is None else known.bounds

    def subtasks(self, vertex: int, graph: JobGraph) -> set[Subtask]:
        """Return the subtasks that run of a vertex."""
        return {(vertex, subtask) for subtask in range(self.parallelism(vertex, graph))}

    def has_finished(self, vertex: int, graph: JobGraph) -> bool:
        """Tell whether all subtasks of a vertex have finished."""
        return self.subtasks(vertex, graph) <= self.finished.keys()

    def reset(self, subtasks: Collection[Subtask], graph: JobGraph) -> set[Subtask]:
        """Let finished subtasks run again; return them, and those that have to run again with them.

        The splits of a source's subtask return to the enumerator, which continues from its snapshot: it assigns again
        what it has assigned since. So all subtasks that the snapshot does not cover run again with them; without a
        snapshot these are all of the source.
        """
        found = set(subtasks) & self.finished.keys()
        for vertex in {vertex for vertex, _ in found if graph.vertices[vertex].is_source}:
            found |= {place for place in self.finished if place[0] == vertex and not self._is_covered(place)}
        self.drop(found)
        return found

    def drop(self, subtasks: Iterable[Subtask]) -> None:
        """Let subtasks run again.

        The splits of a source's subtask are then on their way to it, and not read; if the snapshot does not cover it,
        those that the snapshot says: the enumerator has the others.
        """
        for place in subtasks:
            is_covered = self._is_covered(place)
            done, known = self.finished.pop(place, None), self.coordinators.get(place[0])
            if done is not None and known is not None and is_covered:
                assigned = {**known.assigned, place[1]: done.splits}
                self.coordinators[place[0]] = msgspec.structs.replace(known, assigned=assigned)

    def _is_covered(self, place: Subtask) -> bool:
        """Tell whether the snapshot has the splits of a finished subtask: taken before its last run, or after its end.

        Without a snapshot it has none.
        """
        done, known = self.finished.get(place), self.coordinators.get(place[0])
        return (
            done is not None
            and known is not None
            and (done.snapshot == known.number or done.subtask not in known.assigned)
        )

    def drop_uncovered(self, vertex: int) -> None:
        """Let all subtasks of a source run again that no snapshot of its enumerator covers."""
        self.drop([place for place in self.finished if place[0] == vertex and not self._is_covered(place)])


def replay(events: Iterable[JobEvent], graph: JobGraph) -> RecoveredJob:
    """Return the progress of a job.

    A finished subtask of a source counts if a snapshot of the enumerator has its splits, or if all subtasks of the
    source have finished: then the enumerator is not needed.

    Args:
        events: The events in their order.
        graph: The job.
    """
    job = RecoveredJob()
    for event in events:
        match event:
            case ExecutionJobVertexInitializedEvent():
                job.initialized[event.vertex] = event
            case ExecutionVertexFinishedEvent():
                job.finished[event.vertex, event.subtask] = event
                if event.coordinator is not None:
                    job.coordinators[event.vertex] = event.coordinator
            case ExecutionVertexResetEvent():
                job.drop(event.subtasks)
            case _:
                pass
    for vertex in (vertex.id for vertex in graph.vertices if vertex.is_source):
        if not job.has_finished(vertex, graph):
            job.drop_uncovered(vertex)
    return job
