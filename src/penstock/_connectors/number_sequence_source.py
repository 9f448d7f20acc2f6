"""The source of consecutive numbers (``pyflink.datastream.connectors.number_seq``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._api.connectors.source import Boundedness, Source
from penstock._shelf import show
from penstock.common.typeinfo import Types

if TYPE_CHECKING:
    from penstock._api.connectors.reader import SourceReaderContext
    from penstock._api.connectors.source import SplitEnumeratorContext
    from penstock._connectors.number_sequence import (
        NumberSequenceEnumerator,
        NumberSequenceReader,
        NumberSequenceSplit,
    )
    from penstock.common.typeinfo import TypeInformation

__all__ = ["NumberSequenceSource"]


class NumberSequenceSource(Source[int, "NumberSequenceSplit", "list[NumberSequenceSplit]"]):
    """The whole numbers from ``start`` to ``end``, both included.

    Each reader gets one contiguous part; at parallelism 1 the numbers come in order.

    Source: org.apache.flink.api.connector.source.lib.NumberSequenceSource.

    Args:
        start: The first number.
        end: The last number.

    Raises:
        ValueError: ``start`` is greater than ``end``.

    Example:
        >>> NumberSequenceSource(1, 10)
        NumberSequenceSource(1, 10)
    """

    def __init__(self, start: int, end: int) -> None:
        if start > end:
            msg = f"A number sequence cannot start at {start} and end at {end}: start must not be greater than end."
            raise ValueError(msg)
        self._start, self._end = start, end

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def get_produced_type(self) -> TypeInformation:
        """Return the type of a whole number."""
        return Types.LONG()

    @property
    def holds_produced_type(self) -> bool:
        """Whether the whole range is within that type."""
        return self._start >= -(1 << 63) and self._end < 1 << 63

    def create_enumerator(self, enum_context: SplitEnumeratorContext[NumberSequenceSplit]) -> NumberSequenceEnumerator:
        """Cut the range into as many parts as there are readers."""
        from penstock._connectors.number_sequence import NumberSequenceEnumerator, split_range

        return NumberSequenceEnumerator(
            enum_context, split_range(self._start, self._end, enum_context.current_parallelism)
        )

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[NumberSequenceSplit], checkpoint: list[NumberSequenceSplit]
    ) -> NumberSequenceEnumerator:
        """Go on with the parts that no reader has; the readers have kept theirs."""
        from penstock._connectors.number_sequence import NumberSequenceEnumerator

        return NumberSequenceEnumerator(enum_context, checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> NumberSequenceReader:
        """Make a reader of parts."""
        from penstock._connectors.number_sequence import NumberSequenceReader

        return NumberSequenceReader(reader_context)

    def __repr__(self) -> str:
        return f"NumberSequenceSource({self._start}, {self._end})"


show("penstock.datastream.connectors.number_seq", NumberSequenceSource)
