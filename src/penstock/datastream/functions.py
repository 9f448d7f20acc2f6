"""The functions that a program writes (``pyflink.datastream.functions``).

Pure vocabulary: nothing here runs anything. Tasks load this module, so it imports no builder.
"""

from __future__ import annotations

from penstock.datastream._functions.basic import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedStateStore,
    KeySelector,
    MapFunction,
    Partitioner,
    ReduceFunction,
    RuntimeContext,
)
from penstock.datastream._functions.broadcast import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from penstock.datastream._functions.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from penstock.datastream._functions.co import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from penstock.datastream._functions.process import KeyedProcessFunction, ProcessFunction
from penstock.datastream._functions.windows import ProcessWindowFunction, WindowFunction
from penstock.datastream.timerservice import TimerService

__all__ = [
    "AggregateFunction",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CheckpointListener",
    "CheckpointedFunction",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "MapFunction",
    "Partitioner",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "TimerService",
    "WindowFunction",
]

# Pickles and messages name the public module, so that the private ones may move.
for _name in __all__:
    if _name != "TimerService":
        globals()[_name].__module__ = __name__
