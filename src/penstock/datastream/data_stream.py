"""Streams: records on their way, and the operators that can be added to them (``pyflink.datastream.data_stream``)."""

from __future__ import annotations

from penstock.datastream._streams.connected import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from penstock.datastream._streams.keyed import KeyedStream
from penstock.datastream._streams.results import CloseableIterator
from penstock.datastream._streams.sink import DataStreamSink
from penstock.datastream._streams.stream import DataStream
from penstock.datastream._streams.windowed import WindowedStream

__all__ = [
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]

# Messages name the public module, so that the private ones may move.
for _name in __all__:
    globals()[_name].__module__ = __name__
