"""CloseableIterator: the records that ``execute_and_collect`` brings back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from penstock._shelf import show
from penstock.common.notebook import close_when_interrupted, forget
from penstock.errors import JobRunError, UnreadableOutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from penstock.common.job_client import JobClient

T = TypeVar("T")


class CloseableIterator(Generic[T]):
    """The records of a running job, each once its checkpoint has completed; closing the iterator early cancels the job.

    Use it in a ``with`` statement, so that the job ends with it. In a notebook an interruption of the cell closes it.

    Source: ``pyflink.datastream.data_stream.CloseableIterator``.

    Args:
        records: The records; `next` may block, and raises once the job has failed.
        client: The job.
    """

    def __init__(self, records: Iterator[T], client: JobClient) -> None:
        self._records = records
        self._client = client
        self._over = False
        close_when_interrupted(self)

    def __iter__(self) -> CloseableIterator[T]:
        return self

    def __next__(self) -> T:
        return self.next()

    def next(self) -> T:
        """Return the next record.

        Raises:
            StopIteration: The job has finished and all records were returned, or this iterator was closed.
            JobExecutionError: The job failed.
            JobCancelledError: The job was cancelled.
            UnreadableOutputError: Records cannot be read here; the job is cancelled, as nothing would follow them.
        """
        if self._over:
            raise StopIteration
        try:
            return next(self._records)
        except UnreadableOutputError:
            self.close()
            raise
        except (StopIteration, JobRunError):
            self._end()
            raise

    def close(self) -> None:
        """End the job if it still runs, and wait until it has ended."""
        if self._over:
            return
        self._end()
        self._client.cancel().result()
        try:
            self._client.get_job_execution_result().result()
        except JobRunError:
            return  # cancelled as intended, or failed before the failing record was requested

    def _end(self) -> None:
        self._over = True
        forget(self)

    def __enter__(self) -> CloseableIterator[T]:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close()


show("penstock.datastream.data_stream", CloseableIterator)
