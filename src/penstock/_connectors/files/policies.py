"""The file sink's policies: the folder of a record, the end of a file, and the names of files."""

from __future__ import annotations

import zoneinfo
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from penstock._connectors.files.java_dates import compile_pattern
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo


class BucketAssigner(ABC):
    """Chooses the folder of a record, below the sink's path.

    Source: org.apache.flink.streaming.api.functions.sink.filesystem.BucketAssigner.

    Example:
        >>> class ByCountry(BucketAssigner):
        ...     def get_bucket_id(self, element, timestamp, processing_time_ms):
        ...         return f"country={element['country']}"
        >>> ByCountry().get_bucket_ids([{"country": "SE"}], None, 0)
        ['country=SE']

    Attributes:
        looks_at_elements: False where the folder is the same for all records of a block: then batches of columns are
            written without their records, of which none is given to ``get_bucket_ids``. Ours.
    """

    looks_at_elements: ClassVar[bool] = True

    @abstractmethod
    def get_bucket_id(self, element: Any, timestamp: int | None, processing_time_ms: int) -> str:
        """Return the folder of a record; empty for the sink's own path.

        Args:
            element: The record.
            timestamp: Its timestamp in milliseconds since the epoch; None without one.
            processing_time_ms: The current time in milliseconds since the epoch.
        """

    def get_bucket_ids(
        self, elements: list[Any], timestamps: Sequence[int | None] | None, processing_time_ms: int
    ) -> str | list[str]:
        """Return the folder of each record of a block, or the single folder of all."""
        times = timestamps or [None] * len(elements)
        return [
            self.get_bucket_id(element, time, processing_time_ms) for element, time in zip(elements, times, strict=True)
        ]

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Put all records into the sink's own path."""
        return _BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """Put records into a folder named after the time at which they are written.

        Args:
            format_str: Java's pattern for the name.
            timezone_id: Such as ``Europe/Stockholm``; the machine's own time zone by default.

        Raises:
            ValueError: The pattern or the time zone is unknown.
        """
        return _DateTimeBucketAssigner(format_str, timezone_id)


class _BasePathBucketAssigner(BucketAssigner):
    looks_at_elements = False

    def get_bucket_id(self, element: Any, timestamp: int | None, processing_time_ms: int) -> str:
        del element, timestamp, processing_time_ms
        return ""

    def get_bucket_ids(
        self, elements: list[Any], timestamps: Sequence[int | None] | None, processing_time_ms: int
    ) -> str:
        del elements, timestamps, processing_time_ms
        return ""


class _DateTimeBucketAssigner(BucketAssigner):
    looks_at_elements = False

    def __init__(self, format_str: str, timezone_id: str | None) -> None:
        compile_pattern(format_str)
        _time_zone(timezone_id)
        self._pattern, self._timezone_id = format_str, timezone_id

    def get_bucket_id(self, element: Any, timestamp: int | None, processing_time_ms: int) -> str:
        del element, timestamp
        moment = datetime.fromtimestamp(processing_time_ms / 1000, UTC).astimezone(_time_zone(self._timezone_id))
        return compile_pattern(self._pattern)(moment)

    def get_bucket_ids(
        self, elements: list[Any], timestamps: Sequence[int | None] | None, processing_time_ms: int
    ) -> str:
        del timestamps
        return self.get_bucket_id(elements, None, processing_time_ms)


def _time_zone(timezone_id: str | None) -> tzinfo | None:
    if timezone_id is None:
        return None
    try:
        return zoneinfo.ZoneInfo(timezone_id)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        msg = f"There is no time zone {timezone_id!r}; names are those of the tz database, such as Europe/Stockholm."
        raise ValueError(msg) from None


@dataclass(frozen=True, slots=True)
class PartFileInfo:
    """The properties of an open file for a rolling policy.

    Source: org.apache.flink.streaming.api.functions.sink.filesystem.PartFileInfo.

    Args:
        bucket_id: The folder.
        size: Its length so far in bytes.
        creation_time_ms: The time of its first record, in milliseconds since the epoch.
        last_update_time_ms: The time of its last record, in milliseconds since the epoch.
    """

    bucket_id: str
    size: int
    creation_time_ms: int
    last_update_time_ms: int


