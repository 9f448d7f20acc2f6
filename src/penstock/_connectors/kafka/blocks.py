"""Blocks of records that a writer stages for the committer, as bytes."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._connectors.kafka.serializing import OutRecord

if TYPE_CHECKING:
    from collections.abc import Sequence


class _BlockColumns(msgspec.Struct, array_like=True):
    """The records, column by column; a column without any value is empty, and one topic stands for all."""

    topics: list[str]
    values: list[bytes | None]
    keys: list[bytes | None]
    timestamps: list[int | None]
    headers: list[tuple[tuple[str, bytes | None], ...] | None]
    partitions: list[int | None]


_decoder = msgspec.msgpack.Decoder(_BlockColumns)


@dataclass(frozen=True, slots=True)
class KafkaBlock:
    """The committable: a block of records of one attempt, and who has staged it.

    Attributes:
        job_id: The job.
        run_id: The run of the job.
        sink: The sink's uid.
        token: The attempt.
        digest: The SHA-256 of the block.
        name: What it is staged under; None if it is small and `data` has it.
        data: The block.
        topics: The topics of the block in order, each with the id that it had when this was staged.
    """

    job_id: str
    run_id: str
    sink: str
    token: str
    digest: bytes
    topics: tuple[tuple[str, str], ...]
    name: str | None
    data: bytes | None = field(repr=False)


def encoded(records: Sequence[OutRecord]) -> bytes:
    """Return records as bytes.

    Example:
        >>> block = encoded([OutRecord("t", b"v", b"k", 5, None, None)])
        >>> decoded(block)
        [OutRecord(topic='t', value=b'v', key=b'k', timestamp=5, headers=None, partition=None)]
    """
    topics, values, keys, timestamps, headers, partitions = (list(column) for column in zip(*records, strict=True))
    if topics.count(topics[0]) == len(topics):
        topics = topics[:1]
    optional = (
        [] if column.count(None) == len(column) else column for column in (keys, timestamps, headers, partitions)
    )
    return msgspec.msgpack.encode(_BlockColumns(topics, values, *optional))


def decoded(data: bytes) -> list[OutRecord]:
    """Return the records of a block.

    Raises:
        msgspec.DecodeError: These bytes are no block.
    """
    block = _decoder.decode(data)
    count = len(block.values)
    none: list[None] = [None] * count
    topics = block.topics if len(block.topics) == count else block.topics * count
    return [
        OutRecord(*one)
        for one in zip(
            *(topics, block.values, block.keys or none, block.timestamps or none),
            *(block.headers or none, block.partitions or none),
            strict=True,
        )
    ]


def readable(record: OutRecord) -> dict[str, Any]:
    """Return a record as JSON has it.

    Example:
        >>> record = readable(OutRecord("t", b"v", bytes([255]), 5, (("h", None),), None))
        >>> record["key"], record["value"], record["headers"]
        ({'base64': '/w=='}, 'v', [['h', None]])
    """
    return {
        "topic": record.topic,
        "key": _text(record.key),
        "value": _text(record.value),
        "timestamp": record.timestamp,
        "headers": [[name, _text(value)] for name, value in record.headers or ()],
        "partition": record.partition,
    }


def _text(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def digest_of(data: bytes) -> bytes:
    """Return the digest of a block."""
    return hashlib.sha256(data).digest()
