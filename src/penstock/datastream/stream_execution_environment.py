"""StreamExecutionEnvironment: where a program begins and ends (``pyflink.datastream.stream_execution_environment``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._builders.environment import (
    StreamExecutionEnvironment,
)
from penstock.datastream import (  # what a program gets from the environment says what it lacks
    checkpoint_config,  # noqa: F401  # pyright: ignore[reportUnusedImport]
    data_stream,  # noqa: F401  # pyright: ignore[reportUnusedImport]
)

__all__ = [
    "StreamExecutionEnvironment",
]

explain(__name__)
