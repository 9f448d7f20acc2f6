"""Restart strategies as objects (``pyflink.common.restart_strategy``).

PyFlink 2 kept these classes, though its environments take only the keys ``restart-strategy.*``. Here each strategy also
knows its keys: ``environment.configure(strategy.to_configuration())``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta

from penstock.common import restart_options
from penstock.common.configuration import Configuration
from penstock.common.time import Duration

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]


class RestartStrategyConfiguration(ABC):
    """When a failed job starts again; compares by value."""

    @abstractmethod
    def get_description(self) -> str:
        """Return one line for people."""

    @abstractmethod
    def to_configuration(self) -> Configuration:
        """Return the strategy as keys of the configuration."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RestartStrategyConfiguration) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def _parts(self) -> tuple[str, ...]:
        return (type(self).__name__, self.get_description())


class RestartStrategies:
    """Where restart strategies are made.

    Source: org.apache.flink.api.common.restartstrategy.RestartStrategies.

    Example:
        >>> strategy = RestartStrategies.fixed_delay_restart(3, 10_000)
        >>> strategy.get_description()
        'Restart with fixed delay (10 s), 3 attempts.'
        >>> print(strategy.to_configuration().get_string("restart-strategy.fixed-delay.delay", ""))
        10 s
    """

    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A failed job stays failed."""

        def get_description(self) -> str:
            """Return one line for people."""
            return "Restart deactivated."

        def to_configuration(self) -> Configuration:
            """Return the strategy as keys of the configuration."""
            return Configuration().set(restart_options.RESTART_STRATEGY, "none")

    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The strategy of the configuration."""

        def get_description(self) -> str:
            """Return one line for people."""
            return "Cluster level default restart strategy."

        def to_configuration(self) -> Configuration:
            """Return no keys, so that configured ones stay."""
            return Configuration()

    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A failed job starts again after a fixed time, up to a number of times in all.

        Args:
            restart_attempts: How many times.
            delay_between_attempts_interval: The time before each, a ``timedelta`` or milliseconds.
        """

        def __init__(self, restart_attempts: int, delay_between_attempts_interval: timedelta | int) -> None:
            self._attempts = restart_attempts
            self._delay = _duration("delay_between_attempts_interval", delay_between_attempts_interval)

        def get_restart_attempts(self) -> int:
            """Return how many times the job starts again."""
            return self._attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the time before each restart."""
            return self._delay.to_timedelta()

        def get_description(self) -> str:
            """Return one line for people."""
            return f"Restart with fixed delay ({self._delay}), {self._attempts} attempts."

        def to_configuration(self) -> Configuration:
            """Return the strategy as keys of the configuration."""
            return (
                Configuration()
                .set(restart_options.RESTART_STRATEGY, "fixed-delay")
                .set(restart_options.FIXED_DELAY_ATTEMPTS, self._attempts)
                .set(restart_options.FIXED_DELAY_DELAY, self._delay)
            )

    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A failed job starts again unless it fails too often.

        Args:
            max_failure_rate: How many failures one interval may have.
            failure_interval: The length of the interval, a ``timedelta`` or milliseconds.
            delay_between_attempts_interval: The time before each restart, likewise.
        """

        def __init__(
            self,
            max_failure_rate: int,
            failure_interval: timedelta | int,
            delay_between_attempts_interval: timedelta | int,
        ) -> None:
            self._max_failures = max_failure_rate
            self._interval = _duration("failure_interval", failure_interval)
            self._delay = _duration("delay_between_attempts_interval", delay_between_attempts_interval)

        def get_max_failure_rate(self) -> int:
            """Return how many failures one interval may have."""
            return self._max_failures

        def get_failure_interval(self) -> timedelta:
            """Return the length of the interval."""
            return self._interval.to_timedelta()

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the time before each restart."""
            return self._delay.to_timedelta()

        def get_description(self) -> str:
            """Return one line for people."""
            return (
                f"Restart with fixed delay ({self._delay}), at most {self._max_failures} failures in {self._interval}."
            )

        def to_configuration(self) -> Configuration:
            """Return the strategy as keys of the configuration."""
            return (
                Configuration()
                .set(restart_options.RESTART_STRATEGY, "failure-rate")
                .set(restart_options.FAILURE_RATE_MAX_FAILURES, self._max_failures)
                .set(restart_options.FAILURE_RATE_INTERVAL, self._interval)
                .set(restart_options.FAILURE_RATE_DELAY, self._delay)
            )

    @staticmethod
    def no_restart() -> RestartStrategies.NoRestartStrategyConfiguration:
        """Let a failed job stay failed."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategies.FallbackRestartStrategyConfiguration:
        """Do what the configuration says."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: timedelta | int
    ) -> RestartStrategies.FixedDelayRestartStrategyConfiguration:
        """Start a failed job again after a fixed time.

        Args:
            restart_attempts: How many times in all.
            delay_between_attempts: The time before each, a ``timedelta`` or milliseconds.
        """
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(restart_attempts, delay_between_attempts)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: timedelta | int, delay_interval: timedelta | int
    ) -> RestartStrategies.FailureRateRestartStrategyConfiguration:
        """Start a failed job again unless it fails too often.

        Args:
            failure_rate: How many failures one interval may have.
            failure_interval: The length of the interval, a ``timedelta`` or milliseconds.
            delay_interval: The time before each restart, likewise.
        """
        return RestartStrategies.FailureRateRestartStrategyConfiguration(failure_rate, failure_interval, delay_interval)


def _duration(name: str, value: object) -> Duration:
    if isinstance(value, timedelta):
        return Duration.of_nanos(value // timedelta(microseconds=1) * 1000)
    if isinstance(value, int):
        return Duration.of_millis(value)
    msg = f"{name} is a timedelta or an int of milliseconds, not {value!r}."
    raise TypeError(msg)
