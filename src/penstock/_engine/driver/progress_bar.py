"""One live line in the terminal: records, epochs, watermark, last checkpoint."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from penstock._engine.gateway.progress import JobFailure, JobProgress

#: Last millisecond of the year 9999, which is as far as dates go.
_LAST_DATE_MS = 253_402_300_799_999


class ProgressBar:
    """Shows a job's progress on standard error: a `JobListener`.

    Args:
        job_name: The job.
        console: Where to draw; standard error when left out.
    """

    def __init__(self, job_name: str, console: Console | None = None) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("[bold]{task.description}"),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            console=console or Console(stderr=True),
        )
        self._task = self._progress.add_task(job_name, total=None, figures="starting")

    def on_status(self, status: JobStatus) -> None:
        """Begin with the first status, end with the last, and show what is not RUNNING."""
        if status is JobStatus.INITIALIZING:
            self._progress.start()
        elif status.is_terminal_state():
            self._progress.update(self._task, description=f"{self._name} {status.name}")
            self._progress.stop()
        elif status is not JobStatus.RUNNING:
            self._progress.update(self._task, figures=status.name.lower())

    def on_progress(self, progress: JobProgress) -> None:
        """Show an epoch that counted."""
        self._progress.update(self._task, figures=figures(progress))

    def on_failure(self, failure: JobFailure) -> None:
        """Leave it to the log."""

    @property
    def _name(self) -> str:
        return self._progress.tasks[self._task].description


def figures(progress: JobProgress) -> str:
    """Return a job's figures on one line.

    Example:
        >>> from penstock._engine.gateway.progress import JobProgress
        >>> figures(
        ...     JobProgress(checkpoint_id=7, epochs=6, records=12000, epoch_records=3000, epoch_ms=500, watermark=0)
        ... )
        '12,000 records · 6,000/s · epoch 6 · watermark 1970-01-01 00:00 · chk 7'
    """
    rate = progress.epoch_records * 1000 // max(progress.epoch_ms, 1)
    parts = [
        f"{progress.records:,} records",
        f"{rate:,}/s",
        f"epoch {progress.epochs}",
        f"watermark {_watermark(progress.watermark)}",
        f"chk {progress.checkpoint_id}",
    ]
    if progress.restarts:
        parts.append(f"{progress.restarts} restarts")
    return " · ".join(parts)


def _watermark(watermark: int) -> str:
    if watermark == MIN_WATERMARK:
        return "none"
    if watermark >= MAX_WATERMARK:
        return "end"
    if not 0 <= watermark <= _LAST_DATE_MS:
        return str(watermark)
    return f"{datetime.fromtimestamp(watermark / 1000, UTC):%Y-%m-%d %H:%M}"
