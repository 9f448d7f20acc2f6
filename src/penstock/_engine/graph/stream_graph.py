"""The stream graph: operators as a program describes them, before chaining.

A node is one operator; names, uids and parallelism may still be changed through the stream that it belongs to. There
are no nodes for union, partitioning and side outputs: a stream is a tuple of `StreamEdge`s, each naming an output of a
node and how its records are distributed, so these only make other edges. `chaining` turns the graph into a job graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from penstock._engine.graph.job_graph import JobType, PartitionerKind
from penstock._engine.operators.operator_factory import OperatorFactory, OperatorRole


class Chaining(Enum):
    """The neighbours with which an operator may share a vertex (Flink's ChainingStrategy)."""

    ALWAYS = "always"
    #: Not with the operator before it.
    HEAD = "head"
    #: Neither with the one before nor with those after it.
    NEVER = "never"


#: The name of a sink to which the program has given none.
NAMELESS_SINK: Final = "Sink"


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The partitioning of an edge: its kind and the cloudpickled dict of its functions, if it has any."""

    kind: PartitionerKind
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class StreamEdge:
    """One output of a node on its way to another one."""

    source: StreamNode
    #: The side output, None for the main output.
    tag: str | None = None
    #: None: forward between equal parallelisms, else rebalance.
    partitioning: Partitioning | None = None
    #: Which input of the target it belongs to.
    input_index: int = 0


@dataclass(eq=False, slots=True)
class StreamNode:
    """One operator of a program."""

    #: Ascending in the order of creation, so inputs come first.
    id: int
    name: str
    factory: type[OperatorFactory]
    #: cloudpickled dict of the factory's members.
    payload: bytes
    inputs: tuple[StreamEdge, ...]
    #: Where the program made it: "file:line".
    created_at: str
    uid: str | None = None
    #: None for the parallelism of `sized_like`, or the job's.
    parallelism: int | None = None
    max_parallelism: int | None = None
    #: The node whose parallelism this one uses if it has none of its own.
    sized_like: StreamNode | None = None
    #: Parallelism is 1 and stays 1.
    non_parallel: bool = False
    chaining: Chaining = Chaining.ALWAYS
    #: The node that this one belongs to: always in its chain, named and identified by it.
    owner: StreamNode | None = None
    #: For an operator of a sink's topologies: the sink's writer, from which its uid and parallelism follow.
    sink_writer: StreamNode | None = None
    description: str | None = None
    #: Whether a source is bounded.
    bounded: bool = True
    #: Whether it may have state that a checkpoint holds.
    stateful: bool = False
    #: Whether a batch job may combine its input before the shuffle.
    combinable: bool = False
    #: Whether it belongs to a full window partition: a batch job only, and the parallelism is that of its input.
    full_window: bool = False
    #: The digest of its functions (`fingerprint`).
    fingerprint: str = ""
    #: What its state is of: the declared type of its keys, the class of a source's splits; "" if unknown.
    key_type: str = ""
    splits: str = ""

    def operator(self) -> StreamNode:
        """Return the operator of the program: this node, or the one that it is attached to."""
        return self if self.owner is None else self.owner

    @property
    def shown_name(self) -> str:
        """The name for people: of a sink without a name its uid, of a part the name of its operator."""
        if self.owner is not None:
            is_part = self.factory.role is OperatorRole.DECLARED_TYPE
            return self.owner.shown_name if is_part else f"{self.owner.shown_name} ({self.name})"
        return f"{self.name}: {self.uid}" if self.name == NAMELESS_SINK and self.uid is not None else self.name

    @property
    def is_named(self) -> bool:
        """Whether the program has given a uid, to this operator or to the sink that it is a part of."""
        return self.uid is not None or (self.sink_writer is not None and self.sink_writer.is_named)

    @property
    def is_divided(self) -> bool:
        """Whether a partitioning without keys decides which subtask gets a record."""
        whole = {PartitionerKind.FORWARD, PartitionerKind.HASH}
        return any(edge.partitioning is not None and edge.partitioning.kind not in whole for edge in self.inputs)

    @property
    def has_broadcast_input(self) -> bool:
        """Whether each of its subtasks gets all records of one input, beside its part of the other one."""
        kinds = (edge.partitioning.kind for edge in self.inputs if edge.partitioning is not None)
        return PartitionerKind.BROADCAST in kinds and any(edge.input_index for edge in self.inputs)

    def __str__(self) -> str:
        return f"{self.name!r} at {self.created_at}"


@dataclass(slots=True)
class StreamGraph:
    """All nodes that one submission runs, inputs first, with the settings that hold for all of them."""

    job_name: str
    nodes: list[StreamNode] = field(default_factory=list[StreamNode])
    parallelism: int = 1
    #: -1: derived from each vertex's parallelism.
    max_parallelism: int = -1
    chaining_enabled: bool = True
    chain_different_max_parallelism: bool = True
    auto_generate_uids: bool = True
    job_type: JobType = JobType.STREAMING

    def parallelism_of(self, node: StreamNode) -> int:
        """Return the number of subtasks of a node."""
        if node.non_parallel:
            return 1
        if node.parallelism is not None:
            return node.parallelism
        return self.parallelism if node.sized_like is None else self.parallelism_of(node.sized_like)

    def sets_parallelism(self, node: StreamNode) -> bool:
        """Return whether the program has said how many subtasks a node has.

        A partitioning says so where what each receiver gets is a partition, and a broadcast to an operator with another
        input: PyFlink gives that the program's parallelism in batch mode, and other receivers of a broadcast as many
        subtasks as their data needs.
        """
        is_divided = node.full_window and node.is_divided
        if node.non_parallel or node.parallelism is not None or is_divided or node.has_broadcast_input:
            return True
        return node.sized_like is not None and self.sets_parallelism(node.sized_like)

    def sources(self) -> list[StreamNode]:
        """Return the nodes that read from outside."""
        return [node for node in self.nodes if node.factory.role is OperatorRole.SOURCE]


def with_ancestors(nodes: list[StreamNode]) -> list[StreamNode]:
    """Return nodes and everything upstream of them, inputs first."""
    found: dict[int, StreamNode] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node.id not in found:
            found[node.id] = node
            waiting.extend(edge.source for edge in node.inputs)
            if node.factory.role is OperatorRole.COMMITTED and node.sink_writer is not None:
                waiting.append(node.sink_writer)
    return [found[node_id] for node_id in sorted(found)]
