"""TimeDomain: which clock a timer belongs to (``pyflink.datastream.time_domain``)."""

from __future__ import annotations

from penstock._api.time_domain import (
    TimeDomain,
)

__all__ = [
    "TimeDomain",
]
