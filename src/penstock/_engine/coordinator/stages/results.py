"""Which results the stages of a batch job have stored, and which of them are still read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock._engine.coordinator import instructions as do
from penstock._engine.graph.job_graph import PartitionerKind
from penstock._engine.plan.bounds import balanced_bounds, one_each, subtasks_of
from penstock._engine.protocol.control import ResultPartition, SubtaskAck
from penstock._engine.protocol.paths import result_path
from penstock._engine.protocol.rows import MAX_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock._engine.coordinator.checkpoints.subtask_state import Subtask
    from penstock._engine.coordinator.settings import AutoParallelism
    from penstock._engine.graph.job_graph import JobGraph, JobVertex
    from penstock._engine.plan.bounds import Bounds


@dataclass(frozen=True, slots=True)
class InputBytes:
    """The bytes that a vertex reads."""

    #: By sending vertex; what is broadcast counts once.
    by_sender: dict[int, int]
    #: By receiver, without what is broadcast.
    by_receiver: list[int]


class StageResults:
    """The accepted acks of all stages so far, and the results that they name.

    Args:
        graph: The job.
        keeps: Whether results stay until the job ends, so that other drivers find them.
    """

    def __init__(self, graph: JobGraph, *, keeps: bool = False) -> None:
        self._graph = graph
        self._keeps = keeps
        #: The acks that count, in the order of the stages.
        self.acks: list[SubtaskAck] = []
        self._stored: list[ResultPartition] = []

    def begin(self, job_id: str, run_id: str) -> list[do.Instruction]:
        """Start fresh: delete what earlier runs and the last attempt of this run have stored."""
        stored, self.acks, self._stored = self._stored, [], []
        return [] if self._keeps else [do.DeleteResults(job_id, _paths(stored, job_id), run_id)]

    def add(self, acks: Iterable[SubtaskAck], job_id: str, run_id: str) -> list[do.Instruction]:
        """Add the acks of an accepted stage, and delete the results that all readers have read.

        Args:
            acks: The acks.
            job_id: The job.
            run_id: The run that has written the results.
        """
        added = sorted(acks, key=lambda ack: (ack.vertex, ack.subtask))
        self.acks += added
        self._stored += [
            ResultPartition(ack.vertex, ack.subtask, ack.token, ack.result_files, run_id)
            for ack in added
            if ack.result_files
        ]
        if self._keeps:
            return []
        read = self._are_read()
        leftovers = [part for part in self._stored if part.vertex in read]
        self._stored = [part for part in self._stored if part.vertex not in read]
        return [do.DeleteResults(job_id, _paths(leftovers, job_id))] if leftovers else []

    def read_by(self, vertices: Collection[int]) -> tuple[ResultPartition, ...]:
        """Return the results that a stage reads, in the order of their senders."""
        senders = {edge.source for edge in self._graph.edges if edge.target in vertices}
        parts = [part for part in self._stored if part.vertex in senders]
        return tuple(sorted(parts, key=lambda part: (part.vertex, part.subtask)))

    def bytes_read_by(self, vertex: int) -> InputBytes:
        """Return the bytes that the senders of a vertex have sent to it."""
        inputs = self._graph.inputs(vertex)
        by_sender = dict.fromkeys(sorted(edge.source for edge in inputs), 0)
        by_receiver = [0] * self._graph.vertices[vertex].parallelism
        for edge in inputs:
            for ack in self.acks:
                if ack.vertex != edge.source:
                    continue
                sizes = ack.result_bytes.get(edge.id, {})
                if edge.partitioner is PartitionerKind.BROADCAST:
                    by_sender[ack.vertex] += max(sizes.values(), default=0)
                    continue
                for receiver, size in sizes.items():
                    by_sender[ack.vertex] += size
                    by_receiver[receiver] += size
        return InputBytes(by_sender, by_receiver)

    def _are_read(self) -> set[int]:
        """Return the vertices whose readers have all finished."""
        ran = {ack.vertex for ack in self.acks if ack.finished}
        readers: dict[int, set[int]] = {}
        for edge in self._graph.edges:
            readers.setdefault(edge.source, set()).add(edge.target)
        return {vertex for vertex, targets in readers.items() if targets <= ran}


class VertexBounds:
    """How many subtasks run of each vertex whose input is known, and what each of them reads.

    Args:
        graph: The job.
        auto_parallelism: Says how many subtasks some input is for.
    """

    def __init__(self, graph: JobGraph, auto_parallelism: AutoParallelism) -> None:
        self._graph = graph
        self._auto_parallelism = auto_parallelism
        self.of_vertex: dict[int, Bounds] = {}

    def decide(self, vertex: JobVertex, sizes: InputBytes) -> Bounds:
        """Decide about a vertex, by what its senders have sent to it."""
        graph, settings = self._graph, self._auto_parallelism
        if not settings.enabled or vertex.is_source or vertex.is_fed or vertex.parallelism_is_set:
            bounds = one_each(vertex.parallelism)
        elif graph.follows_its_sender(vertex.id):
            bounds = one_each(max(subtasks_of(self.of_vertex[edge.source]) for edge in graph.inputs(vertex.id)))
        else:
            runs = settings.decide(sum(sizes.by_sender.values()), vertex.parallelism)
            bounds = balanced_bounds(sizes.by_receiver, runs)
        self.of_vertex[vertex.id] = bounds
        return bounds

    def fewer(self, vertices: Iterable[int]) -> dict[int, Bounds]:
        """Return the bounds of those vertices that run fewer subtasks than the job graph says."""
        bounds = {vertex: self.of_vertex[vertex] for vertex in vertices}
        parallelism = {vertex.id: vertex.parallelism for vertex in self._graph.vertices}
        return {vertex: own for vertex, own in bounds.items() if subtasks_of(own) < parallelism[vertex]}


def _paths(parts: Iterable[ResultPartition], job_id: str) -> tuple[str, ...]:
    return tuple(
        result_path(job_id, part.run_id, (part.vertex, part.subtask), part.token, number)
        for part in parts
        for number in range(len(part.files))
    )


def idle_ack(place: Subtask, checkpoint_id: int) -> SubtaskAck:
    """Return the ack of a subtask that does not run, because fewer subtasks read the stage's input."""
    return SubtaskAck(
        vertex=place[0],
        subtask=place[1],
        checkpoint_id=checkpoint_id,
        token=0,
        rows_read={},
        rows_sent={},
        operators={},
        outputs={},
        finished=True,
        input_watermark=MAX_WATERMARK,
        watermark=MAX_WATERMARK,
        started_ms=0,
        ended_ms=0,
    )
