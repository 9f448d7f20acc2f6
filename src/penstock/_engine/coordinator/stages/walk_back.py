"""Decides which subtasks of a recovered batch job run: from the unfinished ones at its ends back to what they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.checkpoints.subtask_state import Subtask
from penstock._engine.operators.operator_factory import OperatorRole
from penstock._engine.plan.bounds import receivers_of, subtasks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._engine.coordinator.stages.replay import RecoveredJob
    from penstock._engine.plan.levels import ExecutionPlan

#: Operators whose output leaves the job.
_ENDS: Final = {OperatorRole.SINK_WRITER, OperatorRole.COLLECT, OperatorRole.CACHE}


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """What a recovered job does next."""

    #: The subtasks that run.
    runs: frozenset[Subtask]
    #: Those of them that had finished, and run again.
    again: frozenset[Subtask]
    #: Those of them whose results are needed and not there; the others run again because of them.
    lost: frozenset[Subtask]


def walk_back(plan: ExecutionPlan, job: RecoveredJob, is_stored: Callable[[Subtask], bool]) -> RecoveryPlan:
    """Decide which subtasks run; those that run again are removed from the finished ones of the job.

    A subtask that runs again may send other records than before, so finished subtasks that have read its result run
    again as well, and those that have read theirs.

    Args:
        plan: The job's graph.
        job: Its progress.
        is_stored: Tells whether the result of a finished subtask is there.
    """
    walk = _WalkBack(plan, job)
    again, lost = set[Subtask](), set[Subtask]()
    while True:
        runs, read = walk.needed()
        missing = {place for place in read if not is_stored(place)}
        if not missing:
            return RecoveryPlan(frozenset(runs), frozenset(again), frozenset(lost))
        lost |= missing
        while missing:
            reset = job.reset(missing, plan.graph)
            again |= reset
            missing = walk.readers_of(reset)


class _WalkBack:
    def __init__(self, plan: ExecutionPlan, job: RecoveredJob) -> None:
        self._plan, self._job = plan, job
        graph = plan.graph
        self._bounds = {vertex.id: job.bounds(vertex.id, graph) for vertex in graph.vertices}

    def needed(self) -> tuple[set[Subtask], set[Subtask]]:
        """Return the subtasks that have to run, and the finished ones whose results they read."""
        graph, job = self._plan.graph, self._job
        ends = (
            v
            for v in graph.vertices
            if not graph.outputs(v.id) or any(node.factory.role in _ENDS for node in v.operators)
        )
        left = [place for end in ends for place in job.subtasks(end.id, graph) if place not in job.finished]
        runs, read = set(left), set[Subtask]()
        while left:
            for sender in self._senders(left.pop()):
                if sender in job.finished:
                    read.add(sender)
                elif sender not in runs:
                    runs.add(sender)
                    left.append(sender)
        return runs, read

    def readers_of(self, subtasks: set[Subtask]) -> set[Subtask]:
        """Return the finished subtasks that have read a result of some subtasks."""
        edges = [edge for edge in self._plan.graph.edges if edge.source in {vertex for vertex, _ in subtasks}]
        targets = {edge.target for edge in edges}
        return {
            place
            for place in self._job.finished
            if place[0] in targets and not subtasks.isdisjoint(self._senders(place))
        }

    def _senders(self, place: Subtask) -> Iterator[Subtask]:
        """Yield the subtasks whose results a subtask reads."""
        vertex, subtask = place
        receivers = receivers_of(self._bounds[vertex], subtask)
        for edge in self._plan.inputs[vertex]:
            found = {sender for receiver in receivers for sender in self._plan.senders(edge, receiver)}
            yield from ((edge.source, sender) for sender in found if sender < subtasks_of(self._bounds[edge.source]))
