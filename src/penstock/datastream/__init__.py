"""The DataStream API (``pyflink.datastream``).

This package loads a module when one of its names is first used. Tasks load the vocabulary (functions, state, windows)
without the builders; an eager package would import the engine along with them, in a circle.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock._absent import absent

if TYPE_CHECKING:
    from penstock.datastream.async_data_stream import AsyncDataStream as AsyncDataStream
    from penstock.datastream.checkpoint_config import CheckpointConfig as CheckpointConfig
    from penstock.datastream.checkpoint_storage import CheckpointStorage as CheckpointStorage
    from penstock.datastream.checkpoint_storage import FileSystemCheckpointStorage as FileSystemCheckpointStorage
    from penstock.datastream.checkpoint_storage import JobManagerCheckpointStorage as JobManagerCheckpointStorage
    from penstock.datastream.checkpointing_mode import CheckpointingMode as CheckpointingMode
    from penstock.datastream.data_stream import (
        AllWindowedStream as AllWindowedStream,
    )
    from penstock.datastream.data_stream import (
        BroadcastConnectedStream as BroadcastConnectedStream,
    )
    from penstock.datastream.data_stream import (
        BroadcastStream as BroadcastStream,
    )
    from penstock.datastream.data_stream import (
        ConnectedStreams as ConnectedStreams,
    )
    from penstock.datastream.data_stream import (
        DataStream as DataStream,
    )
    from penstock.datastream.data_stream import (
        DataStreamSink as DataStreamSink,
    )
    from penstock.datastream.data_stream import (
        KeyedStream as KeyedStream,
    )
    from penstock.datastream.data_stream import (
        PartitionWindowedStream as PartitionWindowedStream,
    )
    from penstock.datastream.data_stream import (
        WindowedStream as WindowedStream,
    )
    from penstock.datastream.execution_mode import RuntimeExecutionMode as RuntimeExecutionMode
    from penstock.datastream.externalized_checkpoint_retention import (
        ExternalizedCheckpointRetention as ExternalizedCheckpointRetention,
    )
    from penstock.datastream.functions import (
        AggregateFunction as AggregateFunction,
    )
    from penstock.datastream.functions import (
        AllWindowFunction as AllWindowFunction,
    )
    from penstock.datastream.functions import (
        AsyncFunction as AsyncFunction,
    )
    from penstock.datastream.functions import (
        AsyncRetryPredicate as AsyncRetryPredicate,
    )
    from penstock.datastream.functions import (
        AsyncRetryStrategy as AsyncRetryStrategy,
    )
    from penstock.datastream.functions import (
        BroadcastProcessFunction as BroadcastProcessFunction,
    )
    from penstock.datastream.functions import (
        CheckpointedFunction as CheckpointedFunction,
    )
    from penstock.datastream.functions import (
        CheckpointListener as CheckpointListener,
    )
    from penstock.datastream.functions import (
        CoFlatMapFunction as CoFlatMapFunction,
    )
    from penstock.datastream.functions import (
        CoMapFunction as CoMapFunction,
    )
    from penstock.datastream.functions import (
        CoProcessFunction as CoProcessFunction,
    )
    from penstock.datastream.functions import (
        FilterFunction as FilterFunction,
    )
    from penstock.datastream.functions import (
        FlatMapFunction as FlatMapFunction,
    )
    from penstock.datastream.functions import (
        KeyedBroadcastProcessFunction as KeyedBroadcastProcessFunction,
    )
    from penstock.datastream.functions import (
        KeyedCoProcessFunction as KeyedCoProcessFunction,
    )
    from penstock.datastream.functions import (
        KeyedProcessFunction as KeyedProcessFunction,
    )
    from penstock.datastream.functions import (
        KeySelector as KeySelector,
    )
    from penstock.datastream.functions import (
        MapFunction as MapFunction,
    )
    from penstock.datastream.functions import (
        MapPartitionFunction as MapPartitionFunction,
    )
    from penstock.datastream.functions import (
        Partitioner as Partitioner,
    )
    from penstock.datastream.functions import (
        ProcessAllWindowFunction as ProcessAllWindowFunction,
    )
    from penstock.datastream.functions import (
        ProcessFunction as ProcessFunction,
    )
    from penstock.datastream.functions import (
        ProcessWindowFunction as ProcessWindowFunction,
    )
    from penstock.datastream.functions import (
        ReduceFunction as ReduceFunction,
    )
    from penstock.datastream.functions import (
        RuntimeContext as RuntimeContext,
    )
    from penstock.datastream.functions import (
        WindowFunction as WindowFunction,
    )
    from penstock.datastream.output_tag import OutputTag as OutputTag
    from penstock.datastream.slot_sharing_group import MemorySize as MemorySize
    from penstock.datastream.slot_sharing_group import SlotSharingGroup as SlotSharingGroup
    from penstock.datastream.state_backend import EmbeddedRocksDBStateBackend as EmbeddedRocksDBStateBackend
    from penstock.datastream.state_backend import HashMapStateBackend as HashMapStateBackend
    from penstock.datastream.state_backend import PredefinedOptions as PredefinedOptions
    from penstock.datastream.state_backend import StateBackend as StateBackend
    from penstock.datastream.stream_execution_environment import (
        StreamExecutionEnvironment as StreamExecutionEnvironment,
    )
    from penstock.datastream.time_domain import TimeDomain as TimeDomain
    from penstock.datastream.timerservice import TimerService as TimerService
    from penstock.datastream.window import (
        CountWindow as CountWindow,
    )
    from penstock.datastream.window import (
        GlobalWindow as GlobalWindow,
    )
    from penstock.datastream.window import (
        MergingWindowAssigner as MergingWindowAssigner,
    )
    from penstock.datastream.window import (
        TimeWindow as TimeWindow,
    )
    from penstock.datastream.window import (
        Trigger as Trigger,
    )
    from penstock.datastream.window import (
        TriggerResult as TriggerResult,
    )
    from penstock.datastream.window import (
        Window as Window,
    )
    from penstock.datastream.window import (
        WindowAssigner as WindowAssigner,
    )

_NAMES_OF_MODULES = {
    "async_data_stream": ("AsyncDataStream",),
    "checkpoint_config": ("CheckpointConfig",),
    "checkpoint_storage": ("CheckpointStorage", "FileSystemCheckpointStorage", "JobManagerCheckpointStorage"),
    "checkpointing_mode": ("CheckpointingMode",),
    "data_stream": (
        *("AllWindowedStream", "BroadcastConnectedStream", "BroadcastStream", "ConnectedStreams", "DataStream"),
        *("DataStreamSink", "KeyedStream", "PartitionWindowedStream", "WindowedStream"),
    ),
    "execution_mode": ("RuntimeExecutionMode",),
    "externalized_checkpoint_retention": ("ExternalizedCheckpointRetention",),
    "functions": (
        *(
            "AggregateFunction",
            "AllWindowFunction",
            "BroadcastProcessFunction",
            "CheckpointListener",
            "CheckpointedFunction",
        ),
        *("AsyncFunction", "AsyncRetryPredicate", "AsyncRetryStrategy"),
        *("CoFlatMapFunction", "CoMapFunction", "CoProcessFunction", "FilterFunction", "FlatMapFunction"),
        *("KeySelector", "KeyedBroadcastProcessFunction", "KeyedCoProcessFunction", "KeyedProcessFunction"),
        *(
            "MapFunction",
            "MapPartitionFunction",
            "Partitioner",
            "ProcessAllWindowFunction",
            "ProcessFunction",
            "ProcessWindowFunction",
            "ReduceFunction",
        ),
        *("RuntimeContext", "WindowFunction"),
    ),
    "output_tag": ("OutputTag",),
    "slot_sharing_group": ("MemorySize", "SlotSharingGroup"),
    "state_backend": ("EmbeddedRocksDBStateBackend", "HashMapStateBackend", "PredefinedOptions", "StateBackend"),
    "stream_execution_environment": ("StreamExecutionEnvironment",),
    "time_domain": ("TimeDomain",),
    "timerservice": ("TimerService",),
    "window": (
        *("CountWindow", "GlobalWindow", "MergingWindowAssigner", "TimeWindow", "Trigger", "TriggerResult", "Window"),
        "WindowAssigner",
    ),
}
_MODULE_OF_NAME = {name: module for module, names in _NAMES_OF_MODULES.items() for name in names}

__all__ = list(_MODULE_OF_NAME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF_NAME.get(name)
    if module is None:
        raise absent(__name__, name)
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
