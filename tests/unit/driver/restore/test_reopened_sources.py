"""Starts that let sources go on which had finished: `penstock.restart-finished-sources`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.stories import Chapter, Sheet, Story
from tests.unit.driver.restore.test_finished_operators import LONG, SHORT, Counts

from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock.common.job_status import JobStatus
from penstock.common.serialization import Encoder
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import MapFunction
from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from penstock.errors import ConfigurationError, NoCheckpointError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.datastream import DataStream

#: Go on from the job's last checkpoint, whatever became of the job.
LATEST = {"recover": "latest", "reopen": "files"}


class Opened(MapFunction):
    """Says in a file that it was opened."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def open(self, runtime_context: Any) -> None:
        with self.file.open("a") as file:
            file.write(f"{runtime_context.get_index_of_this_subtask()}\n")

    def map(self, value: Any) -> Any:
        return value


class Folder:
    """Files that a job reads, and the files that it writes."""

    def __init__(self, place: Path) -> None:
        self.read, self.written = place / "in", place / "out"
        self.read.mkdir()

    def add(self, name: str, *lines: str) -> None:
        (self.read / name).write_text("".join(f"{line}\n" for line in lines))

    def source(self, sheet: Sheet, parallelism: int = 1) -> DataStream:
        files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(self.read)).build()
        stream = sheet.env.from_source(files, WatermarkStrategy.no_watermarks(), "files")
        return stream.uid("files").set_parallelism(parallelism)

    def sink(self, stream: DataStream) -> None:
        sink = FileSink.for_row_format(str(self.written), Encoder.simple_string_encoder()).build()
        stream.sink_to(sink).uid("sink")

    @property
    def result(self) -> list[str]:
        files = [file for file in self.written.rglob("*") if file.is_file() and not file.name.startswith(".")]
        return sorted(line for file in files for line in file.read_text().splitlines())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.add("monday", "a", "b")
    return folder


def copying(folder: Folder, parallelism: int = 1) -> Any:
    return lambda sheet: folder.sink(folder.source(sheet, parallelism))


def with_numbers(folder: Folder) -> Any:
    """The files beside a source that goes on for longer, and a count of both."""

    def write(sheet: Sheet) -> None:
        both = folder.source(sheet).rebalance().union(sheet.source("long", LONG).rebalance())
        sheet.collect(both.key_by(str).process(Counts()).uid("counts"))

    return write


def epochs(chapter: Chapter) -> int:
    return sum(isinstance(step, do.RunEpoch) for step in chapter.steps)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.behaviour(23)
def test_finished_job_reads_the_new_file_alone_when_it_is_started_again(
    tmp_path: Path, folder: Folder, parallelism: int
) -> None:
    story = Story(tmp_path)
    assert story.run(copying(folder), **LATEST).status is JobStatus.FINISHED
    assert folder.result == ["a", "b"]
    folder.add("tuesday", "c", "d")
    again = story.run(copying(folder, parallelism), **LATEST)
    assert again.status is JobStatus.FINISHED
    assert folder.result == ["a", "b", "c", "d"]
    assert again.driver.job_id == story.chapters[0].driver.job_id
    assert again.driver.progress.records == 2, "what was read before is not read again"


@pytest.mark.behaviour(23)
def test_start_without_new_files_ends_at_once_and_writes_nothing(tmp_path: Path, folder: Folder) -> None:
    story = Story(tmp_path)
    story.run(copying(folder), **LATEST)
    again = story.run(copying(folder), **LATEST)
    assert (again.status, epochs(again), folder.result) == (JobStatus.FINISHED, 1, ["a", "b"])
    folder.add("tuesday", "c")
    story.run(copying(folder), **LATEST)
    assert folder.result == ["a", "b", "c"]


@pytest.mark.behaviour(23)
def test_file_that_was_read_is_not_read_again_when_it_has_grown(tmp_path: Path, folder: Folder) -> None:
    story = Story(tmp_path)
    story.run(copying(folder), **LATEST)
    folder.add("monday", "a", "b", "late")
    story.run(copying(folder), **LATEST)
    assert folder.result == ["a", "b"]


