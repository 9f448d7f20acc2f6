"""The job graph: vertices (chains of operators), the edges between them, and the program that tasks load.

Frozen data made by `chaining` from the stream graph. An operator is its factory and the pickled members of that; tasks
make the operator of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from penstock._engine.operators.operator_factory import OperatorFactory, OperatorRole
from penstock._engine.protocol.metadata import OperatorPlace

if TYPE_CHECKING:
    from collections.abc import Iterable


class JobType(StrEnum):
    """Whether a job runs as a stream or as a batch. Source: Flink's ``JobType``."""

    STREAMING = "STREAMING"
    BATCH = "BATCH"


class PartitionerKind(StrEnum):
    """How an edge chooses the receiving subtask of a record."""

    FORWARD = "forward"
    REBALANCE = "rebalance"
    RESCALE = "rescale"
    SHUFFLE = "shuffle"
    BROADCAST = "broadcast"
    HASH = "hash"  #: payload: key_selector
    CUSTOM = "custom"  #: payload: partitioner (callable (key, n) -> int), key_selector


@dataclass(frozen=True, slots=True)
class OperatorNode:
    """One operator of a chain.

    `parent` is the position of the operator in the chain that feeds it, None for the head. `input_tag` is the id of
    the side output that it reads from its parent, None for the main output.
    """

    uid: str
    name: str
    factory: type[OperatorFactory]
    #: cloudpickled dict of the factory's members.
    payload: bytes
    parent: int | None = None
    input_tag: str | None = None
    #: Where the user's program made it: "file:line".
    created_at: str = ""
    #: True when the uid was given by the user.
    explicit_uid: bool = False
    #: For an operator of a sink's topologies: the uid of the sink.
    sink_uid: str | None = None
    #: Whether it may have state that a checkpoint holds.
    stateful: bool = False
    #: For a reduce and for windows: whether their input may be combined before the shuffle of a batch job.
    combinable: bool = False

    @property
    def is_part(self) -> bool:
        """Whether it is a part of the operator that it follows, with its name, and not shown by itself."""
        return self.factory.role is OperatorRole.DECLARED_TYPE

    def make_factory(self) -> OperatorFactory:
        """Return the factory with what the program has given; unpickles it, which may raise anything."""
        return self.factory.loads(self.payload)

    def __str__(self) -> str:
        return f"{self.name!r} at {self.created_at}" if self.created_at else repr(self.name)


@dataclass(frozen=True, slots=True)
class JobEdge:
    """An edge from an operator's output (by side output tag) to the head of another vertex."""

    #: Position in `JobGraph.edges`.
    id: int
    source: int
    source_operator: int
    output_tag: str | None
    target: int
    #: Which input of the target's head it is, from 0 (a union has several edges for one input).
    input_index: int
    partitioner: PartitionerKind
    #: cloudpickled dict of the members that the partitioner names, b"" without any.
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class JobVertex:
    """A chain of operators that runs as `parallelism` subtasks. `operators[0]` is the head; parents come first."""

    id: int
    name: str
    operators: tuple[OperatorNode, ...]
    parallelism: int
    max_parallelism: int
    #: Whether the program has set it; else the checkpoint that the job starts from may change it.
    max_parallelism_is_set: bool = False
    #: Whether the program has set the parallelism; else a batch job may run fewer subtasks.
    parallelism_is_set: bool = False

    @property
    def shown(self) -> tuple[OperatorNode, ...]:
        """The operators that the program has made, without parts of them."""
        return tuple(node for node in self.operators if not node.is_part)

    def shown_at(self, position: int) -> int:
        """Return the position of the operator that the one at a position is, or is a part of."""
        node = self.operators[position]
        return self.shown_at(node.parent) if node.is_part and node.parent is not None else position

    @property
    def is_source(self) -> bool:
        """Whether the vertex reads from a source and has no incoming edge."""
        return self.operators[0].factory.role is OperatorRole.SOURCE

    @property
    def is_fed(self) -> bool:
        """Whether the driver feeds it with what a sink has committed; it has no incoming edge."""
        return self.operators[0].factory.role is OperatorRole.COMMITTED

    def name_of(self, subtask: int) -> str:
        """Return the name of a subtask for users, with the uids that they have given to its operators."""
        uids = ", ".join(node.uid for node in self.operators if node.explicit_uid)
        return f"{self.name} ({subtask}; uid {uids})" if uids else f"{self.name} ({subtask})"


