"""The user's operators that the driver itself calls: sources, sinks with committers, and collectors."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from penstock._api.connectors.committer import HasCommittables
from penstock._engine.graph.job_graph import OperatorKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._api.connectors.source import Source
    from penstock._engine.graph.job_graph import JobGraph, OperatorNode


class DriverOperators:
    """The operators of a job that the driver calls, by uid.

    Args:
        graph: The job.
    """

    def __init__(self, graph: JobGraph) -> None:
        #: Name and source.
        self.sources: dict[str, tuple[str, Source[Any, Any, Any]]] = {}
        #: Name and sink, of sinks that publish by checkpoint.
        self.committing_sinks: dict[str, tuple[str, HasCommittables[Any]]] = {}
        #: Name, and whether the collected records are lines to print.
        self.collectors: dict[str, tuple[str, bool]] = {}
        for node, members in _members(graph):
            if node.kind is OperatorKind.SOURCE:
                self.sources[node.uid] = node.name, members["source"]
            elif node.kind is OperatorKind.COLLECT:
                self.collectors[node.uid] = node.name, members["as_text"]
            elif isinstance(members["sink"], HasCommittables):
                self.committing_sinks[node.uid] = node.name, members["sink"]

    @property
    def collects(self) -> bool:
        """Whether records go to the user's program, and not only to standard output."""
        return not all(prints for _, prints in self.collectors.values())


def _members(graph: JobGraph) -> Iterator[tuple[OperatorNode, dict[str, Any]]]:
    kinds = {OperatorKind.SOURCE, OperatorKind.COLLECT, OperatorKind.SINK_WRITER, OperatorKind.CACHE}
    for vertex in graph.vertices:
        for node in vertex.operators:
            if node.kind in kinds:
                yield node, pickle.loads(node.payload)
