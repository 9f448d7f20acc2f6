"""Operator uids: the user's own, else a hash of the operator's place in the graph.

The hash of an operator is made of its kind, the uids of its inputs, and its rank among operators in which both are
equal. Names, parallelism, chaining and the functions do not count, nor does anything after the operator. The
ingredients of the hashes can never change, because checkpoints name state by them. (Flink's StreamGraphHasherV2 counts
positions over the whole graph and looks at chains, so there more changes lose state.)

A rank says little: an operator that is inserted before another takes its hash. So checkpoints also hold each operator's
*place*, and a start compares them (`coordinator.restore.places`).
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING

from penstock._engine.operators.operator_factory import OperatorRole
from penstock._engine.protocol.metadata import OperatorPlace, PlaceInput
from penstock.common.option_table import AUTO_GENERATE_UIDS
from penstock.errors import ConfigurationError, DuplicateUidError

if TYPE_CHECKING:
    from penstock._engine.graph.stream_graph import StreamEdge, StreamGraph, StreamNode


def assign_uids(graph: StreamGraph) -> dict[int, str]:
    """Return the uid of each node by the node's id.

    Raises:
        DuplicateUidError: The user gave one uid to two operators.
        ConfigurationError: Generated uids are off and an operator with state has none.
    """
    given = {node.uid for node in graph.nodes if node.uid is not None}
    uids: dict[int, str] = {}
    ranks: Counter[str] = Counter()
    owners: dict[str, StreamNode] = {}
    for node in graph.nodes:
        if node.uid is not None:
            uid = node.uid
        elif node.is_named:
            uid = _uid_in_sink(node, uids, ranks)
        elif node.stateful and not graph.auto_generate_uids:
            reason = f"operator {node} keeps state and has no uid; give it one with uid(...), or let uids be generated"
            raise ConfigurationError(AUTO_GENERATE_UIDS.key, "false", reason)
        else:
            uid = _generated_uid(node, uids, ranks, given)
        if uid in owners:
            raise DuplicateUidError(uid, str(owners[uid]), str(node))
        owners[uid] = node
        uids[node.id] = uid
    return uids


def places_of(graph: StreamGraph, uids: dict[int, str]) -> dict[str, OperatorPlace]:
    """Return the place of each operator of the program, by its uid.

    Args:
        graph: The program.
        uids: What `assign_uids` has found.
    """
    return {
        uids[node.id]: OperatorPlace(
            node.factory.kind,
            node.is_named,
            _inputs(node, uids),
            node.name,
            node.fingerprint,
            node.key_type,
            node.splits,
        )
        for node in graph.nodes
        if node.owner is None
    }


def _inputs(node: StreamNode, uids: dict[int, str]) -> tuple[PlaceInput, ...]:
    if node.factory.role is OperatorRole.COMMITTED and node.sink_writer is not None:
        return (PlaceInput(uids[node.sink_writer.id]),)
    return tuple(PlaceInput(uids[edge.source.operator().id], edge.input_index, _tag(edge)) for edge in node.inputs)


def _generated_uid(node: StreamNode, uids: dict[int, str], ranks: Counter[str], given: set[str]) -> str:
    parts = [node.factory.kind]
    if node.factory.role is OperatorRole.COMMITTED and node.sink_writer is not None:
        parts.append(uids[node.sink_writer.id])
    for edge in node.inputs:
        # A type declared for an output must not change the uids after it.
        source = edge.source if node.owner is not None else edge.source.operator()
        parts.append(f"{edge.input_index} {uids[source.id]} {_tag(edge) or ''}")
    place = "\n".join(parts)
    while True:
        rank = ranks[place]
        ranks[place] += 1
        uid = sha256(f"{place}\n{rank}".encode()).hexdigest()[:32]
        if uid not in given:  # as where a moved operator was given the uid that had been generated for it
            return uid


def _uid_in_sink(node: StreamNode, uids: dict[int, str], ranks: Counter[str]) -> str:
    """Return the uid of an operator of a sink's topology, by the sink's uid; that sink may be inside of another one."""
    if node.id in uids:
        return uids[node.id]
    writer = node.sink_writer
    assert writer is not None
    if writer.uid is None:  # operators before a writer come before it
        uids[writer.id] = _uid_in_sink(writer, uids, ranks)
    uid = f"{writer.uid or uids[writer.id]}: {node.name}"
    rank = ranks[uid]
    ranks[uid] += 1
    return f"{uid} {rank + 1}" if rank else uid


def _tag(edge: StreamEdge) -> str | None:
    """Return the side output at which an edge begins; a cast node counts as the operator before it."""
    return edge.tag if edge.source.owner is None else edge.source.inputs[0].tag
