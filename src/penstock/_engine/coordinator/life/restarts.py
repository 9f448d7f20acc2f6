"""Restart strategies: whether a failed job starts again, and after how long.

Source: Flink's ``RestartBackoffTimeStrategy`` and its four implementations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock._engine.coordinator.settings import RestartStrategySettings


class RestartStrategy(ABC):
    """Remembers a job's failures and answers each with a delay, or with None to give up."""

    @abstractmethod
    def on_failure(self, passed_ms: int, chance: float) -> int | None:
        """Note a failure.

        Args:
            passed_ms: When it was, by the monotonic clock, so that setting the time of day neither uses up nor renews
                attempts.
            chance: A random number from 0 up to 1, for a delay with jitter.

        Returns:
            Milliseconds until the restart; None when the job has to fail.
        """

    @property
    @abstractmethod
    def description(self) -> str:
        """The strategy's text in the message about its last restart."""


class NoRestart(RestartStrategy):
    """The first failure ends the job."""

    @property
    def description(self) -> str:
        """What the strategy is."""
        return "none"

    def on_failure(self, passed_ms: int, chance: float) -> int | None:
        """Give up."""
        del passed_ms, chance
        return None


class FixedDelay(RestartStrategy):
    """Allows a number of restarts in all, each after the same delay."""

    def __init__(self, attempts: int, delay_ms: int) -> None:
        self._attempts, self._delay_ms, self._failures = attempts, delay_ms, 0

    @property
    def description(self) -> str:
        """What the strategy is."""
        return f"fixed delay, {self._attempts} restarts"

    def on_failure(self, passed_ms: int, chance: float) -> int | None:
        """Restart until all attempts are used up."""
        del passed_ms, chance
        self._failures += 1
        return self._delay_ms if self._failures <= self._attempts else None


class FailureRate(RestartStrategy):
    """Allows a number of failures in a sliding interval."""

    def __init__(self, max_failures: int, interval_ms: int, delay_ms: int) -> None:
        self._max_failures, self._interval_ms, self._delay_ms = max_failures, interval_ms, delay_ms
        self._failures: deque[int] = deque()

    @property
    def description(self) -> str:
        """What the strategy is."""
        return f"failure rate, {self._max_failures} failures in {self._interval_ms} ms"

    def on_failure(self, passed_ms: int, chance: float) -> int | None:
        """Restart unless the interval up to now has too many failures."""
        del chance
        self._failures.append(passed_ms)
        while self._failures[0] <= passed_ms - self._interval_ms:
            self._failures.popleft()
        return self._delay_ms if len(self._failures) <= self._max_failures else None


class ExponentialDelay(RestartStrategy):
    """Waits longer before each restart, until the job has run without a failure for a while."""

    def __init__(self, settings: RestartStrategySettings) -> None:
        self._settings = settings
        self._backoff_ms = float(settings.initial_backoff_ms)
        self._attempts = 0
        #: The time of the last failure, and the delay after it.
        self._last_ms: int | None = None
        self._last_backoff_ms = 0.0

    @property
    def description(self) -> str:
        """What the strategy is."""
        return f"exponential delay, {self._settings.attempts_before_reset} restarts without a reset"

    def on_failure(self, passed_ms: int, chance: float) -> int | None:
        """Restart after the next backoff, with jitter, never longer than the longest."""
        settings = self._settings
        healthy_ms = settings.reset_threshold_ms + self._last_backoff_ms
        if self._last_ms is not None and passed_ms - self._last_ms >= healthy_ms:
            self._backoff_ms, self._attempts = float(settings.initial_backoff_ms), 0
        self._attempts += 1
        if self._attempts > settings.attempts_before_reset:
            return None
        jitter = (2 * chance - 1) * settings.jitter_factor * self._backoff_ms
        delay_ms = min(self._backoff_ms + jitter, settings.max_backoff_ms)
        self._last_ms, self._last_backoff_ms = passed_ms, self._backoff_ms
        self._backoff_ms = min(self._backoff_ms * settings.backoff_multiplier, settings.max_backoff_ms)
        return round(delay_ms)


def restart_strategy(settings: RestartStrategySettings) -> RestartStrategy:
    """Make the strategy of the settings."""
    match settings.strategy:
        case "fixed-delay":
            return FixedDelay(settings.fixed_attempts, settings.fixed_delay_ms)
        case "failure-rate":
            return FailureRate(settings.rate_max_failures, settings.rate_interval_ms, settings.rate_delay_ms)
        case "exponential-delay":
            return ExponentialDelay(settings)
        case _:
            return NoRestart()
