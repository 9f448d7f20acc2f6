"""Staged files of failed attempts of the file sink: they are deleted later, and needed files never are."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.connectors.staged import lose_staged
from tests.kit.driving import CrashError, Driven, Epochs
from tests.kit.program import Program

from penstock._connectors.files.staging import list_segments
from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.mailbox import SystemClock
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock.common import Encoder
from penstock.common.job_status import JobStatus
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from penstock.datastream.functions import MapFunction
from penstock.errors import LostCommittableError, SinkFileError
from penstock.testing.connector_contexts import TestCommitterContext, TestWriterContext, requests_for
from penstock.testing.in_process import Chaos

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._connectors.files.staging import FileCommittable

LINES = [f"line {number}" for number in range(60)]


def sink_to(folder: Path) -> FileSink:
    builder = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def staged(folder: Path) -> dict[str, str]:
    """Return what is staged, by the attempts' tokens."""
    return {segment.token: Path(segment.path).read_text() for segment in list_segments(str(folder))}


def attempt(
    folder: Path, text: str, *, states: Iterable[Any] = (), end_of_input: bool = False, **context: Any
) -> tuple[list[FileCommittable], list[Any]]:
    """Write a line and take the checkpoint."""
    writer = sink_to(folder).restore_writer(TestWriterContext(**context), list(states))
    writer.write_all([text])
    writer.flush(end_of_input)
    return writer.prepare_commit(), writer.snapshot_state(1)


def test_first_commit_removes_what_attempts_up_to_its_checkpoint_left(tmp_path: Path) -> None:
    open_part, states = attempt(tmp_path, "a", checkpoint_id=1, attempt_token="good-1")
    attempt(tmp_path, "lost", checkpoint_id=2, attempt_token="void")
    open_part, _ = attempt(tmp_path, "b", states=states, checkpoint_id=2, attempt_token="good-2")
    attempt(tmp_path, "running", checkpoint_id=3, attempt_token="good-3")
    committer = sink_to(tmp_path).create_committer(TestCommitterContext())
    committer.commit(requests_for(open_part, checkpoint_id=2))
    assert staged(tmp_path) == {"good-1": "a\n", "good-2": "b\n", "good-3": "running\n"}


def test_what_others_have_staged_in_the_folder_is_left_alone(tmp_path: Path) -> None:
    attempt(tmp_path, "another sink", operator_uid="other", attempt_token="1")
    attempt(tmp_path, "another job", job_id="1" * 32, attempt_token="2")
    attempt(tmp_path, "another job of this id", run_id="2" * 32, attempt_token="4")
    (tmp_path / ".note.staged").touch()
    parts, _ = attempt(tmp_path, "mine", end_of_input=True, attempt_token="3")
    committer = sink_to(tmp_path).create_committer(TestCommitterContext())
    committer.commit(requests_for(parts))
    committer.close()
    others = {"1": "another sink\n", "2": "another job\n", "4": "another job of this id\n"}
    assert staged(tmp_path) == others
    assert len(list(tmp_path.iterdir())) == 5


def test_what_the_runs_before_have_left_goes_with_the_first_commit(tmp_path: Path) -> None:
    attempt(tmp_path, "lost", run_id="2" * 32, attempt_token="1")
    parts, _ = attempt(tmp_path, "mine", end_of_input=True, attempt_token="3")
    sink_to(tmp_path).create_committer(TestCommitterContext(earlier_runs=("2" * 32,))).commit(requests_for(parts))
    assert staged(tmp_path) == {}


def test_end_of_the_job_removes_what_came_after_the_first_commit(tmp_path: Path) -> None:
    committer = sink_to(tmp_path).create_committer(TestCommitterContext())
    for checkpoint_id in (1, 2):
        parts, _ = attempt(tmp_path, "done", end_of_input=True, checkpoint_id=checkpoint_id)
        attempt(tmp_path, "lost", checkpoint_id=checkpoint_id + 1, attempt_token=f"void-{checkpoint_id + 1}")
        committer.commit(requests_for(parts, checkpoint_id))
    attempt(tmp_path, "outstanding", end_of_input=True, checkpoint_id=3, attempt_token="outstanding")
    committer.close()
    assert staged(tmp_path) == {"void-3": "lost\n", "outstanding": "outstanding\n"}
    committer.close()


