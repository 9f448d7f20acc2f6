"""What a savepoint or checkpoint says of unfinished files, and who may go on with them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.stories import Sheet, Story

from penstock._connectors.files.staging import list_segments
from penstock._engine.protocol.control import StopMode
from penstock.common import Encoder
from penstock.common.job_status import JobStatus
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink
from penstock.errors import StagedFileError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.driver.driver import JobDriver

LINES = [f"line {number}" for number in range(30)]


def program_to(folder: Path) -> Callable[[Sheet], None]:
    """Return a job whose files are finished at its end, for a savepoint, and at no other time."""

    def program(sheet: Sheet) -> None:
        builder = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
        sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
        sheet.source("lines", LINES).sink_to(sink).uid("files")

    return program


def lines_in(files: set[Path]) -> Counter[str]:
    return Counter(line for file in files for line in file.read_text().splitlines())


def files_in(folder: Path) -> set[Path]:
    return {file for file in folder.iterdir() if not file.name.startswith(".")}


def cancel(driver: JobDriver) -> None:
    driver.cancel()


@pytest.mark.behaviour(51)
def test_savepoint_of_a_running_job_is_started_from_when_that_job_has_published_everything(tmp_path: Path) -> None:
    story, folder, published = Story(tmp_path), tmp_path / "out", set[Path]()
    program = program_to(folder)

    def look(_: Any) -> None:
        published.update(files_in(folder))

    first = story.run(program, asks={3: StopMode.NO, 7: look})
    assert first.status is JobStatus.FINISHED
    before = files_in(folder)
    assert lines_in(before) == Counter(LINES)
    assert 0 < len(lines_in(published)) < len(LINES), "the savepoint has finished some files, and the job went on"
    again = story.run(program, recover=first.savepoint)
    assert again.status is JobStatus.FINISHED, again.error
    assert lines_in(published | (files_in(folder) - before)) == Counter(LINES)


@pytest.mark.parametrize("stop", [StopMode.SUSPEND, StopMode.CANCEL, StopMode.DRAIN])
def test_savepoint_of_a_stop_is_started_from_twice(tmp_path: Path, stop: StopMode) -> None:
    story, folder = Story(tmp_path), tmp_path / "out"
    program = program_to(folder)
    savepoint = story.run(program, asks={3: stop}).savepoint
    stopped = files_in(folder)
    assert not list(list_segments(str(folder)))
    for _ in range(2):
        before = files_in(folder)
        again = story.run(program, recover=savepoint)
        assert again.status is JobStatus.FINISHED, again.error
        assert lines_in(stopped | (files_in(folder) - before)) == Counter(LINES)


def unfinished_in(folder: Path) -> set[str]:
    return {segment.path for segment in list_segments(str(folder))}


def test_jobs_that_start_from_a_checkpoint_go_on_with_copies_and_leave_what_it_names(tmp_path: Path) -> None:
    story, folder = Story(tmp_path), tmp_path / "out"
    checkpoint = story.run(program_to(folder), asks={4: cancel}).driver.checkpoint
    assert checkpoint is not None
    unfinished = unfinished_in(folder)
    assert unfinished
    for copy in (tmp_path / "first copy", tmp_path / "second copy", folder):
        assert story.run(program_to(copy), recover=checkpoint).status is JobStatus.FINISHED
        assert lines_in(files_in(copy)) == Counter(LINES)
        assert unfinished_in(folder) == unfinished
        assert not unfinished_in(copy) - unfinished


@pytest.mark.parametrize("restart", ["none", "exponential-delay"])
def test_checkpoint_whose_unfinished_files_its_own_job_has_published_is_refused_with_what_is_gone(
    tmp_path: Path, restart: str
) -> None:
    story, folder = Story(tmp_path), tmp_path / "out"
    program = program_to(folder)
    first = story.run(program, recover="latest", retained="9", asks={4: cancel})
    unfinished, checkpoint = unfinished_in(folder), first.driver.checkpoint
    assert checkpoint is not None
    # The savepoint finishes the files, and what is behind it publishes them.
    assert story.run(program, recover="latest", retained="9", asks={2: StopMode.NO, 6: cancel}).savepoint
    published = files_in(folder)
    assert published
    again = story.run(program_to(tmp_path / "copy"), recover=checkpoint, restart=restart)
    assert again.status is JobStatus.FAILED, "a restart does not bring it back"
    error = again.error.__cause__ if again.error is not None else None
    assert isinstance(error, StagedFileError)
    assert error.path in unfinished
    assert "published" in str(error)
    assert files_in(folder) == published
    assert not (tmp_path / "copy").exists() or not files_in(tmp_path / "copy"), "nothing was written"
