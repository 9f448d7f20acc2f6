"""TimeDomain: the clock of a timer (``pyflink.datastream.time_domain``)."""

from __future__ import annotations

from enum import Enum

from penstock._shelf import show

__all__ = ["TimeDomain"]


class TimeDomain(Enum):
    """The clock of a timer.

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