class RollingPolicy(ABC):
    """Decides when a file is complete, so that the next record begins another.

    Source: org.apache.flink.streaming.api.functions.sink.filesystem.RollingPolicy.
    """

    @abstractmethod
    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        """Tell whether a file ends with this checkpoint."""

    @abstractmethod
    def should_roll_on_event(self, part: PartFileInfo, element: Any) -> bool:
        """Tell whether a file ends before this record; called before each block of at most a thousand records."""

    @abstractmethod
    def should_roll_on_processing_time(self, part: PartFileInfo, current_time_ms: int) -> bool:
        """Tell whether a file ends because of its age; called at each checkpoint and bucket check."""

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128, rollover_interval: int = 60 * 1000, inactivity_interval: int = 60 * 1000
    ) -> DefaultRollingPolicy:
        """Roll by size and age.

        Args:
            part_size: The length in bytes at which a file is complete.
            rollover_interval: Milliseconds after which a file is complete.
            inactivity_interval: Milliseconds without a record after which a file is complete.

        Raises:
            ValueError: One of them is not positive.
        """
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Roll at every checkpoint."""
        return OnCheckpointRollingPolicy()


class DefaultRollingPolicy(RollingPolicy):
    """Rolls by size and age; use ``RollingPolicy.default_rolling_policy`` to create one.

    Source: org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.DefaultRollingPolicy.
    """

    def __init__(self, part_size: int, rollover_interval: int, inactivity_interval: int) -> None:
        if min(part_size, rollover_interval, inactivity_interval) <= 0:
            msg = (
                "part_size, rollover_interval and inactivity_interval must be greater than 0, not "
                f"{part_size}, {rollover_interval}, {inactivity_interval}."
            )
            raise ValueError(msg)
        self._part_size = part_size
        self._rollover_interval, self._inactivity_interval = rollover_interval, inactivity_interval

    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        """Tell whether the file is large enough."""
        return part.size > self._part_size

    def should_roll_on_event(self, part: PartFileInfo, element: Any) -> bool:
        """Tell whether the file is large enough."""
        del element
        return part.size > self._part_size

    def should_roll_on_processing_time(self, part: PartFileInfo, current_time_ms: int) -> bool:
        """Tell whether the file is old enough, or has had no record for long enough."""
        return (
            current_time_ms - part.creation_time_ms >= self._rollover_interval
            or current_time_ms - part.last_update_time_ms >= self._inactivity_interval
        )


class OnCheckpointRollingPolicy(RollingPolicy):
    """Rolls at every checkpoint; bulk formats need this policy or a subclass, which may also roll in between.

    Source: org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy.
    """

    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        """Return True."""
        del part
        return True

    def should_roll_on_event(self, part: PartFileInfo, element: Any) -> bool:
        """Return False."""
        del part, element
        return False

    def should_roll_on_processing_time(self, part: PartFileInfo, current_time_ms: int) -> bool:
        """Return False."""
        del part, current_time_ms
        return False


#: The longest prefix and suffix together in bytes; the sink's additions bring a name to at most 255.
_LONGEST_ADDITION = 150


def _flaw_of_names(prefix: str, suffix: str) -> str | None:
    if any(sign in "/\0" or sign < " " for sign in prefix + suffix):
        return "a name has no slash and no control character; folders come from the bucket assigner"
    if prefix.startswith((".", "_")):
        return "readers of a folder pass over names that begin with '.' or '_'"
    try:
        length = len((prefix + suffix).encode())
    except UnicodeEncodeError:
        return "it has a half of a surrogate pair, which UTF-8 does not have"
    return None if length <= _LONGEST_ADDITION else f"prefix and suffix may have {_LONGEST_ADDITION} bytes together"


@dataclass(frozen=True, slots=True)
class OutputFileConfig:
    """The names of files: a prefix, a unique middle part, a suffix.

    Source: org.apache.flink.streaming.api.functions.sink.filesystem.OutputFileConfig.

    Args:
        part_prefix: The beginning of names.
        part_suffix: The end of names, such as ``.txt``.

    Raises:
        ValueError: The names would be invalid, or readers would skip them.

    Example:
        >>> OutputFileConfig.builder().with_part_prefix("out").with_part_suffix(".csv").build()
        OutputFileConfig(part_prefix='out', part_suffix='.csv')
    """

    part_prefix: str = "part"
    part_suffix: str = ""

    def __post_init__(self) -> None:
        flaw = _flaw_of_names(self.part_prefix, self.part_suffix)
        if flaw is not None:
            msg = f"Files cannot be called {self.part_prefix!r}…{self.part_suffix!r}: {flaw}."
            raise ValueError(msg)

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Begin with the prefix ``part`` and no suffix."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return the prefix of names."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """Return the suffix of names."""
        return self.part_suffix

    class OutputFileConfigBuilder:
        """Builds an OutputFileConfig."""

        def __init__(self) -> None:
            self._prefix, self._suffix = "part", ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the prefix of names."""
            self._prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the suffix of names."""
            self._suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """Return the configuration."""
            return OutputFileConfig(self._prefix, self._suffix)


show(
    "penstock.datastream.connectors.file_system",
    BucketAssigner,
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    PartFileInfo,
    RollingPolicy,
)
