"""Streams: records on their way, and the operators that can be added to them (``pyflink.datastream.data_stream``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._builders.cached_stream import CachedDataStream
from penstock._builders.connected import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from penstock._builders.data_stream import DataStream
from penstock._builders.interval_join import IntervalJoin, IntervalJoined
from penstock._builders.keyed_stream import KeyedStream
from penstock._builders.partitions import PartitionWindowedStream
from penstock._builders.results import CloseableIterator
from penstock._builders.sink import DataStreamSink
from penstock._builders.windows.joined import CoGroupedStreams, JoinedStreams
from penstock._builders.windows.windowed import WindowedStream
from penstock._builders.windows.windowed_all import AllWindowedStream

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "CoGroupedStreams",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "IntervalJoin",
    "IntervalJoined",
    "JoinedStreams",
    "KeyedStream",
    "PartitionWindowedStream",
    "WindowedStream",
]

explain(__name__)
