"""The part of a job's plan that the coordinator's decisions need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock._engine.operators.operator_factory import OperatorRole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.plan.levels import ExecutionPlan


@dataclass(frozen=True, slots=True)
class Topology:
    """A job graph with its levels."""

    graph: JobGraph
    #: By vertex.
    levels: Mapping[int, int]

    @property
    def sources(self) -> dict[str, int]:
        """The vertex of each source, by the source's uid."""
        return {vertex.operators[0].uid: vertex.id for vertex in self.graph.vertices if vertex.is_source}

    @property
    def collectors(self) -> list[str]:
        """The uids of the operators whose output goes to the program, in graph order."""
        nodes = (operator for vertex in self.graph.vertices for operator in vertex.operators)
        return [operator.uid for operator in nodes if operator.factory.role is OperatorRole.COLLECT]

    @property
    def sink_uids(self) -> dict[str, str]:
        """The uids of sinks with a pre-commit topology, by the uid of the topology's last operator."""
        nodes = self.graph.operators.values()
        return {node.uid: node.sink_uid or node.uid for node in nodes if node.factory.role is OperatorRole.COMMITTABLES}

    @property
    def ends(self) -> list[int]:
        """The vertices without a downstream vertex; those behind a committer do not count, and get no watermarks."""
        feeding = {edge.source for edge in self.graph.edges}
        behind = self.behind(vertex.id for vertex in self.graph.vertices if vertex.is_fed)
        return [vertex.id for vertex in self.graph.vertices if vertex.id not in feeding | behind]

    def behind(self, vertices: Iterable[int]) -> set[int]:
        """Return these vertices and all after them."""
        found = set(vertices)
        for edge in self.graph.edges:  # senders come first
            if edge.source in found:
                found.add(edge.target)
        return found


def topology_of(plan: ExecutionPlan) -> Topology:
    """Return the topology of a plan."""
    return Topology(plan.graph, dict(enumerate(plan.level_of)))
