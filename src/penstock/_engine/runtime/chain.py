"""The chain of a subtask: its operators, their successors, and the form of batches that they take."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from penstock._engine.operators.columns import ColumnBatch
from penstock._engine.operators.operator_factory import OperatorRole
from penstock._engine.runtime.edge_writer import EdgeWriter
from penstock._engine.runtime.failures import create_in_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock._engine.graph.job_graph import JobGraph, JobVertex, OperatorNode
    from penstock._engine.operators.base import Operator
    from penstock._engine.operators.batch import Batch
    from penstock._engine.plan.levels import ExecutionPlan

T = TypeVar("T")


@dataclass(slots=True)
class ChainNode:
    """An operator in its chain, with its successors."""

    operator: Operator
    #: The positions of the next operators, and the edges, by side output tag; None for the main output.
    children: dict[str | None, list[int]] = field(default_factory=dict[str | None, list[int]])
    edges: dict[str | None, list[EdgeWriter]] = field(default_factory=dict[str | None, list[EdgeWriter]])
    #: Whether its output is searched for records of side outputs, because the program uses a side output of it.
    parts_tagged: bool = False


def chain_of(vertex: JobVertex, plan: ExecutionPlan, subtask: int) -> list[ChainNode]:
    """Return the chain of one subtask, with its operators not yet open, and its edges."""
    nodes = [ChainNode(create_in_task(node, plan.graph.job_type)) for node in vertex.operators]
    for position, node in enumerate(vertex.operators):
        if node.parent is not None:
            nodes[node.parent].children.setdefault(node.input_tag, []).append(position)
    for edge in plan.graph.outputs(vertex.id):
        writer = EdgeWriter(plan, edge, subtask)
        writer.ends_late = any(nodes[at].operator.sends_at_the_end for at in _way_to(vertex, edge.source_operator))
        nodes[edge.source_operator].edges.setdefault(edge.output_tag, []).append(writer)
    for node in nodes:
        has_sides = any(tag is not None for tag in chain(node.children, node.edges))
        node.parts_tagged = has_sides and not node.operator.parts_tagged
    return nodes


def _way_to(vertex: JobVertex, position: int | None) -> Iterator[int]:
    """Iterate the positions of an operator and of those before it in the chain."""
    while position is not None:
        yield position
        position = vertex.operators[position].parent


def owner_of(graph: JobGraph, vertex: JobVertex, position: int) -> OperatorNode:
    """Return the user's operator: of a cast that whose output is cast, of a combining one that which it is for."""
    node = vertex.operators[position]
    if node.factory.role is OperatorRole.DECLARED_TYPE and node.parent is not None:
        return vertex.operators[node.parent]
    if node.factory.role is OperatorRole.COMBINING:
        [edge] = [edge for edge in graph.outputs(vertex.id) if edge.source_operator == position]
        return graph.vertices[edge.target].operators[0]
    return node


def wants_columns(nodes: Sequence[ChainNode], position: int) -> bool:
    """Return whether an operator or edge that follows an operator takes columns."""
    node = nodes[position]
    children, edges = chain.from_iterable(node.children.values()), chain.from_iterable(node.edges.values())
    works = any(nodes[child].operator.takes_columns for child in children)
    return works or any(edge.takes_columns for edge in edges)


def pieces(nodes: Sequence[ChainNode], batch: Batch, positions: Sequence[int]) -> Iterable[Batch]:
    """Return a batch in the sizes that operators take: in parts where one of them converts columns to rows."""
    if not isinstance(batch, ColumnBatch) or all(nodes[at].operator.takes_columns for at in positions):
        return (batch,)
    return batch.pieces()


def with_free_memory(operator: Operator, run: Callable[..., T], *arguments: Any) -> T:
    """Call a method of an operator that works on batches, timers or the end of input, with room in memory."""
    operator.free_memory()
    return run(*arguments)
