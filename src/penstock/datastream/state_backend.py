"""State backends (``pyflink.datastream.state_backend``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._api.state_backend import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    PredefinedOptions,
    StateBackend,
)

__all__ = ["EmbeddedRocksDBStateBackend", "HashMapStateBackend", "PredefinedOptions", "StateBackend"]

explain(__name__)
