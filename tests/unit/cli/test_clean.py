"""``penstock clean``: shows what is left over, and removes it only when it is told to."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock._engine.processes.exit_codes import ExitCode

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Command


@pytest.fixture
def leftover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that a killed process did not finish, and nothing else on the machine."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    file = Path("savepoints/.tmp-123-0123456789ab").absolute()
    file.parent.mkdir()
    file.write_bytes(bytes(2048))
    return file


def test_leftovers_are_shown_and_stay(penstock: Command, leftover: Path) -> None:
    done = penstock("clean", "--savepoint-dir", "savepoints", "--min-age", "0 s")
    assert done.code == 0, done.err
    assert str(leftover) in done.out
    assert "--remove" in done.err
    assert leftover.exists()


def test_leftovers_are_removed_when_asked(penstock: Command, leftover: Path) -> None:
    setting = "execution.checkpointing.savepoint-dir=savepoints"
    done = penstock("clean", "-D", setting, "--min-age", "0 s", "--remove", "--json")
    answer = json.loads(done.out)
    assert [one["path"] for one in answer["removal"]["removed"]] == [str(leftover)]
    assert not leftover.exists()


def test_what_was_touched_lately_is_left_alone(penstock: Command, leftover: Path) -> None:
    done = penstock("clean", "--savepoint-dir", "savepoints", "--remove")
    assert (done.code, done.out) == (0, "")
    assert "Nothing is left over" in done.err
    assert "touched within 1 h 0 m was not looked at (--min-age)" in done.err
    assert "No directory of checkpoints was looked into" in done.err
    assert leftover.exists()
    (leftover.parent.parent / "checkpoints").mkdir()
    done = penstock("clean", "--checkpoint-dir", "checkpoints", "--min-age", "0 s", "--no-local")
    assert done.err == "Nothing is left over.\n"


def test_events_of_a_lost_batch_job_count_after_a_week_or_when_told(penstock: Command, tmp_path: Path) -> None:
    events = tmp_path / "ha" / ("ab" * 16) / "events" / "00000001"
    events.parent.mkdir(parents=True)
    events.write_bytes(b"")
    setting = ("clean", "-D", f"high-availability.storageDir={tmp_path / 'ha'}", "--no-local", "--min-age", "0 s")
    assert penstock(*setting).out == ""
    done = penstock(*setting, "--older-than", "0 s", "--remove")
    assert "job events" in done.out
    assert str(events) in done.out
    assert not events.exists()


def test_directory_that_cannot_be_read_is_one_line(penstock: Command, leftover: Path) -> None:
    done = penstock("clean", "--checkpoint-dir", str(leftover), "--no-local")
    assert done.code in (1, 75)
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("option", ["--checkpoint-dir", "--savepoint-dir", "--sink-dir"])
def test_directory_that_is_not_there_is_told(penstock: Command, tmp_path: Path, option: str) -> None:
    done = penstock("clean", option, str(tmp_path / "nowhere"))
    assert done.code == ExitCode.USAGE
    assert f"there is no directory {tmp_path / 'nowhere'}" in done.err
