"""SlotSharingGroup and MemorySize (``pyflink.datastream.slot_sharing_group``): accepted, without effect."""

from __future__ import annotations

from penstock._absent import explain
from penstock._api.slot_sharing_group import (
    MemorySize,
    SlotSharingGroup,
)

__all__ = [
    "MemorySize",
    "SlotSharingGroup",
]

explain(__name__)
