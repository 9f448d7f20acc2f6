"""StreamExecutionEnvironment: where a program begins and ends (``pyflink.datastream.stream_execution_environment``)."""

from __future__ import annotations

from penstock._builders.environment import (
    StreamExecutionEnvironment,
)
from penstock.datastream import data_stream  # noqa: F401  # pyright: ignore[reportUnusedImport] - its streams say what they lack

__all__ = [
    "StreamExecutionEnvironment",
]