@dataclass(frozen=True, slots=True)
class JobGraph:
    """A job as it is run: vertices in topological order, each edge between two of them."""

    name: str
    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]
    #: By operator uid, in the order of the program: the place of each operator.
    places: dict[str, OperatorPlace] = field(default_factory=dict[str, OperatorPlace])
    job_type: JobType = JobType.STREAMING

    @property
    def operators(self) -> dict[str, OperatorNode]:
        """All operators by their uids."""
        return {operator.uid: operator for vertex in self.vertices for operator in vertex.operators}

    def inputs(self, vertex: int) -> list[JobEdge]:
        """Return the edges into a vertex, in order of their ids."""
        return [edge for edge in self.edges if edge.target == vertex]

    def outputs(self, vertex: int) -> list[JobEdge]:
        """Return the edges out of a vertex, in order of their ids."""
        return [edge for edge in self.edges if edge.source == vertex]

    @property
    def feeds(self) -> dict[int, tuple[int, ...]]:
        """By vertex that the driver feeds: the vertices whose committables it gets once they are committed."""
        found: dict[int, tuple[int, ...]] = {}
        for vertex in self.vertices:
            if vertex.is_fed:
                sink = vertex.operators[0].sink_uid
                found[vertex.id] = tuple(
                    one.id for one in self.vertices if any(_commits(node, sink) for node in one.operators)
                )
        return found

    def follows_its_sender(self, vertex: int) -> bool:
        """Return whether each subtask of a vertex continues one of its senders, so that it runs as many as they do."""
        inputs = self.inputs(vertex)
        return bool(inputs) and all(edge.partitioner is PartitionerKind.FORWARD for edge in inputs)

    def levels(self) -> list[int]:
        """Return the level of each vertex: one below its deepest input."""
        levels: list[int] = []
        for vertex in self.vertices:  # in topological order
            levels.append(max((levels[edge.source] + 1 for edge in self.inputs(vertex.id)), default=0))
        return levels

    @property
    def sources(self) -> dict[str, int]:
        """The vertex of each source, by the source's uid."""
        return {vertex.operators[0].uid: vertex.id for vertex in self.vertices if vertex.is_source}

    @property
    def collectors(self) -> list[str]:
        """The uids of the operators whose output goes to the program, in graph order."""
        nodes = (operator for vertex in self.vertices for operator in vertex.operators)
        return [operator.uid for operator in nodes if operator.factory.role is OperatorRole.COLLECT]

    @property
    def sink_uids(self) -> dict[str, str]:
        """The uids of sinks with a pre-commit topology, by the uid of the topology's last operator."""
        nodes = self.operators.values()
        return {node.uid: node.sink_uid or node.uid for node in nodes if node.factory.role is OperatorRole.COMMITTABLES}

    @property
    def ends(self) -> list[int]:
        """The vertices without a downstream vertex; those behind a committer do not count, and get no watermarks."""
        feeding = {edge.source for edge in self.edges}
        behind = self.behind(vertex.id for vertex in self.vertices if vertex.is_fed)
        return [vertex.id for vertex in self.vertices if vertex.id not in feeding | behind]

    def behind(self, vertices: Iterable[int]) -> set[int]:
        """Return these vertices and all after them."""
        found = set(vertices)
        for edge in self.edges:  # senders come first
            if edge.source in found:
                found.add(edge.target)
        return found


def _commits(node: OperatorNode, sink_uid: str | None) -> bool:
    """Tell whether an operator's committables are those of a sink."""
    match node.factory.role:
        case OperatorRole.SINK_WRITER:
            return node.uid == sink_uid
        case OperatorRole.COMMITTABLES:
            return node.sink_uid == sink_uid
        case _:
            return False
