"""The output of an operator, in a form for comparisons in tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock._engine.protocol.rows import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.operators.base import Output

__all__ = ["StreamRecord", "Watermark"]


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """An emitted record.

    Args:
        value: The record.
        timestamp: Milliseconds since the epoch; None when it has none.
    """

    value: Any
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Watermark:
    """An emitted watermark.

    Args:
        timestamp: Milliseconds since the epoch.
    """

    timestamp: int


def values_and_stamps(records: list[StreamRecord]) -> tuple[list[Any], list[int] | None]:
    """Return the values of records, and their timestamps, or None where no record has any."""
    stamps = [NO_TIMESTAMP if record.timestamp is None else record.timestamp for record in records]
    return [record.value for record in records], None if set(stamps) <= {NO_TIMESTAMP} else stamps


def record_outputs(
    outputs: Iterable[Output], main: list[StreamRecord | Watermark], sides: dict[str, list[StreamRecord]]
) -> None:
    """Add the outputs of an operator to the main output, and to the side outputs by their tags."""
    for tag_id, output in outputs:
        batch = output.rows()
        records = [
            StreamRecord(value, None if timestamp == NO_TIMESTAMP else timestamp)
            for value, timestamp in zip(batch.records, batch.stamps(), strict=True)
        ]
        if tag_id is not None:
            sides.setdefault(tag_id, []).extend(records)
            continue
        for start, stop, watermark in batch.segments():
            main += records[start:stop]
            if watermark is not None:
                main.append(Watermark(watermark))
