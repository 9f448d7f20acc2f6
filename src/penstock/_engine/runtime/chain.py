"""The chain of a subtask: its operators, what follows each of them, and in which form they want their batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from penstock._engine.operators.columns import ColumnBatch
from penstock._engine.runtime.edge_writer import EdgeWriter
from penstock._engine.runtime.failures import create_in_task

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock._engine.graph.job_graph import JobVertex
    from penstock._engine.operators.base import Operator
    from penstock._engine.operators.batch import Batch
    from penstock._engine.plan.levels import ExecutionPlan


@dataclass(slots=True)
class ChainNode:
    """An operator in its chain, with what follows it."""

    operator: Operator
    #: By side output tag, None for the main output: positions in the chain, and edges.
    children: dict[str | None, list[int]] = field(default_factory=dict[str | None, list[int]])
    edges: dict[str | None, list[EdgeWriter]] = field(default_factory=dict[str | None, list[EdgeWriter]])
    #: Whether what comes out has to be searched for records of side outputs, which the program asks for.
    parts_tagged: bool = False


def chain_of(vertex: JobVertex, plan: ExecutionPlan, subtask: int) -> list[ChainNode]:
    """Return the chain of one subtask, with operators that are not open yet, and its edges."""
    nodes = [ChainNode(create_in_task(node)) for node in vertex.operators]
    for position, node in enumerate(vertex.operators):
        if node.parent is not None:
            nodes[node.parent].children.setdefault(node.input_tag, []).append(position)
    for edge in plan.graph.outputs(vertex.id):
        writer = EdgeWriter(plan, edge, subtask)
        nodes[edge.source_operator].edges.setdefault(edge.output_tag, []).append(writer)
    for node in nodes:
        has_sides = any(tag is not None for tag in chain(node.children, node.edges))
        node.parts_tagged = has_sides and not node.operator.parts_tagged
    return nodes


def wants_columns(nodes: Sequence[ChainNode], position: int) -> bool:
    """Return whether something that follows an operator works on columns, or sends them on as they are."""
    node = nodes[position]
    children, edges = chain.from_iterable(node.children.values()), chain.from_iterable(node.edges.values())
    works = any(nodes[child].operator.takes_columns for child in children)
    return works or any(edge.takes_columns for edge in edges)


def pieces(nodes: Sequence[ChainNode], batch: Batch, positions: Sequence[int]) -> Iterable[Batch]:
    """Return a batch as operators in the chain work on it best: in parts where one of them makes rows of it."""
    if not isinstance(batch, ColumnBatch) or all(nodes[at].operator.takes_columns for at in positions):
        return (batch,)
    return batch.pieces()
