"""Retry strategies of an AsyncFunction: when its calls are tried again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OUT = TypeVar("OUT")


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Decides after which outcomes a call is tried again.

    Source: org.apache.flink.streaming.api.functions.async.AsyncRetryPredicate.
    """

    @abstractmethod
    def result_predicate(self) -> Callable[[Any], bool] | None:
        """Return the predicate on results; None if no result is a reason to retry."""

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Return the predicate on exceptions; None if no exception is a reason to retry."""


class RetryPredicate(AsyncRetryPredicate[OUT]):
    """A predicate on results and one on exceptions.

    Args:
        result_predicate: Takes the list of results; None if no result is a reason to retry.
        exception_predicate: Takes the exception; None if no exception is a reason to retry.

    Raises:
        TypeError: One of them cannot be called.
    """

    def __init__(
        self,
        result_predicate: Callable[[Sequence[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        named = {"result_predicate": result_predicate, "exception_predicate": exception_predicate}
        for name, predicate in named.items():
            if predicate is not None and not callable(predicate):
                msg = f"{name} must be a function or None, not {predicate!r}."
                raise TypeError(msg)
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> Callable[[Any], bool] | None:
        return self._result_predicate

    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        return self._exception_predicate


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Decides how often, after which outcomes and after which pauses a call is tried again.

    One object serves all calls of a function, so its methods depend on their argument alone.

    Source: FLIP-232, org.apache.flink.streaming.api.functions.async.AsyncRetryStrategy.
    """

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Return whether another attempt may follow.

        Args:
            current_attempts: How many there were, from 1.
        """

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the pause before the next attempt in milliseconds.

        Args:
            current_attempts: How many there were, from 1.
        """

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return the predicate on outcomes after which a call is tried again."""

    @staticmethod
    def no_restart() -> NoRetryStrategy:
        """Return a strategy without retries."""
        return NoRetryStrategy()

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[Sequence[Any]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> FixedDelayRetryStrategy:
        """Return a strategy with one pause; see `FixedDelayRetryStrategy`."""
        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(  # noqa: PLR0917 - PyFlink's signature
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: Callable[[Sequence[Any]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> ExponentialBackoffDelayRetryStrategy:
        """Return a strategy with growing pauses; see `ExponentialBackoffDelayRetryStrategy`."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class NoRetryStrategy(AsyncRetryStrategy[Any]):
    """Never tries a call again."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[Any]:
        return RetryPredicate(None, None)


class _LimitedRetryStrategy(AsyncRetryStrategy[Any]):
    """Tries a call again up to a number of times; subclasses define the pauses."""

    def __init__(
        self,
        max_attempts: int,
        result_predicate: Callable[[Sequence[Any]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        _check_positive(max_attempts=max_attempts)
        self._max_attempts = max_attempts
        self._predicate = RetryPredicate[Any](result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_retry_predicate(self) -> AsyncRetryPredicate[Any]:
        return self._predicate


class FixedDelayRetryStrategy(_LimitedRetryStrategy):
    """Tries again after the same pause each time.

    Args:
        max_attempts: How many attempts may follow the first one.
        backoff_time_millis: The pause in milliseconds.
        result_predicate: Tells the results after which a call is tried again; None for none.
        exception_predicate: Tells such exceptions; None for none.

    Raises:
        ValueError: A number is not positive.

    Example:
        >>> strategy = FixedDelayRetryStrategy(2, 100, lambda results: not results, None)
        >>> [strategy.can_retry(attempts) for attempts in (1, 2, 3)]
        [True, True, False]
    """

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[Sequence[Any]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        _check_positive(backoff_time_millis=backoff_time_millis)
        self._backoff_time_millis = backoff_time_millis

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._backoff_time_millis


class ExponentialBackoffDelayRetryStrategy(_LimitedRetryStrategy):
    """Tries again after pauses that grow; those of a call depend on its own attempts alone, unlike in PyFlink.

    Args:
        max_attempts: How many attempts may follow the first one.
        initial_delay: The first pause in milliseconds.
        max_retry_delay: The longest one.
        multiplier: The factor from one pause to the next.
        result_predicate: Tells the results after which a call is tried again; None for none.
        exception_predicate: Tells such exceptions; None for none.

    Raises:
        ValueError: A number is not positive.

    Example:
        >>> strategy = ExponentialBackoffDelayRetryStrategy(5, 100, 500, 2.0, None, lambda error: True)
        >>> [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2, 3, 4)]
        [100, 200, 400, 500]
    """

    def __init__(  # noqa: PLR0917 - PyFlink's signature
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: Callable[[Sequence[Any]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        _check_positive(initial_delay=initial_delay, max_retry_delay=max_retry_delay, multiplier=multiplier)
        self._initial_delay = initial_delay
        self._max_retry_delay = max_retry_delay
        self._multiplier = multiplier

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        try:
            delay = self._initial_delay * self._multiplier ** max(0, current_attempts - 1)
        except OverflowError:
            return self._max_retry_delay
        return int(min(delay, self._max_retry_delay))


#: The strategy of calls that are never tried again.
NO_RETRY_STRATEGY = NoRetryStrategy()


def empty_result_predicate(result: Sequence[Any] | None) -> bool:
    """Return whether a call had no results: a ``result_predicate``."""
    return result is None or len(result) == 0


def has_exception_predicate(error: Exception | None) -> bool:
    """Return whether there is an exception: an ``exception_predicate`` for all exceptions."""
    return error is not None


def exception_type_predicate(error: Exception | None, expected_error_type: type[Exception]) -> bool:
    """Return whether an exception is of a type; bind the type with a lambda for an ``exception_predicate``."""
    return isinstance(error, expected_error_type)


def _check_positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not number > 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"{name} must be greater than zero, not {number!r}."
            raise ValueError(msg)


show("penstock.datastream.functions", AsyncRetryPredicate, AsyncRetryStrategy)
show(
    "penstock.datastream.async_retry_strategies",
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    NoRetryStrategy,
    RetryPredicate,
)
