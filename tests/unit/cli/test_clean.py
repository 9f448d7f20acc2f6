"""``penstock clean``: shows what is left over, and removes it only when it is told to."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock._engine.processes.exit_codes import ExitCode
from penstock._engine.processes.registry import JobRegistry, RegistryEntry, default_directory

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


LOST = "ab" * 16


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Events of a batch job whose driver was lost."""
    events = tmp_path / "ha" / LOST / "events" / "00000001"
    events.parent.mkdir(parents=True)
    events.write_bytes(b"")
    return events


def looking_at(events: Path, *options: str) -> tuple[str, ...]:
    place = f"high-availability.storageDir={events.parents[2]}"
    return "clean", "-D", place, "--no-local", "--min-age", "0 s", *options


def test_events_of_a_lost_batch_job_count_after_a_week_or_when_told(penstock: Command, events: Path) -> None:
    assert penstock(*looking_at(events)).out == ""
    for days, options, is_shown in (
        (6, (), False),
        (8, (), True),
        (6, ("--older-than", "5 d"), True),
        (8, ("--older-than", "9 d"), False),
    ):
        changed = time.time() - days * 24 * 3600
        os.utime(events, (changed, changed))
        assert (str(events) in penstock(*looking_at(events, *options)).out) is is_shown, (days, options)
    done = penstock(*looking_at(events, "--older-than", "0 s", "--remove"))
    assert "job events" in done.out
    assert str(events) in done.out
    assert not events.exists()


def test_what_a_registered_job_needs_is_never_removed(penstock: Command, events: Path) -> None:
    registry = JobRegistry(default_directory())
    registry.add(RegistryEntry.of_this_process(LOST, "prices", "http://127.0.0.1:9", 1))
    options = looking_at(events, "--older-than", "0 s", "--ended-job", LOST, "--remove")
    done = penstock(*options)
    registry.clear()
    assert (done.code, done.out) == (0, "")
    assert events.exists()
    assert str(events) in penstock(*options).out  # it has ended
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
