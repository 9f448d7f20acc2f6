"""Windows and what assigns records to them (``pyflink.datastream.window``)."""

from __future__ import annotations

from penstock._api.window import (
    CountWindow,
    GlobalWindow,
    TimeWindow,
    TumblingEventTimeWindows,
    Window,
    WindowAssigner,
)

__all__ = [
    "CountWindow",
    "GlobalWindow",
    "TimeWindow",
    "TumblingEventTimeWindows",
    "Window",
    "WindowAssigner",
]
