"""The registry of running jobs: what a driver writes, what the command finds, what a killed process leaves."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from penstock._engine.processes.registry import JobRegistry, RegistryEntry, default_directory

JOB = RegistryEntry.of_this_process("a" * 32, "prices", "http://127.0.0.1:8081", 2, token="secret")
SOURCES = Path(__file__).parents[3] / "src"

OTHER_PROCESS = """
import sys
from pathlib import Path
from penstock._engine.processes.registry import RegistryEntry, JobRegistry
registry = JobRegistry(Path(sys.argv[1]))
registry.add(RegistryEntry.of_this_process("b" * 32, "other", "http://127.0.0.1:8082", 1))
print("listed", flush=True)
sys.stdin.read()
"""


def test_job_is_listed_until_it_is_removed(tmp_path: Path) -> None:
    own = JobRegistry(tmp_path)
    own.add(JOB)
    assert JobRegistry(tmp_path).entries() == [JOB]
    own.remove(JOB)
    own.remove(JOB)
    assert JobRegistry(tmp_path).entries() == []
    assert list(tmp_path.iterdir()) == []


def test_job_that_starts_is_no_job_with_an_address_and_goes_with_its_process(tmp_path: Path) -> None:
    own = JobRegistry(tmp_path)
    starting = RegistryEntry.of_this_process("", "prices", "http://127.0.0.1:8081", 1, run_id="a")
    own.add(starting)
    own.add(JOB)
    assert (JobRegistry(tmp_path).entries(), JobRegistry(tmp_path).starting()) == ([JOB], [starting])
    own.remove(starting)
    assert (own.entries(), own.starting()) == ([JOB], [])
    own.add(starting)
    left = next(path for path in tmp_path.iterdir() if path.suffix == ".starting")
    content = left.read_bytes()
    own.remove(starting)
    left.write_bytes(content)  # as a process leaves it that was killed
    assert JobRegistry(tmp_path).starting() == []
    assert not left.exists()
    own.clear()


def test_runs_of_one_job_in_one_process_have_an_entry_each(tmp_path: Path) -> None:
    runs = [
        RegistryEntry.of_this_process("a" * 32, "prices", "http://127.0.0.1:8081", at, run_id=f"{at}") for at in (1, 2)
    ]
    own = JobRegistry(tmp_path)
    for entry in runs:
        own.add(entry)
    assert own.entries() == runs
    own.remove(runs[1])
    assert own.entries() == runs[:1]
    own.remove(runs[0])
    assert own.entries() == []


def test_jobs_are_listed_oldest_first(tmp_path: Path) -> None:
    own = JobRegistry(tmp_path)
    younger = RegistryEntry.of_this_process("0" * 32, "orders", "http://127.0.0.1:8082", 3)
    for entry in (younger, JOB):
        own.add(entry)
    assert own.entries() == [JOB, younger]
    own.clear()
    assert own.entries() == []


def test_entry_with_a_token_is_for_this_user_alone(tmp_path: Path) -> None:
    own = JobRegistry(tmp_path / "jobs")
    own.add(JOB)
    (file,) = (tmp_path / "jobs").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    own.clear()


def test_entry_of_a_killed_process_is_not_listed_and_removed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "listed\n"
        assert [entry.name for entry in JobRegistry(tmp_path).entries()] == ["other"]
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert JobRegistry(tmp_path).entries() == []
    assert list(tmp_path.iterdir()) == []


def test_entry_whose_process_number_was_given_to_another_process_is_removed(tmp_path: Path) -> None:
    own = JobRegistry(tmp_path)
    own.add(JOB)
    (file,) = tmp_path.iterdir()
    left = file.read_bytes()
    own.clear()
    file.write_bytes(left)  # as a killed process leaves it: nobody holds it, and there is a process of that number
    assert JobRegistry(tmp_path).entries() == []
    assert not file.exists()


def test_jobs_of_another_machine_count_as_alive_and_foreign_files_are_left_alone(tmp_path: Path) -> None:
    far = RegistryEntry("c" * 32, "far", "http://far:8081", 2**22 + 1, "elsewhere", 1)
    own = JobRegistry(tmp_path)
    own.add(far)
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / "folder.json").mkdir()
    descriptors = set(Path("/dev/fd").iterdir())
    assert JobRegistry(tmp_path).entries() == [far]
    assert set(Path("/dev/fd").iterdir()) == descriptors
    assert not far.is_local
    assert (tmp_path / "notes.json").exists()
    own.clear()


def test_directory_that_cannot_be_written_to_harms_no_job(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    own = JobRegistry(tmp_path / "file" / "jobs")
    own.add(JOB)
    own.clear()
    assert own.entries() == []


@pytest.mark.parametrize("what", ["the entry", "the directory"])
def test_entry_of_a_live_job_that_was_cleaned_away_is_written_again(tmp_path: Path, what: str) -> None:
    own = JobRegistry(tmp_path / "jobs")
    own.add(JOB)
    own.restore()
    assert JobRegistry(tmp_path / "jobs").entries() == [JOB]
    if what == "the entry":
        next((tmp_path / "jobs").iterdir()).unlink()
    else:
        shutil.rmtree(tmp_path / "jobs")
    assert JobRegistry(tmp_path / "jobs").entries() == []
    own.restore()
    assert JobRegistry(tmp_path / "jobs").entries() == [JOB]
    own.clear()
    assert list((tmp_path / "jobs").iterdir()) == []
    own.restore()
    assert list((tmp_path / "jobs").iterdir()) == []


def test_directory_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PENSTOCK_REST__REGISTRY_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert default_directory() == tmp_path / "state/penstock/jobs"
    assert not (tmp_path / "state").exists()
    monkeypatch.setenv("PENSTOCK_REST__REGISTRY_DIR", "/elsewhere")
    assert default_directory() == Path("/elsewhere")


@pytest.mark.parametrize("home_is", ["absent", "not there and cannot be made"])
def test_without_a_home_entries_are_in_a_temporary_directory_of_this_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home_is: str
) -> None:
    for name in ("PENSTOCK_REST__REGISTRY_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if home_is == "absent":
        monkeypatch.setattr(Path, "home", _no_home)
    else:
        monkeypatch.setenv("HOME", "/dev/null/nobody")
    directory = default_directory()
    assert directory == tmp_path / f"penstock-state-{os.geteuid()}" / "jobs"
    own = JobRegistry(directory)
    own.add(JOB)
    assert JobRegistry(default_directory()).entries() == [JOB]
    assert stat.S_IMODE(directory.parent.stat().st_mode) == 0o700
    own.clear()


def _no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_local_entry_is_one_of_this_machine() -> None:
    assert JOB.is_local
    assert JOB.host == socket.gethostname()
