from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.connectors.staged import elsewhere

from penstock._connectors.files.staging import FinishedPart, list_segments
from penstock._connectors.files.writer import FileWriter, FileWriterState
from penstock.common.serialization import Encoder
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    PartFileInfo,
    RollingPolicy,
)
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.errors import LostCommittableError, SinkFileError
from penstock.testing.connector_contexts import TestCommitRequest, TestCommitterContext, TestWriterContext, requests_for
from penstock.testing.sink_contract import SinkRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def builder_for(folder: Path) -> FileSink.RowFormatBuilder:
    return FileSink.for_row_format(str(folder), Encoder.simple_string_encoder()).with_bucket_assigner(
        BucketAssigner.base_path_bucket_assigner()
    )


def visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def hidden(folder: Path) -> list[Path]:
    """Return what is staged, and what a commit has left; not what the job notes as long as it has not ended."""
    return sorted(path for path in folder.rglob(".*") if path.is_file() and path.suffix != ".runs")


def notes(folder: Path) -> list[Path]:
    return list(folder.rglob(".*.runs"))


def writer_for(
    sink: FileSink, now: list[int], states: Iterable[FileWriterState] = (), context: TestWriterContext | None = None
) -> FileWriter:
    return FileWriter(context or TestWriterContext(), sink._options, list(states), lambda: now[0])


def epoch_of(writer: FileWriter, *elements: Any) -> tuple[list[FinishedPart], list[FileWriterState]]:
    if elements:
        writer.write_all(list(elements))
    writer.flush(False)
    parts = [committable for committable in writer.prepare_commit() if isinstance(committable, FinishedPart)]
    return parts, writer.snapshot_state(1)


def commit(sink: FileSink, parts: Iterable[FinishedPart], *, may_be_committed: bool = False) -> list[TestCommitRequest]:
    requests = requests_for(list(parts), may_be_committed=may_be_committed)
    sink.create_committer(TestCommitterContext()).commit(requests)
    return requests


def test_part_stays_hidden_and_open_over_epochs_until_the_policy_ends_it(tmp_path: Path) -> None:
    sink = builder_for(tmp_path).build()
    now = [0]
    writer = writer_for(sink, now)
    for epoch in range(59):
        now[0] = epoch * 1000
        parts, states = epoch_of(writer, f"line {epoch}")
        assert parts == []
    assert visible(tmp_path) == []
    assert len(states[0].parts[0].segments) == 59
    now[0] = 60_000
    parts, states = epoch_of(writer)
    assert len(parts) == 1
    assert states[0].parts == ()
    commit(sink, parts)
    assert [path.read_text() for path in visible(tmp_path)] == ["".join(f"line {n}\n" for n in range(59))]
    assert hidden(tmp_path) == []


def test_part_without_a_record_for_the_inactivity_interval_ends(tmp_path: Path) -> None:
    sink = builder_for(tmp_path).with_rolling_policy(RollingPolicy.default_rolling_policy(10**9, 10**9, 500)).build()
    now = [0]
    writer = writer_for(sink, now)
    assert epoch_of(writer, "a")[0] == []
    now[0] = 499
    assert epoch_of(writer)[0] == []
    now[0] = 500
    assert len(epoch_of(writer)[0]) == 1


@pytest.mark.parametrize("back", [1_000, 60_000, 86_400_000])
def test_part_of_a_clock_that_was_set_back_ends_an_interval_later(tmp_path: Path, back: int) -> None:
    policy = RollingPolicy.default_rolling_policy(10**9, 800, 10**9)
    sink = builder_for(tmp_path).with_rolling_policy(policy).with_bucket_check_interval(400).build()
    now = [86_400_000]
    writer = writer_for(sink, now)
    assert epoch_of(writer, "a")[0] == []
    now[0] -= back
    writer.write_all(["b"])  # looks at ages, as the clock was set back
    now[0] += 500
    assert epoch_of(writer, "c")[0] == []
    now[0] += 300
    assert len(epoch_of(writer)[0]) == 1


def test_age_is_looked_at_between_checkpoints_too(tmp_path: Path) -> None:
    policy = RollingPolicy.default_rolling_policy(10**9, 1000, 10**9)
    sink = builder_for(tmp_path).with_rolling_policy(policy).with_bucket_check_interval(1000).build()
    now = [0]
    writer = writer_for(sink, now)
    for second in range(4):
        now[0] = second * 1000
        writer.write_all(["x"])
    writer.flush(False)
    assert sum(isinstance(part, FinishedPart) for part in writer.prepare_commit()) == 2


