"""State: what functions may keep across records and failures (``pyflink.datastream.state``).

Pure vocabulary: the kinds of state are abstract, the engine implements them.
"""

from __future__ import annotations

from penstock._api.state.descriptors import StateDescriptor
from penstock._api.state.kinds import (
    AggregatingState,
    AggregatingStateDescriptor,
    AppendingState,
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    MergingState,
    ReadOnlyBroadcastState,
    ReducingState,
    ReducingStateDescriptor,
    State,
    ValueState,
    ValueStateDescriptor,
)
from penstock._api.state.operator import OperatorStateStore
from penstock._api.state.ttl import StateTtlConfig

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]
