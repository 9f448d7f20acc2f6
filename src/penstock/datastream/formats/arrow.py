"""Arrow IPC files as source and as sink. PyFlink has no such module."""

from __future__ import annotations

from penstock._formats.arrow_ipc import ArrowBulkWriters, ArrowFormat

__all__ = ["ArrowBulkWriters", "ArrowFormat"]