def test_size_ends_a_part_within_an_epoch(tmp_path: Path) -> None:
    sink = builder_for(tmp_path).with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=5000)).build()
    run = SinkRun(sink)
    run.commit(run.epoch([f"{number:09}" for number in range(10_000)], end_of_input=True))
    sizes = [path.stat().st_size for path in visible(tmp_path)]
    assert sum(sizes) == 100_000
    assert len(sizes) > 5


def test_buckets_of_one_epoch_make_one_committable_each(tmp_path: Path) -> None:
    class ByLetter(BucketAssigner):
        def get_bucket_id(self, element: str, timestamp: int | None, processing_time_ms: int) -> str:
            return f"letter={element[0]}/t={timestamp}"

    sink = builder_for(tmp_path).with_bucket_assigner(ByLetter()).build()
    writer = writer_for(sink, [0])
    writer.write_all(["a1", "b1", "a2", "c1"], [1, 2, 1, None])
    writer.flush(True)
    parts = [part for part in writer.prepare_commit() if isinstance(part, FinishedPart)]
    assert len(parts) == 3
    commit(sink, parts)
    found = {str(path.parent.relative_to(tmp_path)): path.read_text() for path in visible(tmp_path)}
    assert found == {"letter=a/t=1": "a1\na2\n", "letter=b/t=2": "b1\n", "letter=c/t=None": "c1\n"}


def test_default_bucket_is_the_hour_of_writing_in_the_given_zone(tmp_path: Path) -> None:
    assigner = BucketAssigner.date_time_bucket_assigner("yyyy-MM-dd--HH", "Asia/Tokyo")
    moment = int(datetime(2024, 12, 31, 16, 30, tzinfo=UTC).timestamp() * 1000)
    sink = builder_for(tmp_path).with_bucket_assigner(assigner).build()
    writer = writer_for(sink, [moment])
    writer.write_all(["x"])
    writer.flush(True)
    commit(sink, writer.prepare_commit())
    assert [path.parent.name for path in visible(tmp_path)] == ["2025-01-01--01"]


def test_unknown_zone_and_pattern_fail_where_they_are_given() -> None:
    with pytest.raises(ValueError, match="Mars/Olympus"):
        BucketAssigner.date_time_bucket_assigner(timezone_id="Mars/Olympus")
    with pytest.raises(ValueError, match="date pattern"):
        BucketAssigner.date_time_bucket_assigner("bad!")


