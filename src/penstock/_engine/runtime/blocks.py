"""Blocks: batches as bytes, cut where they grow too large for one row."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

from penstock._engine.operators.batch import Batch
from penstock._engine.protocol.rows import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator


def encode_batch(batch: Batch) -> bytes:
    """Return a batch as the payload of a DATA row."""
    content = (batch.records, batch.timestamps, batch.watermarks)
    try:
        return pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        # A class that pickle cannot name, such as one made inside a function.
        return cloudpickle.dumps(content)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def decode_batch(payload: Any) -> Batch:
    """Return the batch of a payload; the payload comes from a task of the same job."""
    return Batch(*pickle.loads(payload))


def cut(batch: Batch) -> Iterator[bytes]:
    """Yield the payloads of a batch, each within MAX_PAYLOAD_BYTES unless one record alone is larger."""
    payload = encode_batch(batch)
    if len(payload) <= MAX_PAYLOAD_BYTES or len(batch.records) <= 1:
        yield payload
        return
    count, stamps = len(batch.records), batch.timestamps
    # A little more parts than the bytes ask for, as their records differ in size; one that is too large is cut again.
    step = max(1, count * MAX_PAYLOAD_BYTES // (len(payload) + len(payload) // 4))
    for start in range(0, count, step):
        end = start + step
        watermarks = [
            (position - start, mark)
            for position, mark in batch.watermarks
            if start <= position < end or (position >= count <= end)
        ]
        yield from cut(Batch(batch.records[start:end], None if stamps is None else stamps[start:end], watermarks))


def fragments(payload: bytes) -> list[bytes]:
    """Return the parts of a payload that is too large for one row; a smaller one alone."""
    if len(payload) <= MAX_PAYLOAD_BYTES:
        return [payload]
    return [payload[start : start + MAX_PAYLOAD_BYTES] for start in range(0, len(payload), MAX_PAYLOAD_BYTES)]
