"""A source that calls a function for each record, as fast as wanted (Flink's ``flink-connector-datagen``).

PyFlink does not have it; names and order of parameters are those of Java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.connectors.generating import GeneratorFunction, RateLimiterStrategy
from penstock._api.connectors.source import Boundedness, Source
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._api.connectors.reader import SourceReaderContext
    from penstock._api.connectors.source import SplitEnumeratorContext
    from penstock._connectors.datagen import DataGeneratorEnumerator, DataGeneratorReader, IndexSplit
    from penstock.common.typeinfo import TypeInformation

__all__ = ["DataGeneratorSource", "GeneratorFunction", "RateLimiterStrategy"]


class DataGeneratorSource(Source[Any, "IndexSplit", "list[IndexSplit]"]):
    """Calls a function with 0, 1, 2 and so on, and emits what it returns.

    The readers take turns with the indices (reader 0 of 2 has 0, 2, 4, …), so that with times that grow with the index
    no reader runs far ahead of the others. At parallelism 1 the records come in order.

    Source: org.apache.flink.connector.datagen.source.DataGeneratorSource.

    Args:
        generator_function: Makes a record of an index: a callable or a :class:`GeneratorFunction`.
        count: How many records to make; None never ends.
        rate_limiter_strategy: How fast; as fast as possible by default.
        type_info: The type of the records, None when there is none.

    Raises:
        ValueError: ``count`` is negative.

    Example:
        >>> squares = DataGeneratorSource(lambda index: index * index, 100, RateLimiterStrategy.per_second(10))
        >>> squares.get_boundedness()
        <Boundedness.BOUNDED: 'bounded'>
    """

    def __init__(
        self,
        generator_function: Callable[[int], Any] | GeneratorFunction[Any],
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        type_info: TypeInformation | None = None,
    ) -> None:
        if count is not None and count < 0:
            msg = f"count cannot be negative: {count}."
            raise ValueError(msg)
        self._function, self._count, self._type_info = generator_function, count, type_info
        self._strategy = rate_limiter_strategy or RateLimiterStrategy.no_op()

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED when there is a count."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self._count is None else Boundedness.BOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that was given."""
        return self._type_info

    def create_enumerator(self, enum_context: SplitEnumeratorContext[IndexSplit]) -> DataGeneratorEnumerator:
        """Deal the indices out among the readers."""
        from penstock._connectors.datagen import DataGeneratorEnumerator, deal_indices

        return DataGeneratorEnumerator(enum_context, deal_indices(self._count, enum_context.current_parallelism))

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[IndexSplit], checkpoint: list[IndexSplit]
    ) -> DataGeneratorEnumerator:
        """Go on with the indices that no reader has; the readers have kept theirs."""
        from penstock._connectors.datagen import DataGeneratorEnumerator

        return DataGeneratorEnumerator(enum_context, checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> DataGeneratorReader:
        """Make a reader that calls the function."""
        from penstock._connectors.datagen import DataGeneratorReader

        return DataGeneratorReader(reader_context, self._function, self._strategy)


show("penstock.datastream.connectors.datagen", DataGeneratorSource, GeneratorFunction, RateLimiterStrategy)