def test_names_have_prefix_unique_part_counter_and_suffix(tmp_path: Path) -> None:
    config = OutputFileConfig.builder().with_part_prefix("out").with_part_suffix(".txt").build()
    sink = (
        builder_for(tmp_path)
        .with_output_file_config(config)
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    run = SinkRun(sink, 2)
    for _ in range(2):
        run.commit(run.epoch(["a"], ["b"]))
    matches = [re.fullmatch(r"out-([0-9a-f]{32})-(\d+)\.txt", path.name) for path in visible(tmp_path)]
    assert len({match[1] for match in matches if match}) == 2
    assert sorted(int(match[2]) for match in matches if match) == [0, 0, 1, 1]


def test_counter_goes_on_in_a_writer_made_anew(tmp_path: Path) -> None:
    sink = builder_for(tmp_path).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    run = SinkRun(sink, keep_writers=False)
    for _ in range(3):
        run.commit(run.epoch(["a"]))
    assert sorted(path.name.rpartition("-")[2] for path in visible(tmp_path)) == ["0", "1", "2"]


def test_parts_of_one_bucket_from_two_writers_become_one_open_and_one_finished(tmp_path: Path) -> None:
    sink = builder_for(tmp_path).build()
    states = [epoch_of(writer_for(sink, [0]), text)[1][0] for text in ("a", "b")]
    merged = writer_for(sink, [0], states)
    parts, state = epoch_of(merged, "c")
    assert len(parts) == 1
    assert len(state[0].parts) == 1
    merged.flush(True)
    commit(sink, [*parts, *merged.prepare_commit()])
    assert sorted(path.read_text() for path in visible(tmp_path)) == ["a\nc\n", "b\n"]


def test_segments_name_job_checkpoint_and_attempt_so_that_leftovers_are_found(tmp_path: Path) -> None:
    sink = builder_for(tmp_path).build()
    context = TestWriterContext(job_id="ab12", checkpoint_id=7, attempt_token="t0ken")
    epoch_of(writer_for(sink, [0], context=context), "a")
    segment = next(list_segments(str(tmp_path)))
    assert (segment.job_id, segment.checkpoint_id, segment.token) == ("ab12", 7, "t0ken")
    assert Path(segment.path).read_text() == "a\n"


def test_closing_removes_only_what_no_checkpoint_knows(tmp_path: Path) -> None:
    sink = builder_for(tmp_path).build()
    writer = writer_for(sink, [0])
    epoch_of(writer, "kept")
    writer.write_all(["lost"])
    assert len(hidden(tmp_path)) == 2
    writer.close()
    assert [path.read_text() for path in hidden(tmp_path)] == ["kept\n"]


def test_typed_records_are_written_as_their_type_prints(tmp_path: Path) -> None:
    sink = builder_for(tmp_path).build().for_type(Types.ROW([Types.INT(), Types.STRING()]))
    run = SinkRun(sink)
    run.commit(run.epoch([Row(1, "a")], end_of_input=True))
    assert visible(tmp_path)[0].read_text() == "+I[1,a]\n"


def test_bulk_formats_refuse_a_policy_that_leaves_files_open(tmp_path: Path) -> None:
    builder = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_schema())
    with pytest.raises(ValueError, match="DefaultRollingPolicy"):
        builder.with_rolling_policy(RollingPolicy.default_rolling_policy())

    class AlsoBySize(OnCheckpointRollingPolicy):
        def should_roll_on_event(self, part: PartFileInfo, element: Any) -> bool:
            return part.size > 1000

    builder.with_rolling_policy(AlsoBySize())


@pytest.mark.parametrize("bucket", ["../out", "/etc", "a/../../b"])
def test_bucket_outside_of_the_path_is_refused(tmp_path: Path, bucket: str) -> None:
    class Bad(BucketAssigner):
        def get_bucket_id(self, element: Any, timestamp: int | None, processing_time_ms: int) -> str:
            return bucket

    writer = writer_for(builder_for(tmp_path).with_bucket_assigner(Bad()).build(), [0])
    with pytest.raises(SinkFileError, match="not below"):
        writer.write_all(["x"])


def test_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    writer = writer_for(builder_for(tmp_path / "file" / "below").build(), [0])
    with pytest.raises(SinkFileError, match="below"):
        writer.write_all(["x"])


def two_segments(sink: FileSink) -> FinishedPart:
    writer = writer_for(sink, [0])
    epoch_of(writer, "first")
    writer.write_all(["second"])
    writer.flush(True)
    return writer.prepare_commit()[0]


def test_published_file_that_somebody_took_away_is_not_written_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = builder_for(tmp_path).build()
    part = two_segments(sink)
    commit(sink, [part])
    Path(part.target).unlink()
    requests = commit(sink, [part], may_be_committed=True)
    assert requests[0].already_committed
    assert visible(tmp_path) == []
    assert "gone since" in caplog.text


def of_another_run(folder: Path) -> None:
    builder = builder_for(folder).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    run = SinkRun(builder.build(), run_id="d" * 32)
    for _ in range(3):
        run.commit(run.epoch(["x"]))


@pytest.mark.parametrize(
    "there",
    [
        lambda folder: None,
        lambda folder: (folder / "other.txt").touch(),
        of_another_run,
        lambda folder: (folder / ".f.c.runs").touch(),
    ],
    ids=["nothing", "a file", "another run of the job", "a note of another sink"],
)
@pytest.mark.parametrize("was_committed", [False, True])
def test_a_commit_on_another_disk_under_the_same_path_never_counts_as_done(
    tmp_path: Path, there: Callable[[Path], None], was_committed: bool
) -> None:
    folder = tmp_path / "out"
    run = SinkRun(builder_for(folder).build())
    first = run.epoch(["a", "b"])
    if was_committed:
        run.commit(first)
    last = run.epoch(["c"], end_of_input=True)
    with elsewhere(folder):
        there(folder)
        with pytest.raises(SinkFileError, match=r"mount the disk on which .* make that file with the line"):
            run.commit(last, may_be_committed=True)
    run.commit(first, may_be_committed=True)
    run.commit(last, may_be_committed=True)
    lines = [line for path in visible(folder) for line in path.read_text().splitlines()]
    assert sorted(lines) == ["a", "b", "c"]


