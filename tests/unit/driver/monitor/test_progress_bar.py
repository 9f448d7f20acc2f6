"""The progress line: a share of bounded jobs, none of others."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from tests.fault.job import assembled, counting_graph

from penstock._engine.driver.monitor.progress_bar import ProgressBar, _parts
from penstock._engine.gateway.progress import JobProgress
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from pathlib import Path


def shown(bar_of: ProgressBar) -> str:
    console = bar_of._progress.console
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()[-1]


def console() -> Console:
    return Console(file=io.StringIO(), width=200, force_terminal=False)


def test_bounded_job_shows_how_much_is_done_and_ends_with_all() -> None:
    left = iter([None, 4, 1])
    bar = ProgressBar("flights", console(), lambda: next(left))
    bar.on_status(JobStatus.INITIALIZING)
    bar.on_progress(JobProgress(checkpoint_id=1))
    assert bar._progress.tasks[0].total is None
    bar.on_progress(JobProgress(checkpoint_id=2))
    assert bar._progress.tasks[0].percentage == 0
    bar.on_progress(JobProgress(checkpoint_id=3))
    assert bar._progress.tasks[0].percentage == 75
    bar.on_status(JobStatus.FINISHED)
    assert "100%" in shown(bar)


def test_late_records_are_shown_in_a_narrow_terminal_too() -> None:
    narrow = Console(file=io.StringIO(), width=80, force_terminal=False)
    bar = ProgressBar("flights", narrow, lambda: 0)
    bar.on_status(JobStatus.INITIALIZING)
    bar.on_progress(JobProgress(checkpoint_id=7, records=20_015, late_records=15))
    bar.on_status(JobStatus.FINISHED)
    assert "20,015 records · 15 late" in shown(bar)


def test_unbounded_job_shows_figures_without_a_share() -> None:
    bar = ProgressBar("prices", console())
    bar.on_status(JobStatus.INITIALIZING)
    bar.on_progress(JobProgress(checkpoint_id=7, records=12))
    bar.on_status(JobStatus.CANCELED)
    assert "12 records" in shown(bar)
    assert "%" not in shown(bar)


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("bounded", [True, False])
def test_name_is_whole_and_the_figures_that_matter_stay_in_a_narrow_terminal(width: int, *, bounded: bool) -> None:
    narrow = Console(file=io.StringIO(), width=width, force_terminal=False)
    bar = ProgressBar("prices by hour", narrow, (lambda: 3) if bounded else None)
    bar.on_status(JobStatus.INITIALIZING)
    bar.on_progress(JobProgress(checkpoint_id=70, epochs=69, records=12_345_678, epoch_records=9_999, epoch_ms=10))
    line = "".join(segment.text for segment in narrow.render(bar._progress.get_renderable()))
    bar.on_status(JobStatus.CANCELED)
    assert "prices by hour " in line
    assert "12,345,678" in line
    assert "0:00:0" in line
    assert max(map(len, line.splitlines())) <= width
    assert ("epoch 69 · watermark none · chk 70" in line) == (width >= (124 if bounded else 100))


def test_job_counts_the_splits_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[float, float | None]] = []
    note = ProgressBar.on_progress

    def on_progress(bar: ProgressBar, progress: JobProgress) -> None:
        note(bar, progress)
        seen.append((bar._progress.tasks[0].completed, bar._progress.tasks[0].total))

    monkeypatch.setattr(ProgressBar, "on_progress", on_progress)
    driver, loop = assembled(counting_graph(tmp_path), tmp_path, progress="true")
    driver.run(loop)
    assert capfd.readouterr().err
    done, totals = [completed for completed, _ in seen], [total for _, total in seen]
    assert done == sorted(done)
    assert totals[-1] is not None
    assert 0 < done[-1] == totals[-1]


def test_figures_leave_in_their_order_where_there_is_no_room() -> None:
    progress = JobProgress(checkpoint_id=7, epochs=6, records=12, epoch_records=3, epoch_ms=500, watermark=0)
    parts = _parts(progress)
    leaving = sorted(parts, key=lambda part: parts[part], reverse=True)
    assert [part.split()[0] for part in leaving] == ["epoch", "chk", "6/s", "watermark", "12"]
    assert len(set(parts.values())) == len(parts)
