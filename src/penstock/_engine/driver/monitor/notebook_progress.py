"""A job's progress as one output of a notebook's cell, which renews itself in place."""

from __future__ import annotations

import html
import time
from typing import TYPE_CHECKING, Final

from penstock._engine.driver.monitor.progress_bar import figures
from penstock._errors.text import printable
from penstock.common.job_status import JobStatus
from penstock.common.notebook import Output

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.gateway.progress import JobFailure, JobProgress

#: A front end draws no more of them, and each is a message to it.
_BETWEEN_S: Final = 0.2


class NotebookProgress:
    """Shows a job's progress below the cell that starts it: a `JobStatusListener`.

    Args:
        job_name: The job.
        unread_splits: Returns the number of splits that are not read to their end, None if unknown; for bounded jobs
            only.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        job_name: str,
        unread_splits: Callable[[], int | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job_name, self._unread_splits, self._clock = job_name, unread_splits, clock
        self._status, self._figures = "starting", ""
        #: Splits: the most that were left so far, and those that are left.
        self._splits, self._left = 0, 0
        self._shown_at = clock()
        self._output = Output(*self._shown())

    def on_status(self, status: JobStatus) -> None:
        """Show each status; where the job has read all, its bar is full."""
        self._status = status.name.lower()
        if status is JobStatus.FINISHED:
            self._left = 0
        self._show()

    def on_progress(self, progress: JobProgress) -> None:
        """Show an accepted epoch, unless the last one was shown just now."""
        self._figures = figures(progress)
        left = None if self._unread_splits is None else self._unread_splits()
        if left is not None:
            self._splits, self._left = max(self._splits, left), left
        if self._clock() - self._shown_at >= _BETWEEN_S:
            self._show()

    def on_failure(self, failure: JobFailure) -> None:
        """Leave it to the log."""

    def _show(self) -> None:
        self._shown_at = self._clock()
        self._output.update(*self._shown())

    def _shown(self) -> tuple[str, str]:
        name, figures_ = printable(self._job_name), f" · {self._figures}" if self._figures else ""
        bar = f' <progress max="{self._splits}" value="{self._splits - self._left}"></progress>' if self._splits else ""
        text = f"{self._status}{figures_}"
        return f"{name}: {text}", f"<div><b>{html.escape(name)}</b>{bar} {html.escape(text)}</div>"
