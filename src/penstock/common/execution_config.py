"""ExecutionConfig: the settings of a job's execution (``pyflink.common.execution_config``).

It is a view: every getter and setter reads and writes a key of one :class:`Configuration`, which the environment owns.
Settings of Java's serialisation (Kryo, POJOs, generic types, closure cleaner) are absent: records are Python objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._absent import explain
from penstock.common import option_table
from penstock.common.config_check import say_if_without_effect
from penstock.common.configuration import Configuration
from penstock.common.time import Duration
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.common.config_options import ConfigOption

__all__ = ["ExecutionConfig"]


class ExecutionConfig:
    """The settings of a job's execution.

    The setters return this object, so that calls chain, and raise :class:`penstock.errors.ConfigurationError`, which
    names the key, for a value that cannot be.

    Args:
        configuration: Where the settings are kept; a new configuration when left out.

    Source: ``pyflink.common.ExecutionConfig``.

    Example:
        >>> configuration = Configuration()
        >>> _ = ExecutionConfig(configuration).set_auto_watermark_interval(50)
        >>> print(configuration)
        {pipeline.auto-watermark-interval=50 ms}
    """

    PARALLELISM_DEFAULT = -1
    """As an argument: remove the setting."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def get_parallelism(self) -> int:
        """Return the default number of subtasks of an operator."""
        return self._configuration.get(option_table.PARALLELISM)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the default number of subtasks of an operator; -1 unsets it."""
        if parallelism == self.PARALLELISM_DEFAULT:
            self._configuration.remove_config(option_table.PARALLELISM.key)
            return self
        return self._set(option_table.PARALLELISM, parallelism)

    def get_max_parallelism(self) -> int:
        """Return the number of key groups; -1 when it is derived from the parallelism."""
        return self._configuration.get(option_table.MAX_PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups; -1 derives it from the parallelism."""
        return self._set(option_table.MAX_PARALLELISM, max_parallelism)

    def get_auto_watermark_interval(self) -> int:
        """Return the time between periodic watermarks, in milliseconds."""
        return self._get_ms(option_table.AUTO_WATERMARK_INTERVAL)

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Set the time between periodic watermarks, in milliseconds; 0 emits none."""
        return self._set(option_table.AUTO_WATERMARK_INTERVAL, Duration.of_millis(interval))

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return the parameters that functions read with ``get_job_parameter``."""
        return dict(self._configuration.get(option_table.GLOBAL_JOB_PARAMETERS))

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, Any]) -> ExecutionConfig:
        """Set the parameters that functions read with ``get_job_parameter``; values become text."""
        texts = {str(key): str(value) for key, value in global_job_parameters_dict.items()}
        return self._set(option_table.GLOBAL_JOB_PARAMETERS, texts)

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Give operators without a uid one of their own."""
        return self._set(option_table.AUTO_GENERATE_UIDS, True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Make an operator without a uid an error, so that every state can be found again."""
        return self._set(option_table.AUTO_GENERATE_UIDS, False)

    def has_auto_generated_uids_enabled(self) -> bool:
        """Tell whether operators without a uid get one."""
        return self._configuration.get(option_table.AUTO_GENERATE_UIDS)

    # These are accepted so that PyFlink programs run; the option table says why they have no effect.

    def get_latency_tracking_interval(self) -> int:
        """Return the time between latency markers, in milliseconds."""
        return self._get_ms(option_table.LATENCY_INTERVAL)

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Set the time between latency markers, in milliseconds; without effect."""
        return self._set(option_table.LATENCY_INTERVAL, Duration.of_millis(interval))

    def get_task_cancellation_interval(self) -> int:
        """Return the time between two attempts to interrupt a task, in milliseconds."""
        return self._get_ms(option_table.TASK_CANCELLATION_INTERVAL)

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        """Set the time between two attempts to interrupt a task, in milliseconds; without effect."""
        return self._set(option_table.TASK_CANCELLATION_INTERVAL, Duration.of_millis(interval))

    def get_task_cancellation_timeout(self) -> int:
        """Return the time after which a task that does not end is fatal, in milliseconds."""
        return self._get_ms(option_table.TASK_CANCELLATION_TIMEOUT)

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Set the time after which a task that does not end is fatal, in milliseconds; without effect."""
        return self._set(option_table.TASK_CANCELLATION_TIMEOUT, Duration.of_millis(timeout))

    def is_use_snapshot_compression(self) -> bool:
        """Tell whether snapshots are compressed."""
        return self._configuration.get(option_table.SNAPSHOT_COMPRESSION)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Set whether snapshots are compressed; without effect."""
        return self._set(option_table.SNAPSHOT_COMPRESSION, use_snapshot_compression)

    def enable_object_reuse(self) -> ExecutionConfig:
        """Pass records on without a copy; docs/records.md has the restrictions for functions."""
        return self._set(option_table.OBJECT_REUSE, True)

    def disable_object_reuse(self) -> ExecutionConfig:
        """Pass mutable records on as copies, so that receivers own their records."""
        return self._set(option_table.OBJECT_REUSE, False)

    def is_object_reuse_enabled(self) -> bool:
        """Tell whether object reuse is enabled."""
        return self._configuration.get(option_table.OBJECT_REUSE)

    def enable_force_avro(self) -> ExecutionConfig:
        """Refuse: records are not serialised by Avro.

        Raises:
            UnsupportedOperationError: Always.
        """
        operation = "enable_force_avro()"
        raise UnsupportedOperationError(operation, "records are Python objects, which Avro's serializers cannot hold")

    def disable_force_avro(self) -> ExecutionConfig:
        """Do nothing: records are never serialised by Avro."""
        return self

    def is_force_avro_enabled(self) -> bool:
        """Tell that records are not serialised by Avro."""
        return False

    def _get_ms(self, option: ConfigOption[Duration]) -> int:
        return self._configuration.get(option).to_millis()

    def _set(self, option: ConfigOption[Any], value: object) -> ExecutionConfig:
        self._configuration.set(option, value)
        say_if_without_effect(option, self._configuration.get(option))
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)


explain(__name__)
