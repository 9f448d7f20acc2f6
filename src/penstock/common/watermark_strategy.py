"""Watermark strategies: how a stream gets its timestamps and its watermarks (``pyflink.common.watermark_strategy``).

A strategy is data. The built-in ones name their kind and bound, so that the engine runs them over whole blocks without
calling Python for each record; a strategy made by :meth:`WatermarkStrategy.for_generator` brings its own generator.
Nothing here runs anything.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from penstock._absent import explain
from penstock.common.record_fields import missing_field
from penstock.common.time import millis_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.time import Duration

__all__ = [
    "NO_TIMESTAMP",
    "FieldTimestamp",
    "TimestampAssigner",
    "WatermarkAlignment",
    "WatermarkGenerator",
    "WatermarkGeneratorContext",
    "WatermarkKind",
    "WatermarkOutput",
    "WatermarkStrategy",
]

NO_TIMESTAMP = -(2**63)
"""The timestamp of a record that has none, and the watermark before the first one."""

_DEFAULT_ALIGNMENT_INTERVAL_MS = 1000


class TimestampAssigner(ABC):
    """Gives each record its event time.

    Source: org.apache.flink.api.common.eventtime.TimestampAssigner.

    Example:
        >>> class ByField(TimestampAssigner):
        ...     def extract_timestamp(self, value, record_timestamp):
        ...         return value["ts"]
        >>> ByField().extract_timestamp({"ts": 17}, NO_TIMESTAMP)
        17
    """

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the event time of a record.

        Runs once per record, in the order of the records, and again for records that are read again after a failure.

        Args:
            value: The record.
            record_timestamp: The timestamp that the record has so far, in milliseconds since the epoch; -2**63 when it
                has none.

        Returns:
            Milliseconds since the epoch.
        """


class FieldTimestamp(TimestampAssigner):
    """Takes the event time from a field of the record; made by ``with_timestamp_assigner("name")``.

    Batches of columns get their timestamps from the column of that name, without a Python object for each record.

    Args:
        field: The name of the field, in dicts and in Rows with names: milliseconds since the epoch, or a datetime,
            which is in UTC where it has no time zone.

    Example:
        >>> import datetime
        >>> FieldTimestamp("ts").extract_timestamp({"ts": datetime.datetime(1970, 1, 1, 0, 1)}, -1)
        60000
    """

    def __init__(self, field: str) -> None:
        self.field = field

    def extract_timestamp(self, value: Any, record_timestamp: int) -> Any:
        """Return the field in milliseconds.

        Raises:
            FieldError: The record does not have it.
        """
        try:
            time = value[self.field]
        except (LookupError, TypeError, ValueError, AttributeError):
            raise missing_field(f"with_timestamp_assigner({self.field!r})", self.field, value) from None
        if not isinstance(time, datetime.datetime):
            return time
        if time.tzinfo is None:
            time = time.replace(tzinfo=datetime.UTC)
        return (time - _EPOCH) // datetime.timedelta(milliseconds=1)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class WatermarkOutput(ABC):
    """Takes the watermarks of a generator.

    Source: org.apache.flink.api.common.eventtime.WatermarkOutput.
    """

    @abstractmethod
    def emit_watermark(self, watermark: int) -> None:
        """Emit a watermark: no record up to this timestamp is expected any more. One that does not rise has no effect.

        Args:
            watermark: Milliseconds since the epoch.
        """

    @abstractmethod
    def mark_idle(self) -> None:
        """Mark this input idle, so that it does not hold back the watermark until its next record."""

    @abstractmethod
    def mark_active(self) -> None:
        """Take back ``mark_idle``."""


class WatermarkGenerator(ABC):
    """Makes watermarks from the records of an input.

    Source: org.apache.flink.api.common.eventtime.WatermarkGenerator.

    Example:
        >>> class AfterEachRecord(WatermarkGenerator):
        ...     def on_event(self, event, event_timestamp, output):
        ...         output.emit_watermark(event_timestamp - 1)
        ...
        ...     def on_periodic_emit(self, output):
        ...         pass
        >>> strategy = WatermarkStrategy.for_generator(lambda context: AfterEachRecord())
    """

    @abstractmethod
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Handle one record; a watermark emitted now follows it.

        Args:
            event: The record.
            event_timestamp: Its timestamp in milliseconds since the epoch.
            output: Takes a watermark.
        """

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit a watermark if there is a new one; runs every ``pipeline.auto-watermark-interval``."""


class WatermarkGeneratorLike(Protocol):
    """The methods that :meth:`WatermarkStrategy.for_generator` needs, with or without the base WatermarkGenerator."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput, /) -> None:
        """See one record."""
        ...

    def on_periodic_emit(self, output: WatermarkOutput, /) -> None:
        """Emit a watermark if there is a new one."""
        ...


class WatermarkGeneratorContext(Protocol):
    """The context of a generator's supplier."""

    @property
    def subtask_index(self) -> int:
        """The subtask, counted from 0."""
        ...


class WatermarkKind(Enum):
    """How a strategy makes its watermarks."""

    NONE = "none"
    """Never, until the end of the input."""
    BOUNDED = "bounded"
    """Greatest timestamp so far, less the bound, less 1 ms."""
    GENERATOR = "generator"
    """By the user's generator."""