@pytest.mark.parametrize("subtasks", [1, 2])
def test_notes_stay_until_all_writers_have_ended_and_their_parts_are_published(tmp_path: Path, subtasks: int) -> None:
    sink = builder_for(tmp_path).build()
    committer = sink.create_committer(TestCommitterContext())
    for number in range(subtasks):
        writer = writer_for(sink, [0], context=TestWriterContext(number, subtasks))
        writer.write_all(["x"])
        writer.flush(True)
        committer.commit(requests_for(writer.prepare_commit()))
        assert len(notes(tmp_path)) == 1
        if number < subtasks - 1:
            committer.close()  # as where the job fails
            assert len(notes(tmp_path)) == 1
    committer.close()
    assert notes(tmp_path) == hidden(tmp_path) == []


@pytest.mark.parametrize("ends", ["savepoint", "failure", "crash"])
def test_what_a_reader_took_away_is_not_written_again_however_the_job_has_stopped(tmp_path: Path, ends: str) -> None:
    sink = builder_for(tmp_path).build()
    writer = writer_for(sink, [0], context=TestWriterContext(for_savepoint=ends == "savepoint"))
    writer.write_all(["x"])
    writer.flush(ends == "savepoint")
    writer._roll_if(lambda _: True)
    parts = writer.prepare_commit()
    committer = sink.create_committer(TestCommitterContext())
    committer.commit(requests_for(parts))
    if ends != "crash":
        committer.close()
    for path in visible(tmp_path):
        path.unlink()
    requests = requests_for(parts, may_be_committed=True)
    sink.create_committer(TestCommitterContext()).commit(requests)
    assert requests[0].already_committed
    assert visible(tmp_path) == []


@pytest.mark.parametrize("lost", [[0], [1], [0, 1]])
def test_part_that_is_gone_before_its_first_commit_is_an_error_that_names_it(tmp_path: Path, lost: list[int]) -> None:
    sink = builder_for(tmp_path).build()
    part = two_segments(sink)
    for number in lost:
        Path(part.segments[number]).unlink()
    with pytest.raises(LostCommittableError) as raised:
        commit(sink, [part])
    assert raised.value.what == part.target
    assert all((segment in raised.value.reason) is (number in lost) for number, segment in enumerate(part.segments))
    assert visible(tmp_path) == []


def test_last_segment_alone_is_not_removed_by_a_commit_that_was_repeated(tmp_path: Path) -> None:
    sink = builder_for(tmp_path).build()
    part = two_segments(sink)
    Path(part.segments[1]).unlink()
    with pytest.raises(LostCommittableError, match="is gone: something else"):
        commit(sink, [part], may_be_committed=True)
    assert visible(tmp_path) == []


def test_part_whose_folder_is_gone_before_its_first_commit_is_an_error(tmp_path: Path) -> None:
    sink = builder_for(tmp_path / "out").build()
    part = two_segments(sink)
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(LostCommittableError):
        commit(sink, [part])


@pytest.mark.parametrize("may_be_committed", [False, True])
def test_part_of_which_bytes_are_missing_is_never_published(tmp_path: Path, may_be_committed: bool) -> None:
    sink = builder_for(tmp_path).build()
    part = two_segments(sink)
    Path(part.segments[1]).write_text("sec")
    with pytest.raises(LostCommittableError, match=f"of its {part.size} bytes {part.size - 4} are staged"):
        commit(sink, [part], may_be_committed=may_be_committed)
    assert visible(tmp_path) == []


def test_foreign_file_under_a_parts_name_is_an_error_and_nothing_is_lost(tmp_path: Path) -> None:
    sink = builder_for(tmp_path).build()
    part = two_segments(sink)
    Path(part.target).write_text("not ours")
    with pytest.raises(SinkFileError, match="Move the other file away"):
        commit(sink, [part])
    assert [Path(segment).read_text() for segment in part.segments] == ["first\n", "second\n"]
