"""The registry of running jobs: what a driver writes, what the command finds, what a killed process leaves."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from penstock._engine.gateway.registry import RunningJob, register, registry_directory, running_jobs
from penstock.errors import LocalDirectoryError

JOB = RunningJob(job_id="a" * 32, job_name="prices", address="http://127.0.0.1:8081", started_ms=2, token="secret")
SOURCES = Path(__file__).parents[3] / "src"

OTHER_PROCESS = """
import sys
from pathlib import Path
from penstock._engine.gateway.registry import RunningJob, register
held = register(RunningJob(job_id="b" * 32, job_name="other", address="http://127.0.0.1:8082"), Path(sys.argv[1]))
print("registered", flush=True)
sys.stdin.read()
"""


def test_registered_job_is_found_until_it_is_unregistered(tmp_path: Path) -> None:
    entry = register(JOB, tmp_path)
    assert running_jobs(tmp_path) == [JOB]
    entry.unregister()
    entry.unregister()
    assert running_jobs(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_jobs_are_listed_oldest_first(tmp_path: Path) -> None:
    younger = RunningJob(job_id="0" * 32, job_name="orders", address="http://127.0.0.1:8082", started_ms=3)
    entries = [register(job, tmp_path) for job in (younger, JOB)]
    assert running_jobs(tmp_path) == [JOB, younger]
    for entry in entries:
        entry.unregister()


def test_entry_with_a_token_is_for_this_user_alone(tmp_path: Path) -> None:
    place = tmp_path / "jobs"
    entry = register(JOB, place)
    assert stat.S_IMODE(entry.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    entry.unregister()


def test_entry_of_a_killed_process_is_not_listed_and_removed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "registered\n"
        assert [job.job_name for job in running_jobs(tmp_path)] == ["other"]
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert running_jobs(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_jobs_of_another_machine_and_foreign_files_are_left_alone(tmp_path: Path) -> None:
    entry = register(RunningJob(job_id="c" * 32, job_name="far", address="http://far:8081", host="elsewhere"), tmp_path)
    (tmp_path / "notes.json").write_text("{}")
    assert running_jobs(tmp_path) == []
    assert {path.name for path in tmp_path.iterdir()} == {entry.path.name, "notes.json"}
    entry.unregister()


def test_directory_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalDirectoryError, match="file"):
        register(JOB, tmp_path / "file" / "jobs")


def test_directory_is_below_the_home_or_where_xdg_says() -> None:
    assert registry_directory({"HOME": "/home/me"}) == Path("/home/me/.local/state/penstock/jobs")
    assert registry_directory({"HOME": "/home/me", "XDG_STATE_HOME": "/state"}) == Path("/state/penstock/jobs")
