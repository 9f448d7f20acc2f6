"""Windows and what assigns records to them (``pyflink.datastream.window``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._api.triggers import (
    EventTimeTrigger,
    Evictor,
    ProcessingTimeTrigger,
    TimestampedValue,
    Trigger,
    TriggerResult,
)
from penstock._api.window import (
    CountWindow,
    GlobalWindow,
    MergingWindowAssigner,
    TimeWindow,
    TumblingEventTimeWindows,
    Window,
    WindowAssigner,
)

__all__ = [
    "CountWindow",
    "EventTimeTrigger",
    "Evictor",
    "GlobalWindow",
    "MergingWindowAssigner",
    "ProcessingTimeTrigger",
    "TimeWindow",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "Window",
    "WindowAssigner",
]

explain(__name__)
