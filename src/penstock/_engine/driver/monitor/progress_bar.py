"""One live line in the terminal: records, epochs, watermark, last checkpoint, and the progress of bounded jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.gateway.progress import JobFailure, JobProgress

_BETWEEN: Final = " · "
#: Widths in characters: of the bar with its percentage; below of the spinner, the time and the gaps between columns.
_BAR_WIDTH: Final = 20 + 1 + 4 + 1
_OTHERS_WIDTH: Final = 1 + 1 + 1 + 1 + 7
#: The last millisecond of the year 9999, the end of Python's dates.
_LAST_DATE_MS = 253_402_300_799_999


class ProgressBar:
    """Shows a job's progress on standard error: a `JobStatusListener`.

    Args:
        job_name: The job.
        console: The console; standard error by default.
        unread_splits: Returns the number of splits that are not read to their end, None if unknown; for bounded jobs
            only.
    """

    def __init__(
        self, job_name: str, console: Console | None = None, unread_splits: Callable[[], int | None] | None = None
    ) -> None:
        bar: tuple[ProgressColumn, ...] = () if unread_splits is None else (BarColumn(20), TaskProgressColumn())
        console = console or Console(stderr=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("[bold]{task.description}"),
            *bar,
            _FiguresColumn(console, _BAR_WIDTH if bar else 0),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = self._progress.add_task(job_name, total=None, figures={"starting": 0})
        self._unread_splits = unread_splits
        #: The largest number of splits that were left so far.
        self._splits = 0

    def on_status(self, status: JobStatus) -> None:
        """Start the line at the first status, end it at the last one, and show every status but RUNNING."""
        if status is JobStatus.INITIALIZING:
            self._progress.start()
        elif status.is_terminal_state():
            self._progress.update(self._task, description=f"{self._name} {status.name}")
            if status is JobStatus.FINISHED and self._splits:
                self._progress.update(self._task, completed=self._splits)
            self._progress.stop()
        elif status is not JobStatus.RUNNING:
            self._progress.update(self._task, figures={status.name.lower(): 0})

    def on_progress(self, progress: JobProgress) -> None:
        """Show an accepted epoch."""
        self._progress.update(self._task, figures=_parts(progress))
        left = None if self._unread_splits is None else self._unread_splits()
        if left is not None:
            self._splits = max(self._splits, left)
            self._progress.update(self._task, total=self._splits or None, completed=self._splits - left)

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
    return _BETWEEN.join(_parts(progress))


def _parts(progress: JobProgress) -> dict[str, int]:
    """Return a job's figures in order, each with a number: without room, the highest numbers are left out first."""
    rate = progress.epoch_records * 1000 // max(progress.epoch_ms, 1)
    parts = {f"{progress.records:,} records": 0}
    # A loss is shown beside the records in a terminal of 80 characters, too: hence so short.
    if progress.given_up:
        parts[f"{progress.given_up:,} given up"] = 0
    if progress.late_records:
        parts[f"{progress.late_records:,} late"] = 0
    parts |= {
        f"{rate:,}/s": 3,
        f"epoch {progress.epochs}": 5,
        f"watermark {_watermark(progress.watermark)}": 2,
        f"chk {progress.checkpoint_id}": 4,
    }
    if progress.restarts:
        parts[f"{progress.restarts} restarts"] = 1
    return parts


class _FiguresColumn(ProgressColumn):
    """Shows as many figures as fit beside the job's name, which rich would cut to three letters.

    Args:
        console: The console of the line.
        bar: The width of the bar's columns.
    """

    def __init__(self, console: Console, bar: int) -> None:
        super().__init__()
        self._console, self._others = console, bar + _OTHERS_WIDTH

    def render(self, task: Task) -> Text:
        """Return the figures."""
        parts: dict[str, int] = dict(task.fields["figures"])
        room = self._console.width - self._others - cell_len(task.description)
        while len(parts) > 1 and cell_len(_BETWEEN.join(parts)) > room:
            del parts[max(parts, key=parts.__getitem__)]
        return Text(_BETWEEN.join(parts), no_wrap=True, overflow="ellipsis")


def _watermark(watermark: int) -> str:
    if watermark == MIN_WATERMARK:
        return "none"
    if watermark >= MAX_WATERMARK:
        return "end"
    if not 0 <= watermark <= _LAST_DATE_MS:
        return str(watermark)
    return f"{datetime.fromtimestamp(watermark / 1000, UTC):%Y-%m-%d %H:%M}"
