"""DataStreamSink: the end of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._builders.operator_settings import OperatorSettings
from penstock._shelf import show

if TYPE_CHECKING:
    from penstock._engine.graph.stream_graph import StreamNode


class DataStreamSink(OperatorSettings):
    """The end of a stream: a sink that was added to it.

    Source: org.apache.flink.streaming.api.datastream.DataStreamSink.

    Args:
        operator: The operator of the sink.
    """

    def __init__(self, operator: StreamNode) -> None:
        self._operator = operator

    def _operator_for(self, method: str) -> StreamNode:
        return self._operator


show("penstock.datastream.data_stream", DataStreamSink)
