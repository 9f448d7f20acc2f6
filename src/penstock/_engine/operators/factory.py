"""Creates operators from the nodes of the job graph."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.operators.async_wait import AsyncWaitOperator
from penstock._engine.operators.broadcast import BroadcastProcessOperator, KeyedBroadcastProcessOperator
from penstock._engine.operators.co_process import (
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    KeyedCoProcessOperator,
)
from penstock._engine.operators.process import KeyedProcessOperator, ProcessOperator
from penstock._engine.operators.reduce import ReduceOperator
from penstock._engine.operators.sink import CollectOperator, SinkWriterOperator
from penstock._engine.operators.source import SourceOperator
from penstock._engine.operators.stateless import CastOperator, FilterOperator, FlatMapOperator, MapOperator
from penstock._engine.operators.watermarks import TimestampsAndWatermarksOperator
from penstock._engine.operators.window import window_operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.operators.base import Operator

#: Constructors by kind (the text of `graph.job_graph.OperatorKind`); they take the members of the node's payload.
_OPERATORS: Final[dict[str, Callable[..., Operator]]] = {
    "source": SourceOperator,
    "map": MapOperator,
    "flat_map": FlatMapOperator,
    "filter": FilterOperator,
    "process": ProcessOperator,
    "watermarks": TimestampsAndWatermarksOperator,
    "keyed_process": KeyedProcessOperator,
    "co_map": CoMapOperator,
    "co_flat_map": CoFlatMapOperator,
    "co_process": CoProcessOperator,
    "keyed_co_process": KeyedCoProcessOperator,
    "broadcast_process": BroadcastProcessOperator,
    "keyed_broadcast_process": KeyedBroadcastProcessOperator,
    "reduce": ReduceOperator,
    "window": window_operator,
    "async_wait": AsyncWaitOperator,
    "conform": CastOperator,
    "sink_writer": SinkWriterOperator,
    "collect": CollectOperator,
}


def create_operator(kind: str, payload: bytes) -> Operator:
    """Return the operator of a node.

    Args:
        kind: The node's kind.
        payload: The pickled members that the kind names; made by this job's own program.
    """
    members: dict[str, Any] = pickle.loads(payload)
    return _OPERATORS[kind](**members)
