"""An enumerator that hands out splits from a queue: what most sources need."""

from __future__ import annotations

from penstock._api.connectors.enumerator_base import (
    SplitQueueEnumerator,
)

__all__ = [
    "SplitQueueEnumerator",
]