@pytest.mark.parametrize("retained", ["1", "2"])
@pytest.mark.behaviour(23)
def test_state_behind_a_named_source_goes_on(tmp_path: Path, folder: Folder, retained: str) -> None:
    def program(sheet: Sheet) -> None:
        sheet.collect(folder.source(sheet).key_by(str).process(Counts()).uid("counts"))

    story = Story(tmp_path)
    story.run(program, retained=retained, **LATEST)
    for day in ("tuesday", "wednesday"):
        folder.add(day, "a", "c")
        story.run(program, retained=retained, **LATEST)
    assert sorted(story.output()) == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1), ("c", 2)]


@pytest.mark.behaviour(23)
def test_state_behind_a_source_that_was_not_named_while_it_finished_starts_fresh(
    tmp_path: Path, folder: Folder
) -> None:
    def program(sheet: Sheet) -> None:
        sheet.collect(folder.source(sheet).key_by(str).process(Counts()).uid("counts"))
        sheet.collect(sheet.source("long", LONG), "long-out")

    story = Story(tmp_path)
    stopped = story.run(program, asks={4: StopMode.SUSPEND})
    folder.add("tuesday", "a", "c")
    again = story.run(program, recover=stopped.savepoint, reopen="files")
    assert again.outputs["out"] == [("a", 1), ("c", 1)]
    assert story.output("long-out") == LONG


@pytest.mark.parametrize("claim", ["CLAIM", "NO_CLAIM"])
@pytest.mark.parametrize("ending", [StopMode.SUSPEND, StopMode.DRAIN])
@pytest.mark.behaviour(23)
def test_source_that_had_ended_before_a_stop_goes_on_beside_one_that_had_not(
    tmp_path: Path, folder: Folder, ending: StopMode, claim: str
) -> None:
    story = Story(tmp_path)
    stopped = story.run(with_numbers(folder), asks={4: ending}, reopen="files")
    folder.add("tuesday", "a", "c")
    again = story.run(with_numbers(folder), recover=stopped.savepoint, reopen="files", claim=claim)
    assert again.status is JobStatus.FINISHED
    expected = [("a", 1), ("b", 1), ("a", 2), ("c", 1), *((number, 1) for number in LONG)]
    assert sorted(story.output(), key=str) == sorted(expected, key=str)


@pytest.mark.behaviour(23)
def test_everything_behind_the_source_is_made_again_and_nothing_else(tmp_path: Path, folder: Folder) -> None:
    behind, beside = tmp_path / "behind", tmp_path / "beside"

    def program(sheet: Sheet) -> None:
        first = folder.source(sheet).map(Opened(behind)).uid("behind").rebalance().map(Opened(behind)).uid("more")
        second = sheet.source("short", SHORT).map(Opened(beside)).uid("beside")
        sheet.collect(first.rebalance().union(second.rebalance(), sheet.source("long", LONG).rebalance()))

    story = Story(tmp_path)
    stopped = story.run(program, asks={5: StopMode.SUSPEND})
    folder.add("tuesday", "c")
    again = story.run(program, recover=stopped.savepoint, reopen="files")
    assert behind.read_text() == "0\n" * 4
    assert beside.read_text() == "0\n"
    assert sorted(story.output(), key=str) == sorted(["a", "b", "c", *SHORT, *LONG], key=str)
    assert again.status is JobStatus.FINISHED


@pytest.mark.behaviour(23)
def test_job_that_is_killed_behind_its_last_checkpoint_goes_on_with_what_is_new(tmp_path: Path, folder: Folder) -> None:
    """The record that says that the job has finished is missing then."""
    story = Story(tmp_path)
    story.run(copying(folder), **LATEST)
    newest = max((tmp_path / "checkpoints").glob("*/chk-*"), key=lambda path: int(path.name[4:]))
    (newest / "_metadata").unlink()
    newest.rmdir()
    folder.add("tuesday", "c")
    assert story.run(copying(folder), **LATEST).status is JobStatus.FINISHED
    assert folder.result == ["a", "b", "c"]


