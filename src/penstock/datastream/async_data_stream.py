"""Async functions on streams (``pyflink.datastream.async_data_stream``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._builders.async_data_stream import AsyncDataStream

__all__ = [
    "AsyncDataStream",
]

explain(__name__)
