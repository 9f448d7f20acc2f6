"""Describes the program of a batch job with recovery, so that a later driver knows whether it is the same one."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from penstock._engine.graph.fingerprint import fingerprint
from penstock._engine.protocol.batch_program import BatchProgram
from penstock.errors import UndigestibleFunctionError

if TYPE_CHECKING:
    from penstock._engine.graph.job_graph import JobEdge, JobGraph, OperatorNode


def program_of(graph: JobGraph) -> BatchProgram:
    """Return the description of a job's program.

    Args:
        graph: The job.

    Raises:
        UndigestibleFunctionError: A later run could not tell whether a function is the same.
    """
    digests = {uid: _digest(node, graph) for uid, node in graph.operators.items()}
    sources = {vertex.operators[0].uid for vertex in graph.vertices if vertex.is_source}
    return BatchProgram(
        vertices=tuple((tuple(node.uid for node in vertex.operators), vertex.parallelism) for vertex in graph.vertices),
        edges=tuple(_signature(graph, edge) for edge in graph.edges),
        sources={uid: digest for uid, digest in digests.items() if uid in sources},
        functions={uid: digest for uid, digest in digests.items() if uid not in sources},
        names={uid: node.name for uid, node in graph.operators.items()},
        max_parallelism=tuple(vertex.max_parallelism for vertex in graph.vertices),
    )


def _digest(node: OperatorNode, graph: JobGraph) -> str:
    try:
        return fingerprint(_members(node, graph))
    except Exception as error:
        raise UndigestibleFunctionError(node.name, node.uid, f"{type(error).__name__}: {error}") from error


def _members(node: OperatorNode, graph: JobGraph) -> dict[str, object]:
    """Return the functions of an operator, and those that route its records."""
    members: dict[str, object] = {"kind": node.factory.kind, **node.make_factory().members()}
    for edge in graph.edges:
        sender = graph.vertices[edge.source].operators[edge.source_operator]
        if sender.uid == node.uid and edge.payload:
            members[f"edge {edge.id}"] = pickle.loads(edge.payload)
    return members


def _signature(graph: JobGraph, edge: JobEdge) -> str:
    sender, receiver = graph.vertices[edge.source], graph.vertices[edge.target]
    tag = "" if edge.output_tag is None else f" output {edge.output_tag!r}"
    names = sender.operators[edge.source_operator].uid, receiver.operators[0].uid
    return f"{names[0]!r}{tag} {edge.partitioner} to input {edge.input_index} of {names[1]!r}"