def test_commit_stands_where_what_failed_attempts_left_cannot_be_removed_and_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: str) -> Iterable[Any]:
        raise PermissionError(path)

    parts, _ = attempt(tmp_path, "part", end_of_input=True)
    monkeypatch.setattr("penstock._connectors.files.committer.list_segments", refuse)
    sink_to(tmp_path).create_committer(TestCommitterContext()).commit(requests_for(parts))
    assert Path(parts[0].target).read_text() == "part\n"
    assert f"failed attempts stay in {tmp_path}" in caplog.text


def test_commit_that_fails_removes_nothing(tmp_path: Path) -> None:
    attempt(tmp_path, "lost", attempt_token="void")
    parts, _ = attempt(tmp_path, "part", end_of_input=True, attempt_token="good")
    Path(parts[0].target).write_text("in the way")
    committer = sink_to(tmp_path).create_committer(TestCommitterContext())
    with pytest.raises(SinkFileError):
        committer.commit(requests_for(parts))
    committer.close()
    assert staged(tmp_path) == {"void": "lost\n", "good": "part\n"}


class FailsOnce(MapFunction):
    """Fails at one line, the first time that it sees it."""

    def __init__(self, line: str, note: Path) -> None:
        self.line, self.note = line, note

    def map(self, value: Any) -> Any:
        if value == self.line and not self.note.exists():
            self.note.touch()
            raise ValueError(value)
        return value


def job(place: Path, chaos: Chaos | None = None) -> Driven:
    """Return a job that writes LINES, and fails at one of them the first time."""
    restarts = {"recover": "latest", "restart": "fixed-delay", "delay": "1 ms"}
    program = Program(place, 2, checkpoints=str(place / "checkpoints"), interval="10 ms", **restarts)
    lines = program.source(LINES[::2], LINES[1::2], events=place).rebalance()
    sink = FileSink.for_row_format(str(place / "out"), Encoder.simple_string_encoder())
    policy = RollingPolicy.default_rolling_policy(part_size=100)
    lines.map(FailsOnce(LINES[40], place / "failed")).sink_to(sink.with_rolling_policy(policy).build())
    runner = Epochs(4, workers=2, chaos=chaos, seed=6, clock=None)
    return Driven(program.env, place / "state", runner, SystemClock())


def published(place: Path) -> list[str]:
    files = [path for path in (place / "out").rglob("*") if path.is_file() and not path.name.startswith(".")]
    return sorted(line for path in files for line in path.read_text().splitlines())


def test_job_with_void_epochs_and_a_failure_leaves_its_lines_once_and_nothing_else(tmp_path: Path) -> None:
    driven = job(tmp_path, Chaos(retries=0.3, mixtures=0.15, losses=0.05))
    most = 0

    def watched(_: do.Instruction) -> None:
        nonlocal most
        most = max(most, len(list(list_segments(str(tmp_path / "out")))))  # a committer may be deleting them

    driven.watchers.append(watched)
    driven.run()
    assert driven.driver.status is JobStatus.FINISHED
    assert driven.driver.progress.restarts == 1
    assert published(tmp_path) == sorted(LINES)
    assert most > 6
    assert staged(tmp_path / "out") == {}


def test_driver_killed_before_a_record_leaves_segments_that_the_next_one_removes(tmp_path: Path) -> None:
    driven, records = job(tmp_path), count(1)

    def killed(instruction: do.Instruction) -> None:
        if (
            isinstance(instruction, do.PutChainEntry)
            and instruction.entry.kind is ChainEntryKind.CHECKPOINT
            and next(records) == 3
        ):
            raise CrashError

    driven.watchers.append(killed)
    with pytest.raises(CrashError):
        driven.loop.run()
    left = staged(tmp_path / "out")
    assert left
    job(tmp_path).run()
    driven.driver._clean_up.delete_files()  # the system takes a dead process's locks and files back
    assert published(tmp_path) == sorted(LINES)
    assert staged(tmp_path / "out") == {}


def test_job_whose_staged_files_are_gone_before_their_first_commit_ends_and_names_them(tmp_path: Path) -> None:
    driven = job(tmp_path)

    def watched(instruction: do.Instruction) -> None:
        if isinstance(instruction, do.Commit):
            lose_staged(tmp_path / "out")

    driven.watchers.append(watched)
    driven.run()
    driver = driven.driver
    error = driver.result.exception()
    assert driver.status is JobStatus.FAILED
    assert driver.progress.restarts == 0
    assert "(uid '" in str(error)
    assert isinstance(error.__cause__, LostCommittableError)
    assert str(tmp_path / "out") in error.__cause__.what
    assert published(tmp_path) == []
