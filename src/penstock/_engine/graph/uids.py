"""Operator uids: the user's own, else a hash of the operator's place in the graph.

The hash of an operator is made of its kind, the uids of what it reads, and its rank among operators of which these are
equal. Names, parallelism, chaining and the functions do not count, nor does anything after the operator or beside it:
so a program that grows another branch, or changes its parallelism, finds its state again. (Flink's StreamGraphHasherV2
counts positions over the whole graph and looks at chains, so there such changes lose state.) What the hashes are made
of can never change: checkpoints name state by them.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING

from penstock.common.option_table import AUTO_GENERATE_UIDS
from penstock.errors import ConfigurationError, DuplicateUidError

if TYPE_CHECKING:
    from penstock._engine.graph.stream_graph import StreamGraph, StreamNode


def assign_uids(graph: StreamGraph) -> dict[int, str]:
    """Return the uid of each node by the node's id.

    Raises:
        DuplicateUidError: The user gave one uid to two operators.
        ConfigurationError: Generated uids are off and an operator has none.
    """
    uids: dict[int, str] = {}
    ranks: Counter[str] = Counter()
    owners: dict[str, StreamNode] = {}
    for node in graph.nodes:
        if node.uid is not None:
            uid = node.uid
        elif node.owner is None and not graph.auto_generate_uids:
            reason = f"operator {node} has no uid; give it one with uid(...), or let uids be generated"
            raise ConfigurationError(AUTO_GENERATE_UIDS.key, "false", reason)
        else:
            uid = _generated_uid(node, uids, ranks)
        if uid in owners:
            raise DuplicateUidError(uid, str(owners[uid]), str(node))
        owners[uid] = node
        uids[node.id] = uid
    return uids


def _generated_uid(node: StreamNode, uids: dict[int, str], ranks: Counter[str]) -> str:
    parts = [node.kind.value]
    for edge in node.inputs:
        # A type declared for an output must not change the uids after it.
        source = edge.source if node.owner is not None else edge.source.operator()
        tag = edge.tag if edge.source.owner is None else _tag_of_attached(edge.source)
        parts.append(f"{edge.input_index} {uids[source.id]} {'' if tag is None else tag}")
    place = "\n".join(parts)
    rank = ranks[place]
    ranks[place] += 1
    return sha256(f"{place}\n{rank}".encode()).hexdigest()[:32]


def _tag_of_attached(node: StreamNode) -> str | None:
    return node.inputs[0].tag
