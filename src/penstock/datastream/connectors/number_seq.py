"""The source of consecutive numbers (``pyflink.datastream.connectors.number_seq``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._connectors.number_sequence import (
    NumberSequenceSource,
)

__all__ = [
    "NumberSequenceSource",
]

explain(__name__)
