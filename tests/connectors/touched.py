"""Files that others touch, and sources that look at them."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from penstock.common.time import Duration
from penstock.datastream.connectors.file_system import FileSource, StreamFormat

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.testing.source_contract import SourceRun

TEXT = StreamFormat.text_line_format()
SECOND = Duration.of_seconds(1)


def monitored(folder: Path, **options: Any) -> FileSource:
    return FileSource.for_record_stream_format(TEXT, str(folder)).monitor_continuously(SECOND, **options).build()


def once(folder: Path) -> FileSource:
    return FileSource.for_record_stream_format(TEXT, str(folder)).build()


def look(run: SourceRun) -> None:
    run.context.run_async_calls()


def read(run: SourceRun) -> list[str]:
    """Read what was handed out, and return all that this run has read."""
    run.epoch()
    run.epoch()
    return sorted(run.records)


def metric(run: SourceRun, name: str, kind: str) -> int:
    return int(str(run.context.metric_group.snapshot()[name][kind]))


def skipped(run: SourceRun) -> int:
    return metric(run, "skippedFiles", "count")


def waiting(run: SourceRun) -> int:
    return metric(run, "waitingFiles", "value")


OLD = "one\ntwo\n"
WAS_READ = ["one", "two"]
NEW = "ONE\nTWO\n"


def write(path: Path, text: str, *, later_s: int = 60) -> None:
    """Write a file of another time, as it is when a while has passed."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text)
    if before:
        os.utime(path, ns=(before, before + later_s * 1_000_000_000))


def again(path: Path, text: str) -> None:
    """Delete the folder of a file, and make both again."""
    time = path.stat().st_mtime_ns
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    path.write_text(text)
    os.utime(path, ns=(time, time + (60_000_000_000 if text != OLD else 0)))
