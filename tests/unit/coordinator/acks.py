"""Acks for tests of decisions."""

from __future__ import annotations

from typing import Any

from penstock._engine.protocol.control import SubtaskAck

_DEFAULTS: dict[str, Any] = {
    "checkpoint_id": 7,
    "token": 0,
    "rows_read": {},
    "rows_sent": {},
    "operators": {},
    "outputs": {},
    "finished": False,
    "input_watermark": 0,
    "watermark": 0,
    "started_ms": 0,
    "ended_ms": 0,
}


def ack(vertex: int, subtask: int, **parts: Any) -> SubtaskAck:
    return SubtaskAck(vertex=vertex, subtask=subtask, **(_DEFAULTS | parts))
