"""CompletableFuture: the answer of a job that may take a while (``pyflink.common.completable_future``)."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CompletableFuture"]

T = TypeVar("T")
U = TypeVar("U")


class CompletableFuture(Generic[T]):
    """An answer that comes later.

    Args:
        future: The future that the engine completes.

    Source: ``pyflink.common.CompletableFuture``.

    Example:
        >>> answer = CompletableFuture.completed(7)
        >>> answer.done(), answer.result(), answer.exception()
        (True, 7, None)
    """

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    @staticmethod
    def completed(value: U) -> CompletableFuture[U]:
        """Make an answer that is already there."""
        future: Future[U] = Future()
        future.set_result(value)
        return CompletableFuture(future)

    @staticmethod
    def failed(error: BaseException) -> CompletableFuture[Any]:
        """Make an answer that is already known to be an error."""
        future: Future[Any] = Future()
        future.set_exception(error)
        return CompletableFuture(future)

    def cancel(self) -> bool:
        """Stop waiting for the answer, and tell whether that was still possible; the requested operation continues."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Tell whether ``cancel`` came before the answer."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Tell whether there is an answer, an error or a cancellation."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the answer and return it.

        Args:
            timeout: Seconds to wait at most; None waits without end.

        Raises:
            TimeoutError: There was no answer in that time.
            concurrent.futures.CancelledError: ``cancel`` came before the answer.
            Exception: The requested operation failed with this error.
        """
        return self._future.result(timeout)

    def exception(self) -> BaseException | None:
        """Return the error that came in place of an answer; None for an answer, and as long as there is neither."""
        if not self._future.done():
            return None
        try:
            return self._future.exception()
        except CancelledError as error:
            return error

    def add_done_callback(self, callback: Callable[[CompletableFuture[T]], object]) -> None:
        """Call a function with this future once it is done, at once when it is done already.

        Args:
            callback: Runs in a thread of the engine, or in this one when the answer is there; errors in it are logged.
        """
        self._future.add_done_callback(lambda _: callback(self))

    def __str__(self) -> str:
        if not self._future.done():
            return "CompletableFuture[not completed]"
        error = self.exception()
        return "CompletableFuture[completed]" if error is None else f"CompletableFuture[failed: {error!r}]"
