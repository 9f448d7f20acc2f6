"""Decides from the program which operators may have state, and which may combine their input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._api.connectors.committer import HasCommittables
from penstock._api.connectors.sink import SupportsWriterState
from penstock._api.functions.checkpointed import CheckpointedFunction
from penstock._api.windows.time_windows import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock._api.windows.triggers import EventTimeTrigger
from penstock._api.windows.unaligned_windows import EndOfStreamTrigger, EndOfStreamWindows, GlobalWindows
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
        OperatorKind.CHECKPOINT_PROCESS,
        OperatorKind.COMMITTABLES,
        OperatorKind.COMMITTED,
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
        return isinstance(members["sink"], (HasCommittables, SupportsWriterState))
    return isinstance(members.get("function"), CheckpointedFunction)


#: The windows that a record tells by itself, with their own trigger: other ones depend on other records or the clock.
_KNOWN_BY_A_RECORD: Final = frozenset(
    {
        (TumblingEventTimeWindows, EventTimeTrigger),
        (SlidingEventTimeWindows, EventTimeTrigger),
        (EndOfStreamWindows, EndOfStreamTrigger),
        (GlobalWindows, EndOfStreamTrigger),
    }
)


def is_combinable(kind: OperatorKind, members: Mapping[str, object]) -> bool:
    """Tell whether a batch job may combine the input of an operator before the shuffle: see `keeps_state`.

    A function with operator state does not, because it counts on all records of its subtask.
    """
    function = members.get("function")
    function = getattr(function, "wrapped_function", function)
    if isinstance(function, CheckpointedFunction):
        return False
    if kind is OperatorKind.REDUCE:
        return getattr(function, "combinable", True)
    return kind is OperatorKind.WINDOW and _window_combines(members, function)


def _window_combines(members: Mapping[str, object], function: object) -> bool:
    windows = type(members["assigner"]), type(members["trigger"])
    if windows not in _KNOWN_BY_A_RECORD or members["evictor"] is not None or members["late_tag"] is not None:
        return False
    if members["strategy"] == "aggregate":
        return getattr(function, "combinable", False)
    # Records of event-time windows have timestamps, which order what a reduce folds.
    has_no_timestamps = windows[1] is EndOfStreamTrigger
    return members["strategy"] == "reduce" and has_no_timestamps and getattr(function, "combinable", True)
