"""TimeDomain: which clock a timer belongs to (``pyflink.datastream.time_domain``)."""

from __future__ import annotations

from enum import Enum

from penstock._shelf import show

__all__ = ["TimeDomain"]


class TimeDomain(Enum):
    """Which clock a timer belongs to.

    Source: org.apache.flink.streaming.api.TimeDomain.

    Example:
        >>> print(TimeDomain.EVENT_TIME)
        TimeDomain.EVENT_TIME
    """

    EVENT_TIME = 0
    """The watermark."""
    PROCESSING_TIME = 1
    """The clock of the machine."""


show("penstock.datastream.time_domain", TimeDomain)
