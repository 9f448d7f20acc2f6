"""From the stream graph to the job graph: which operators run together as one vertex.

The rules are Flink's (StreamingJobGraphGenerator): an operator joins the vertex of the one before it when it has one
input, the edge is forward, the parallelism is the same and both allow it. A vertex is a tree of operators.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock._engine.graph.job_graph import (
    JobEdge,
    JobGraph,
    JobVertex,
    OperatorNode,
    PartitionerKind,
)
from penstock._engine.graph.stream_graph import Chaining, Partitioning, StreamEdge, StreamGraph, StreamNode
from penstock._engine.graph.uids import assign_uids, places_of
from penstock._engine.operators.operator_factory import OperatorRole
from penstock._engine.protocol.key_groups import default_max_parallelism
from penstock.common.option_table import MAX_PARALLELISM
from penstock.errors import ConfigurationError, ForwardParallelismError

if TYPE_CHECKING:
    from penstock._engine.operators.operator_factory import OperatorFactory

_FORWARD = Partitioning(PartitionerKind.FORWARD)
#: What comes by one of these is the same partition however many subtasks run.
_KEEPING = frozenset({PartitionerKind.FORWARD, PartitionerKind.HASH})
_REBALANCE = Partitioning(PartitionerKind.REBALANCE)


@dataclass(slots=True)
class _Chain:
    """A vertex in the making."""

    id: int
    nodes: list[StreamNode] = field(default_factory=list[StreamNode])


def build_job_graph(graph: StreamGraph) -> JobGraph:
    """Return the job graph of a stream graph.

    Raises:
        DuplicateUidError: The user gave one uid to two operators.
        ForwardParallelismError: A forward edge joins operators of different parallelism.
        ConfigurationError: Generated uids are off and an operator has none, or a parallelism exceeds its maximum.
    """
    uids = assign_uids(graph)
    chains: list[_Chain] = []
    chain_of: dict[int, _Chain] = {}
    for node in graph.nodes:
        chain = chain_of[node.inputs[0].source.id] if _joins_its_input(graph, node) else None
        if chain is not None and not _may_follow(chain.nodes[0].factory, node.factory):
            chain = None
        if chain is None:
            chain = _Chain(len(chains))
            chains.append(chain)
        chain.nodes.append(node)
        chain_of[node.id] = chain
    vertices = tuple(_vertex(graph, chain, uids) for chain in chains)
    return JobGraph(graph.job_name, vertices, _edges(graph, chains, chain_of), places_of(graph, uids), graph.job_type)


def partitioning(graph: StreamGraph, edge: StreamEdge, target: StreamNode) -> Partitioning:
    """Return how an edge distributes records, with the default filled in.

    Raises:
        ForwardParallelismError: It is forward between different parallelisms.
    """
    upstream, downstream = graph.parallelism_of(edge.source), graph.parallelism_of(target)
    if edge.partitioning is None:
        return _FORWARD if upstream == downstream else _REBALANCE
    if edge.partitioning.kind is PartitionerKind.FORWARD and upstream != downstream:
        source = edge.source.operator()
        raise ForwardParallelismError(source.name, upstream, target.operator().name, downstream)
    return edge.partitioning


def _joins_its_input(graph: StreamGraph, node: StreamNode) -> bool:
    if node.owner is not None:
        return True
    if len(node.inputs) != 1:
        return False
    edge = node.inputs[0]
    upstream = edge.source.operator()
    return (
        partitioning(graph, edge, node).kind is PartitionerKind.FORWARD
        and graph.parallelism_of(upstream) == graph.parallelism_of(node)
        and graph.chaining_enabled
        and node.chaining is Chaining.ALWAYS
        and upstream.chaining is not Chaining.NEVER
        and (
            graph.chain_different_max_parallelism or _max_parallelism(graph, upstream) == _max_parallelism(graph, node)
        )
    )


def _may_follow(head: type[OperatorFactory], operator: type[OperatorFactory]) -> bool:
    """Return whether an operator may be in the vertex of a head."""
    return not operator.reads_its_input and not (operator.takes_partitions and head.role is OperatorRole.SOURCE)


def _vertex(graph: StreamGraph, chain: _Chain, uids: dict[int, str]) -> JobVertex:
    positions = {node.id: position for position, node in enumerate(chain.nodes)}
    head = chain.nodes[0]
    operators = tuple(
        OperatorNode(
            uid=uids[node.id],
            name=node.shown_name,
            factory=node.factory,
            payload=node.payload,
            parent=None if node is head else positions[node.inputs[0].source.id],
            input_tag=None if node is head else node.inputs[0].tag,
            created_at=node.created_at,
            explicit_uid=node.is_named,
            sink_uid=None if node.sink_writer is None else uids[node.sink_writer.id],
            stateful=node.stateful,
            combinable=node.combinable,
        )
        for node in chain.nodes
    )
    name = _chain_name(head, chain.nodes)
    is_set, sets = _chosen_max_parallelism(graph, head) != -1, graph.sets_parallelism(head)
    if head.factory.takes_partitions:  # what one receiver gets of a partitioning is one partition
        sets = sets or any(partitioning(graph, edge, head).kind not in _KEEPING for edge in head.inputs)
    return JobVertex(chain.id, name, operators, graph.parallelism_of(head), _max_parallelism(graph, head), is_set, sets)


def _chosen_max_parallelism(graph: StreamGraph, node: StreamNode) -> int:
    return graph.max_parallelism if node.max_parallelism is None else node.max_parallelism


def _max_parallelism(graph: StreamGraph, node: StreamNode) -> int:
    parallelism = graph.parallelism_of(node)
    chosen = _chosen_max_parallelism(graph, node)
    if chosen == -1:
        return default_max_parallelism(parallelism)
    if parallelism > chosen:
        reason = f"operator {node} has parallelism {parallelism}; raise the one or lower the other"
        raise ConfigurationError(MAX_PARALLELISM.key, str(chosen), reason)
    return chosen


def _chain_name(node: StreamNode, chain: list[StreamNode]) -> str:
    """Return the names of a chain as Flink writes them: ``a -> (b -> c, d)``."""
    children = [other for other in chain if other.owner is None and other.inputs and other is not chain[0]]
    below = [child for child in children if child.inputs[0].source.operator() is node]
    names = [_chain_name(child, chain) for child in below]
    if not names:
        return node.shown_name
    return f"{node.shown_name} -> {names[0]}" if len(names) == 1 else f"{node.shown_name} -> ({', '.join(names)})"


def _edges(graph: StreamGraph, chains: list[_Chain], chain_of: dict[int, _Chain]) -> tuple[JobEdge, ...]:
    edges: list[JobEdge] = []
    for chain in chains:
        head = chain.nodes[0]
        for edge in head.inputs:
            source = chain_of[edge.source.id]
            distribution = partitioning(graph, edge, head)
            edges.append(
                JobEdge(
                    id=len(edges),
                    source=source.id,
                    source_operator=source.nodes.index(edge.source),
                    output_tag=edge.tag,
                    target=chain.id,
                    input_index=edge.input_index,
                    partitioner=distribution.kind,
                    payload=distribution.payload,
                )
            )
    return tuple(edges)
