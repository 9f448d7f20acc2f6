"""The user's operators that the driver itself calls: sources, sinks with committers, and collectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.connectors.committer import HasCommittables
from penstock._engine.operators.factories.sources_and_sinks import (
    CacheFactory,
    CollectFactory,
    SinkWriterFactory,
    SourceFactory,
)

if TYPE_CHECKING:
    from penstock._api.connectors.source import Source
    from penstock._engine.graph.job_graph import JobGraph


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
        called = (SourceFactory, CollectFactory, SinkWriterFactory, CacheFactory)
        for node in graph.operators.values():
            match node.make_factory() if issubclass(node.factory, called) else None:
                case SourceFactory(source=source):
                    self.sources[node.uid] = node.name, source
                case CollectFactory(as_text=as_text):
                    self.collectors[node.uid] = node.name, as_text
                case SinkWriterFactory(sink=sink) | CacheFactory(sink=sink) if isinstance(sink, HasCommittables):
                    self.committing_sinks[node.uid] = node.name, sink
                case _:
                    pass

    @property
    def collects(self) -> bool:
        """Whether records go to the user's program, and not only to standard output."""
        return not all(prints for _, prints in self.collectors.values())
