"""Blocks: batches as bytes, cut where they grow too large for one row.

A block begins with a byte that tells its encoding. Records of one shape whose fields are texts, numbers, bytes and None
are packed as MessagePack: the shape stands in front, so that they come back of the very same types, and known to be of
that shape. That takes a half of the time of pickle, which all other records take.
"""

from __future__ import annotations

import pickle
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]
import msgspec

from penstock._engine.operators.batch import RowBatch
from penstock._engine.protocol.rows import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.operators.batch import Shape

#: The first byte of a pickled block; of a packed one it is the length of its shape.
_PICKLED: Final = b"\0"
#: How a shape stands in a block: one letter for each type, those of a tuple behind a sign of their own.
_LETTERS: Final[dict[type[Any], str]] = {str: "s", int: "i", float: "f", bool: "b", bytes: "y", type(None): "n"}
_TYPES: Final = {letter: kind for kind, letter in _LETTERS.items()}
_TUPLE: Final = "("
#: Shapes that are remembered.
_SHAPES: Final = 256

_pack: Final = msgspec.msgpack.Encoder().encode
_Content: TypeAlias = "tuple[list[Any], list[int] | None, list[tuple[int, int]]]"


def encode_batch(batch: RowBatch) -> bytes:
    """Return a batch as the payload of a DATA row."""
    content = (batch.records, batch.timestamps, batch.watermarks)
    head = None if batch.shape is None else _head(batch.shape)
    if head is not None:
        try:
            return head + _pack(content)
        except (OverflowError, ValueError):  # a number beyond 64 bits, a lone surrogate
            pass
    try:
        return _PICKLED + pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        # A class that pickle cannot name, such as one made inside a function.
        return _PICKLED + cloudpickle.dumps(content)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def decode_batch(payload: bytes) -> RowBatch:
    """Return the batch of a payload; the payload comes from a task of the same job."""
    behind = 1 + payload[0]
    body = memoryview(payload)[behind:]
    if behind == 1:
        return RowBatch(*pickle.loads(body))
    shape, decoder = _decoder(payload[1:behind])
    return RowBatch(*decoder.decode(body), shape)


@lru_cache(_SHAPES)
def _head(shape: Shape) -> bytes | None:
    """Return what a packed block of a shape begins with, None where its types are for pickle."""
    kinds = shape if isinstance(shape, tuple) else (shape,)
    if not _LETTERS.keys() >= set(kinds):
        return None
    letters = (_TUPLE if isinstance(shape, tuple) else "") + "".join(_LETTERS[kind] for kind in kinds)
    return bytes([len(letters)]) + letters.encode()


@lru_cache(_SHAPES)
def _decoder(letters: bytes) -> tuple[Shape, msgspec.msgpack.Decoder[_Content]]:
    """Return the shape that stands in a packed block, and what decodes such blocks."""
    text = letters.decode()
    fields = tuple(_TYPES[letter] for letter in text.lstrip(_TUPLE))
    shape: Shape = fields if text.startswith(_TUPLE) else fields[0]
    record: Any = tuple[fields] if isinstance(shape, tuple) else shape
    return shape, msgspec.msgpack.Decoder(tuple[list[record], list[int] | None, list[tuple[int, int]]])


def cut(batch: RowBatch) -> Iterator[bytes]:
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
        yield from cut(
            RowBatch(batch.records[start:end], None if stamps is None else stamps[start:end], watermarks, batch.shape)
        )


def fragments(payload: bytes) -> list[bytes]:
    """Return the parts of a payload that is too large for one row; a smaller one alone."""
    if len(payload) <= MAX_PAYLOAD_BYTES:
        return [payload]
    return [payload[start : start + MAX_PAYLOAD_BYTES] for start in range(0, len(payload), MAX_PAYLOAD_BYTES)]
