"""The settings of a generating source: the function that makes a record, and the rate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock._shelf import show

if TYPE_CHECKING:
    from penstock._api.connectors.reader import SourceReaderContext

T = TypeVar("T")


class GeneratorFunction(ABC, Generic[T]):
    """Makes the record of an index.

    The same index must give an equal record each time, because records are made again after a failure.

    Source: org.apache.flink.connector.datagen.source.GeneratorFunction.
    """

    def open(self, reader_context: SourceReaderContext) -> None:
        """Prepare; runs once in each reader, before the first record."""

    @abstractmethod
    def map(self, value: int) -> T:
        """Return the record of an index; 0 is the first."""

    def close(self) -> None:
        """Release all resources."""


class RateUnit(Enum):
    """The unit of a rate."""

    NO_OP = "no_op"
    SECOND = "second"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class RateLimiterStrategy:
    """The rate at which a source makes records; use the static methods to create one.

    Source: org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy.

    Args:
        unit: The unit of the rate.
        rate: Records of all readers together in one unit.

    Example:
        >>> RateLimiterStrategy.per_second(500).rate
        500
    """

    unit: RateUnit
    rate: float

    @staticmethod
    def no_op() -> RateLimiterStrategy:
        """Make records as fast as the job processes them."""
        return RateLimiterStrategy(RateUnit.NO_OP, 0)

    @staticmethod
    def per_second(records_per_second: float) -> RateLimiterStrategy:
        """Make a number of records per second, all readers together.

        The rate follows the time of day, also between two epochs and while the job is down: a reader that fell behind
        catches up, with at most the records of one minute.

        Raises:
            ValueError: The rate is not positive.
        """
        return RateLimiterStrategy(RateUnit.SECOND, _positive(records_per_second))

    @staticmethod
    def per_checkpoint(records_per_checkpoint: int) -> RateLimiterStrategy:
        """Make at most a number of records between two checkpoints, all readers together.

        Args:
            records_per_checkpoint: At least the parallelism of the source, so that each reader has a part of it; less
                is an error when the job starts.

        Raises:
            ValueError: The rate is not positive.
        """
        return RateLimiterStrategy(RateUnit.CHECKPOINT, _positive(records_per_checkpoint))


def _positive(rate: float) -> float:
    if rate <= 0:
        msg = f"A rate must be greater than 0, not {rate}."
        raise ValueError(msg)
    return rate


show("penstock.datastream.connectors.datagen", GeneratorFunction, RateLimiterStrategy)