@dataclass(frozen=True, slots=True)
class WatermarkAlignment:
    """Keep a source from running ahead of the others in its group.

    Args:
        group: The name of the group.
        max_drift_ms: How far the source's watermark may be ahead of the group's smallest one.
        update_interval_ms: How often the group's smallest watermark is made known.
    """

    group: str
    max_drift_ms: int
    update_interval_ms: int


@dataclass(slots=True)
class WatermarkStrategy:
    """How a stream gets its timestamps and watermarks.

    Made by the static methods, refined by the ``with_`` methods. As in PyFlink, ``with_timestamp_assigner`` changes
    this strategy and returns it, while the others return a new one; unlike PyFlink, the new one keeps the assigner.

    Source: org.apache.flink.api.common.eventtime.WatermarkStrategy.

    Args:
        kind: How watermarks are made.
        bound_ms: For BOUNDED: how far a record may be behind the newest one.
        generator_supplier: For GENERATOR: makes one generator for each subtask.
        timestamp_assigner: Gives records their timestamps; None keeps existing ones.
        idleness_ms: After that time without a record an input no longer holds back the others; None: never.
        alignment: The group to stay together with; None: none.

    Example:
        >>> from penstock.common.time import Duration
        >>> strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
        >>> strategy.with_idleness(Duration.of_minutes(1)).idleness_ms
        60000
    """

    kind: WatermarkKind
    bound_ms: int = 0
    generator_supplier: Callable[[WatermarkGeneratorContext], WatermarkGeneratorLike] | None = None
    timestamp_assigner: TimestampAssigner | None = None
    idleness_ms: int | None = None
    alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Make a strategy for timestamps that never go back within one input."""
        return WatermarkStrategy(WatermarkKind.BOUNDED)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Make a strategy for records that are out of order by at most a given time.

        Raises:
            TypeError: The bound is no Duration.
            ValueError: It is negative.
        """
        bound_ms = millis_of("max_out_of_orderness", max_out_of_orderness)
        if bound_ms < 0:
            msg = f"max_out_of_orderness cannot be negative: {max_out_of_orderness}."
            raise ValueError(msg)
        return WatermarkStrategy(WatermarkKind.BOUNDED, bound_ms)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Make a strategy without watermarks, for jobs in processing time."""
        return WatermarkStrategy(WatermarkKind.NONE)

    @staticmethod
    def for_generator(
        supplier: Callable[[WatermarkGeneratorContext], WatermarkGeneratorLike],
    ) -> WatermarkStrategy:
        """Make a strategy from the user's own generator; PyFlink has no such method, Java's Flink has.

        Args:
            supplier: Makes the generator of one subtask, or of one split; each has its own.
        """
        return WatermarkStrategy(WatermarkKind.GENERATOR, generator_supplier=supplier)

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner | str) -> WatermarkStrategy:
        """Set what gives records their timestamps, and return this strategy.

        Args:
            timestamp_assigner: A text is the name of a field with milliseconds or a datetime, in dicts and in Rows;
                batches of columns then get their timestamps from that column as they are. Ours.

        Raises:
            TypeError: It is neither a text nor an object with the method ``extract_timestamp``.
        """
        if isinstance(timestamp_assigner, str):
            timestamp_assigner = FieldTimestamp(timestamp_assigner)
        elif isinstance(timestamp_assigner, type) or not callable(
            getattr(timestamp_assigner, "extract_timestamp", None)
        ):
            msg = (
                "timestamp_assigner must be a TimestampAssigner or the name of a field, not "
                f"{timestamp_assigner!r}: give an object of a class with extract_timestamp(value, record_timestamp)."
            )
            raise TypeError(msg)
        self.timestamp_assigner = timestamp_assigner
        return self

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """Return this strategy with a time after which an input without records no longer holds back the others.

        Raises:
            TypeError: The time is no Duration.
            ValueError: It is not positive.
        """
        idleness_ms = millis_of("idle_timeout", idle_timeout)
        if idleness_ms <= 0:
            msg = f"idle_timeout must be at least 1 ms: {idle_timeout}."
            raise ValueError(msg)
        return replace(self, idleness_ms=idleness_ms)

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Duration,
        update_interval: Duration | None = None,
    ) -> WatermarkStrategy:
        """Return this strategy with a group of sources to stay together with; for ``from_source``.

        Args:
            watermark_group: The name of the group; all sources of a job that name it belong to it.
            max_allowed_watermark_drift: A source subtask, or a split of it, further ahead of the smallest watermark of
                the group than this pauses. Those that are idle, without splits or at their end do not count.
            update_interval: How often Flink makes the group's smallest watermark known; here each epoch does.

        Raises:
            TypeError: The drift is no Duration.
            ValueError: It is negative.

        Source: FLIP-182, FLIP-217.
        """
        interval_ms = _DEFAULT_ALIGNMENT_INTERVAL_MS if update_interval is None else update_interval.to_millis()
        drift_ms = millis_of("max_allowed_watermark_drift", max_allowed_watermark_drift)
        if drift_ms < 0:
            msg = f"max_allowed_watermark_drift cannot be negative: {max_allowed_watermark_drift}."
            raise ValueError(msg)
        return replace(self, alignment=WatermarkAlignment(watermark_group, drift_ms, interval_ms))


explain(__name__)
