"""CachedDataStream: a stream whose records are kept for later jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from penstock._builders.data_stream import DataStream
from penstock._builders.operator_settings import CALLS
from penstock._engine.graph.stream_graph import StreamEdge, StreamNode
from penstock._shelf import show
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._builders.caches import CachedStream

T = TypeVar("T")


class CachedDataStream(DataStream[T]):
    """A stream whose records are kept for later jobs, see :meth:`DataStream.cache`.

    Source: org.apache.flink.streaming.api.datastream.CachedDataStream, FLIP-205.

    Args:
        origin: The stream that is cached.
        cached: What is known of it.

    Example:
        >>> from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> _ = env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        >>> squares = env.from_collection([1, 2, 3]).map(lambda number: number * number).cache()
        >>> type(squares).__name__
        'CachedDataStream'
    """

    def __init__(self, origin: DataStream[T], cached: CachedStream) -> None:
        super().__init__(origin._environment, (StreamEdge(cached.node),), origin._type_info)
        self._cached = cached

    def invalidate(self) -> None:
        """Delete what is kept; the next job that uses the stream computes it anew. A job that reads it now fails."""
        self._cached.invalidate()

    def cache(self) -> CachedDataStream[T]:
        """Return this stream, which is cached."""
        return self

    def _operator_for(self, method: str) -> StreamNode:
        operation = f"{CALLS[method]} for CachedDataStream"
        raise UnsupportedOperationError(operation, "call it on the stream before cache()")


show("penstock.datastream.data_stream", CachedDataStream)