@pytest.mark.behaviour(23)
def test_failure_before_the_first_checkpoint_looks_for_what_is_new_again(tmp_path: Path, folder: Folder) -> None:
    class FailsOnce(MapFunction):
        def map(self, value: Any) -> Any:
            if value == "c" and not (tmp_path / "failed").exists():
                (tmp_path / "failed").touch()
                raise ValueError("once")
            return value

    def program(sheet: Sheet) -> None:
        folder.sink(folder.source(sheet).map(FailsOnce()).uid("fails"))

    story = Story(tmp_path)
    story.run(program, **LATEST)
    folder.add("tuesday", "c")
    again = story.run(program, **LATEST, restart="exponential-delay")
    assert (again.driver.progress.restarts, folder.result) == (1, ["a", "b", "c"])


@pytest.mark.behaviour(23)
def test_source_that_has_not_finished_goes_on_as_it_is_and_the_log_says_so(
    tmp_path: Path, folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.add("monday", *(str(number) for number in range(9)))
    story = Story(tmp_path)
    stopped = story.run(copying(folder), asks={2: StopMode.SUSPEND})
    folder.add("tuesday", "new")
    story.run(copying(folder), recover=stopped.savepoint, reopen="files")
    assert folder.result == [str(number) for number in range(9)]
    [line] = [record for record in caplog.records if "restart-finished-sources" in record.getMessage()]
    assert (line.levelname, "'files'" in line.getMessage()) == ("WARNING", True)


@pytest.mark.behaviour(23)
def test_uid_that_names_no_source_is_refused_with_those_that_there_are(tmp_path: Path, folder: Folder) -> None:
    with pytest.raises(ConfigurationError, match=r"restart-finished-sources cannot be 'file, sink'.*'files'"):
        Story(tmp_path).run(copying(folder), reopen="[sink, files, file]")


@pytest.mark.behaviour(23)
def test_job_that_finished_without_the_key_has_left_nothing_to_start_from(tmp_path: Path, folder: Folder) -> None:
    story = Story(tmp_path)
    story.run(copying(folder), recover="latest")
    again = story.run(copying(folder), **LATEST)
    assert isinstance(again.error, NoCheckpointError)
    assert "finished and left no checkpoint" in str(again.error)
    assert story.run(copying(folder), recover="latest").status is JobStatus.FINISHED


@pytest.mark.parametrize(
    ("retention", "left"),
    [("RETAIN_ON_CANCELLATION", 2), ("DELETE_ON_CANCELLATION", 2), ("NO_EXTERNALIZED_CHECKPOINTS", 0)],
)
@pytest.mark.behaviour(23)
def test_finished_job_with_named_sources_keeps_its_checkpoints_unless_none_are_to_stay(
    tmp_path: Path, folder: Folder, retention: str, left: int
) -> None:
    folder.add("monday", *(str(number) for number in range(9)))
    story = Story(tmp_path)
    story.run(copying(folder), **LATEST, retention=retention)
    kinds = [record.kind for record in story.records_of_jobs()]
    assert (kinds.count(ChainEntryKind.CHECKPOINT), kinds.count(ChainEntryKind.FINISHED)) == (left, 1)


@pytest.mark.behaviour(23)
def test_drained_job_goes_on_from_its_savepoint_when_sources_are_named(tmp_path: Path, folder: Folder) -> None:
    story = Story(tmp_path)
    story.run(with_numbers(folder), asks={4: StopMode.DRAIN}, **LATEST)
    folder.add("tuesday", "c")
    again = story.run(with_numbers(folder), **LATEST)
    assert again.status is JobStatus.FINISHED
    expected = [("a", 1), ("b", 1), ("c", 1), *((number, 1) for number in LONG)]
    assert sorted(story.output(), key=str) == sorted(expected, key=str)
