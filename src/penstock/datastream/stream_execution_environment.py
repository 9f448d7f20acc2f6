"""StreamExecutionEnvironment: where a program begins and ends (``pyflink.datastream.stream_execution_environment``)."""

from __future__ import annotations

from penstock._builders.environment import (
    StreamExecutionEnvironment,
)

__all__ = [
    "StreamExecutionEnvironment",
]
