"""CheckpointConfig: named methods for the settings of checkpoints (``pyflink.datastream.checkpoint_config``).

It is a view: every getter and setter reads and writes a key of one :class:`Configuration`, which the environment owns.
:mod:`penstock.common.option_table` explains the keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.checkpoint_storage import CheckpointStorage, FileSystemCheckpointStorage
from penstock._api.checkpointing_mode import CheckpointingMode
from penstock._api.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from penstock._shelf import show
from penstock.common import option_table
from penstock.common.arguments import instance, whole_number
from penstock.common.config_check import say_if_without_effect
from penstock.common.configuration import Configuration
from penstock.common.time import Duration

if TYPE_CHECKING:
    from penstock.common.config_options import ConfigOption

__all__ = ["CheckpointConfig"]

_OFF = -1
_ANY_NUMBER = 2**31 - 1


class CheckpointConfig:
    """The settings of a job's checkpoints.

    The setters return this object, so that calls chain, and raise :class:`penstock.errors.ConfigurationError`, which
    names the key, for a value that is not allowed.

    Args:
        configuration: Where the settings are kept; a new configuration when left out.

    Source: org.apache.flink.streaming.api.environment.CheckpointConfig.

    Example:
        >>> from penstock.common.configuration import Configuration
        >>> configuration = Configuration()
        >>> _ = CheckpointConfig(configuration).set_checkpoint_interval(5000).set_min_pause_between_checkpoints(500)
        >>> print(configuration)
        {execution.checkpointing.interval=5 s, execution.checkpointing.min-pause=500 ms}
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def is_checkpointing_enabled(self) -> bool:
        """Tell whether an interval is set."""
        return self.get_checkpoint_interval() != _OFF

    def get_checkpoint_interval(self) -> int:
        """Return the time between checkpoints in milliseconds; -1 when none is set."""
        interval = self._configuration.get(option_table.CHECKPOINTING_INTERVAL)
        return _OFF if interval is None else interval.to_millis()

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Set the time between checkpoints in milliseconds, at least 10."""
        interval_ms = whole_number("checkpoint_interval in milliseconds", checkpoint_interval)
        return self._set(option_table.CHECKPOINTING_INTERVAL, Duration.of_millis(interval_ms))

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the mode that was set; every checkpoint is exactly once."""
        return CheckpointingMode[self._configuration.get(option_table.CHECKPOINTING_MODE)]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set the mode; every checkpoint stays exactly once."""
        return self._set(option_table.CHECKPOINTING_MODE, checkpointing_mode.name)

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Return the mode that was set; every checkpoint is exactly once."""
        return self.get_checkpointing_mode()

    def set_checkpointing_consistency_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set the mode; every checkpoint stays exactly once."""
        return self.set_checkpointing_mode(checkpointing_mode)

    def get_checkpoint_timeout(self) -> int:
        """Return the time without progress after which a checkpoint expires, in milliseconds."""
        return self._configuration.get(option_table.CHECKPOINTING_TIMEOUT).to_millis()

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Set the time without progress after which a checkpoint expires, in milliseconds, at least 10."""
        return self._set(option_table.CHECKPOINTING_TIMEOUT, Duration.of_millis(checkpoint_timeout))

    def get_min_pause_between_checkpoints(self) -> int:
        """Return the least time from the end of a checkpoint to the start of the next, in milliseconds."""
        return self._configuration.get(option_table.CHECKPOINTING_MIN_PAUSE).to_millis()

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Set the least time from the end of a checkpoint to the start of the next, in milliseconds."""
        return self._set(option_table.CHECKPOINTING_MIN_PAUSE, Duration.of_millis(min_pause_between_checkpoints))

    def get_max_concurrent_checkpoints(self) -> int:
        """Return the number that was set; checkpoints run one at a time."""
        return self._configuration.get(option_table.CHECKPOINTING_MAX_CONCURRENT)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set how many checkpoints may run at the same time; without effect."""
        return self._set(option_table.CHECKPOINTING_MAX_CONCURRENT, max_concurrent_checkpoints)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Tell whether the first failed checkpoint fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Set whether the first failed checkpoint fails the job, or none does."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else _ANY_NUMBER)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return how many checkpoints in a row may fail without failing the job."""
        return self._configuration.get(option_table.CHECKPOINTING_TOLERABLE_FAILURES)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Set how many checkpoints in a row may fail without failing the job."""
        return self._set(option_table.CHECKPOINTING_TOLERABLE_FAILURES, tolerable_checkpoint_failure_number)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Tell whether checkpoints are kept when the job fails."""
        retention = self.get_externalized_checkpoint_retention()
        return retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return which checkpoints stay after the job's end."""
        return ExternalizedCheckpointRetention[self._configuration.get(option_table.CHECKPOINT_RETENTION)]

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set which checkpoints stay after the job's end."""
        return self._set(option_table.CHECKPOINT_RETENTION, retention_mode.name)

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Set where checkpoints are kept.

        Raises:
            ConfigurationError: Its path or URL is invalid.
        """
        for key, value in storage.to_configuration().to_dict().items():
            self._configuration.set_string(key, value)
        return self

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Return where checkpoints are kept; None when that was not set."""
        path = self._configuration.get(option_table.CHECKPOINT_DIRECTORY)
        threshold = self._configuration.get(option_table.CHECKPOINT_INLINE_THRESHOLD)
        return None if path is None else FileSystemCheckpointStorage(path, threshold)

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Set the path or URL where checkpoints are kept."""
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(checkpoint_path))

    # These are accepted so that PyFlink programs run: there are no barriers that records could delay.

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return what was asked for."""
        return self._configuration.get(option_table.UNALIGNED_CHECKPOINTS)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let checkpoints overtake records; without effect."""
        return self._set(option_table.UNALIGNED_CHECKPOINTS, enabled)

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Let checkpoints not overtake records; without effect."""
        return self.enable_unaligned_checkpoints(False)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """Return the time after which checkpoints overtake records."""
        return self._configuration.get(option_table.ALIGNED_CHECKPOINT_TIMEOUT)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Set the time after which checkpoints overtake records; without effect.

        Raises:
            TypeError: It is no Duration.
        """
        duration = instance("alignment_timeout", alignment_timeout, Duration)
        return self._set(option_table.ALIGNED_CHECKPOINT_TIMEOUT, duration)

    def get_alignment_timeout(self) -> Duration:
        """Return the time after which checkpoints overtake records."""
        return self.get_aligned_checkpoint_timeout()

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Set the time after which checkpoints overtake records; without effect."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return what was asked for."""
        return self._configuration.get(option_table.FORCE_UNALIGNED_CHECKPOINTS)

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Let checkpoints overtake records in loops too; without effect."""
        return self._set(option_table.FORCE_UNALIGNED_CHECKPOINTS, force_unaligned_checkpoints)

    def _set(self, option: ConfigOption[Any], value: object) -> CheckpointConfig:
        self._configuration.set(option, value)
        say_if_without_effect(option, self._configuration.get(option))
        return self


show("penstock.datastream.checkpoint_config", CheckpointConfig)
