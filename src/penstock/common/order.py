"""Order: the direction in which records are sorted."""

from __future__ import annotations

from enum import Enum

__all__ = ["Order"]


class Order(Enum):
    """The direction in which ``sort_partition`` sorts.

    Source: org.apache.flink.api.common.operators.Order, FLIP-380.

    Example:
        >>> [order.name for order in Order]
        ['ASCENDING', 'DESCENDING']
    """

    ASCENDING = "ascending"
    """The smallest value first."""
    DESCENDING = "descending"
    """The largest value first."""
