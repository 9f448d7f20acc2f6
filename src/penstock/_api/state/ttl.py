"""StateTtlConfig: when state expires by itself."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from penstock._shelf import show
from penstock.common.time import Duration, millis_of_time

if TYPE_CHECKING:
    from penstock.common.time import Time


class StateTtlConfig:
    """When a value of state expires: a time after it was last written, or also after it was last read.

    Lists and maps expire by their entries. Expired values are removed when they are read; in addition, each epoch looks
    through a part of the state, and a snapshot through all of it. The cleanup strategies are accepted for Flink's
    programs and have no effect.

    Args:
        update_type: What renews a value.
        state_visibility: Whether a value past its time may still be read.
        ttl_time_characteristic: Which clock counts.
        ttl: How long a value lasts.
        cleanup_strategies: How values past their time are to be removed.

    Raises:
        ValueError: ttl is not positive.

    Source: org.apache.flink.api.common.state.StateTtlConfig.

    Example:
        >>> from penstock.common.time import Time
        >>> config = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build()
        >>> config.get_ttl().to_milliseconds(), config.get_update_type()
        (3600000, <UpdateType.OnReadAndWrite: 2>)
    """

    class UpdateType(Enum):
        """The accesses that renew a value."""

        Disabled = 0
        """Nothing expires."""
        OnCreateAndWrite = 1
        """Writing."""
        OnReadAndWrite = 2
        """Reading and writing."""

    class StateVisibility(Enum):
        """Whether a value past its time may still be read."""

        ReturnExpiredIfNotCleanedUp = 0
        """As long as it has not been removed."""
        NeverReturnExpired = 1
        """No."""

    class TtlTimeCharacteristic(Enum):
        """Which clock counts."""

        ProcessingTime = 0
        """The clock of the machine."""

    def __init__(
        self,
        update_type: StateTtlConfig.UpdateType,
        state_visibility: StateTtlConfig.StateVisibility,
        ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic,
        ttl: Time,
        cleanup_strategies: StateTtlConfig.CleanupStrategies,
    ) -> None:
        if millis_of_time("ttl", ttl) <= 0:
            msg = f"ttl must be longer than nothing, not {ttl!r}."
            raise ValueError(msg)
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = ttl
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Time) -> StateTtlConfig.Builder:
        """Start a configuration: writing renews, nothing past its time is read.

        Args:
            ttl: How long a value lasts.
        """
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> StateTtlConfig.UpdateType:
        """Return what renews a value."""
        return self._update_type

    def get_state_visibility(self) -> StateTtlConfig.StateVisibility:
        """Return whether a value past its time may still be read."""
        return self._state_visibility

    def get_ttl(self) -> Time:
        """Return how long a value lasts."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> StateTtlConfig.TtlTimeCharacteristic:
        """Return which clock counts."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Tell whether anything expires."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> StateTtlConfig.CleanupStrategies:
        """Return how values past their time are to be removed."""
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig<update_type={self._update_type}, state_visibility={self._state_visibility}, "
            f"ttl_time_characteristic={self._ttl_time_characteristic}, ttl={self._ttl}>"
        )

    class Builder:
        """A configuration that is being made."""

        def __init__(self, ttl: Time) -> None:
            self._ttl = ttl
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._state_visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._in_background = True
            self._strategies: dict[
                StateTtlConfig.CleanupStrategies.Strategies, StateTtlConfig.CleanupStrategies.CleanupStrategy
            ] = {}

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfig.Builder:
            """Set what renews a value."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Let writing renew a value."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Let reading and writing renew a value."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> StateTtlConfig.Builder:
            """Set whether a value past its time may still be read."""
            self._state_visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Let a value past its time be read until it is removed."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Let no value past its time be read."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            """Set which clock counts."""
            self._ttl_time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Let the clock of the machine count."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def set_ttl(self, ttl: Time) -> StateTtlConfig.Builder:
            """Set how long a value lasts."""
            self._ttl = ttl
            return self

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Ask for removal when a snapshot is taken."""
            cleanup = StateTtlConfig.CleanupStrategies
            self._strategies[cleanup.Strategies.FULL_STATE_SCAN_SNAPSHOT] = cleanup.EmptyCleanupStrategy()
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> StateTtlConfig.Builder:
            """Ask for removal bit by bit.

            Args:
                cleanup_size: Keys that are checked at a time.
                run_cleanup_for_every_record: Whether every record checks, or only use of the state.
            """
            cleanup = StateTtlConfig.CleanupStrategies
            strategy = cleanup.IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record)
            self._strategies[cleanup.Strategies.INCREMENTAL_CLEANUP] = strategy
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
        ) -> StateTtlConfig.Builder:
            """Ask for removal as the store is compacted.

            Args:
                query_time_after_num_entries: Entries between two looks at the clock.
                periodic_compaction_time: Longest time between two compactions; 30 days when left out.
            """
            cleanup = StateTtlConfig.CleanupStrategies
            strategy = cleanup.RocksdbCompactFilterCleanupStrategy(
                query_time_after_num_entries, periodic_compaction_time
            )
            self._strategies[cleanup.Strategies.ROCKSDB_COMPACTION_FILTER] = strategy
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Ask for removal only where a strategy was chosen."""
            self._in_background = False
            return self

        def build(self) -> StateTtlConfig:
            """Return the configuration."""
            return StateTtlConfig(
                self._update_type,
                self._state_visibility,
                self._ttl_time_characteristic,
                self._ttl,
                StateTtlConfig.CleanupStrategies(dict(self._strategies), self._in_background),
            )

    class CleanupStrategies:
        """How values past their time are to be removed; accepted, the engine has ways of its own.

        Args:
            strategies: The strategies that were chosen.
            is_cleanup_in_background: Whether expired values are removed in the background.
        """

        class Strategies(Enum):
            """The ways of removal."""

            FULL_STATE_SCAN_SNAPSHOT = 0
            INCREMENTAL_CLEANUP = 1
            ROCKSDB_COMPACTION_FILTER = 2

        class CleanupStrategy:
            """A way of removal with its settings."""

        class EmptyCleanupStrategy(CleanupStrategy):
            """A way of removal without settings."""

        class IncrementalCleanupStrategy(CleanupStrategy):
            """Removal bit by bit.

            Args:
                cleanup_size: Keys that are checked at a time.
                run_cleanup_for_every_record: Whether every record checks, or only use of the state.
            """

            def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
                self._cleanup_size = cleanup_size
                self._every_record = run_cleanup_for_every_record

            def get_cleanup_size(self) -> int:
                """Return the number of keys that are checked at a time."""
                return self._cleanup_size

            def run_cleanup_for_every_record(self) -> bool:
                """Tell whether every record checks."""
                return self._every_record

        class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
            """Removal as the store is compacted.

            Args:
                query_time_after_num_entries: Entries between two looks at the clock.
                periodic_compaction_time: Longest time between two compactions; 30 days when left out.
            """

            def __init__(
                self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
            ) -> None:
                self._query_time_after_num_entries = query_time_after_num_entries
                self._periodic_compaction_time = periodic_compaction_time or Duration.of_days(30)

            def get_query_time_after_num_entries(self) -> int:
                """Return the number of entries between two looks at the clock."""
                return self._query_time_after_num_entries

            def get_periodic_compaction_time(self) -> Duration:
                """Return the longest time between two compactions."""
                return self._periodic_compaction_time

        def __init__(
            self,
            strategies: dict[
                StateTtlConfig.CleanupStrategies.Strategies, StateTtlConfig.CleanupStrategies.CleanupStrategy
            ],
            is_cleanup_in_background: bool,
        ) -> None:
            self._strategies = strategies
            self._is_cleanup_in_background = is_cleanup_in_background

        def is_cleanup_in_background(self) -> bool:
            """Tell whether expired values are removed in the background."""
            return self._is_cleanup_in_background

        def in_full_snapshot(self) -> bool:
            """Tell whether removal was asked for when a snapshot is taken."""
            return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

        def get_incremental_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy | None:
            """Return the settings of removal bit by bit; None when it was not asked for and background is off."""
            chosen = self._strategies.get(self.Strategies.INCREMENTAL_CLEANUP)
            if isinstance(chosen, self.IncrementalCleanupStrategy):
                return chosen
            return self.IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None

        def get_rocksdb_compact_filter_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy | None:
            """Return the settings of removal in compactions; None when it was not asked for and background is off."""
            chosen = self._strategies.get(self.Strategies.ROCKSDB_COMPACTION_FILTER)
            if isinstance(chosen, self.RocksdbCompactFilterCleanupStrategy):
                return chosen
            return self.RocksdbCompactFilterCleanupStrategy(1000) if self._is_cleanup_in_background else None


show("penstock.datastream.state", StateTtlConfig)
