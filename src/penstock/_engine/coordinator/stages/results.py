"""Which results the stages of a batch job have stored, and which of them are still read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import ResultPartition
from penstock._engine.protocol.paths import result_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.protocol.control import SubtaskAck


class StageResults:
    """The accepted acks of all stages so far, and the results that they name.

    Args:
        context: The coordinator's context.
        graph: The job.
    """

    def __init__(self, context: CoordinatorContext, graph: JobGraph) -> None:
        self._context = context
        self._graph = graph
        #: The acks that count, in the order of the stages.
        self.acks: list[SubtaskAck] = []
        self._stored: list[ResultPartition] = []

    def begin(self) -> None:
        """Begin anew: delete what earlier runs and the last attempt of this run have stored."""
        chain = self._context.chain
        self._context.emit(do.DeleteResults(chain.job_id, self._paths(self._stored), chain.runs[-1]))
        self.acks, self._stored = [], []

    def add(self, acks: Iterable[SubtaskAck]) -> None:
        """Add the acks of an accepted stage, and delete the results that all readers have read."""
        added = sorted(acks, key=lambda ack: (ack.vertex, ack.subtask))
        self.acks += added
        self._stored += [
            ResultPartition(ack.vertex, ack.subtask, ack.token, ack.result_files) for ack in added if ack.result_files
        ]
        read = self._are_read()
        needless = [part for part in self._stored if part.vertex in read]
        if needless:
            self._stored = [part for part in self._stored if part.vertex not in read]
            self._context.emit(do.DeleteResults(self._context.chain.job_id, self._paths(needless)))

    def read_by(self, vertices: Collection[int]) -> tuple[ResultPartition, ...]:
        """Return the results that a stage reads, in the order of their senders."""
        senders = {edge.source for edge in self._graph.edges if edge.target in vertices}
        parts = [part for part in self._stored if part.vertex in senders]
        return tuple(sorted(parts, key=lambda part: (part.vertex, part.subtask)))

    def bytes_read_by(self, vertex: int) -> int:
        """Return the bytes that the senders of a vertex have sent, to this vertex and to their other receivers."""
        senders = {edge.source for edge in self._graph.inputs(vertex)}
        return sum(ack.bytes_out for ack in self.acks if ack.vertex in senders)

    def _are_read(self) -> set[int]:
        """Return the vertices whose readers have all finished."""
        ran = {ack.vertex for ack in self.acks if ack.finished}
        readers: dict[int, set[int]] = {}
        for edge in self._graph.edges:
            readers.setdefault(edge.source, set()).add(edge.target)
        return {vertex for vertex, targets in readers.items() if targets <= ran}

    def _paths(self, parts: Iterable[ResultPartition]) -> tuple[str, ...]:
        chain = self._context.chain
        return tuple(
            result_path(chain.job_id, chain.runs[-1], (part.vertex, part.subtask), part.token, number)
            for part in parts
            for number in range(len(part.files))
        )
