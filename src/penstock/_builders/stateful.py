"""Decides from the program which operators may have state, and which may combine their input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._api.connectors.sink import SupportsCommitter, SupportsWriterState
from penstock._api.functions.checkpointed import CheckpointedFunction
from penstock._engine.graph.job_graph import OperatorKind

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The kinds that always have state, or whose functions may use state.
_STATEFUL: Final = frozenset(
    {
        OperatorKind.SOURCE,
        OperatorKind.ASYNC_WAIT,
        OperatorKind.KEYED_PROCESS,
        OperatorKind.KEYED_CO_PROCESS,
        OperatorKind.INTERVAL_JOIN,
        OperatorKind.BROADCAST_PROCESS,
        OperatorKind.KEYED_BROADCAST_PROCESS,
        OperatorKind.REDUCE,
        OperatorKind.WINDOW,
        OperatorKind.COLUMN_TOTALS,
        OperatorKind.COLUMN_WINDOW,
    }
)


def keeps_state(kind: OperatorKind, members: Mapping[str, object]) -> bool:
    """Tell whether an operator may have state.

    Args:
        kind: Its kind.
        members: The members of its payload.
    """
    if kind in _STATEFUL:
        return True
    if kind is OperatorKind.SINK_WRITER:
        return isinstance(members["sink"], (SupportsCommitter, SupportsWriterState))
    return isinstance(members.get("function"), CheckpointedFunction)


def is_combinable(kind: OperatorKind, members: Mapping[str, object]) -> bool:
    """Tell whether a batch job may combine the input of an operator before the shuffle: see `keeps_state`."""
    function = members.get("function")
    function = getattr(function, "wrapped_function", function)
    return kind is OperatorKind.REDUCE and getattr(function, "combinable", True)
