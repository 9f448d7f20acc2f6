"""What pip installs into an empty environment runs there: the wheel on each Python, the source distribution on one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.release.pythons import interpreters

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif("PENSTOCK_TEST_INSTALLED" not in os.environ, reason="gigabytes of packages: for the campaign"),
]

SECONDS = 900
CASES = [*((version, "*.whl") for version in interpreters()), (f"3.{sys.version_info.minor}", "*.tar.gz")]


@pytest.mark.parametrize(("version", "kind"), CASES)
def test_doctor_and_demo_run_where_nothing_else_is(built: Path, tmp_path: Path, version: str, kind: str) -> None:
    (packed,) = built.glob(kind)
    binaries = tmp_path / "environment" / "bin"
    run([interpreters()[version], "-m", "venv", binaries.parent], tmp_path, dict(os.environ))
    run([binaries / "python", "-m", "pip", "install", "--quiet", f"{packed}[demo]"], tmp_path, dict(os.environ))

    home = tmp_path / "home"
    home.mkdir()
    alone = {"HOME": str(home), "TMPDIR": str(tmp_path), "PATH": str(binaries)}  # with no Java on the path
    assert "failed" not in run([binaries / "penstock", "doctor"], home, alone)
    assert "328,521 departures" in run([binaries / "penstock", "demo"], home, alone)
    assert (home / "out" / "flights" / "delay-by-hour.html").is_file()
    wait_for_archive(binaries / "penstock", home, alone)
    if version == CASES[0][0]:
        assert "Both runs wrote the same lines" in run([binaries / "penstock", "demo", "--crash"], home, alone)


def wait_for_archive(penstock: Path, home: Path, alone: dict[str, str]) -> None:
    """Wait until the archive of Java's classes is there, which a process makes after the first job."""
    deadline = time.monotonic() + SECONDS
    while "shortens the start of Spark" not in (told := run([penstock, "doctor"], home, alone)):
        assert "Not there yet" in told, told
        assert time.monotonic() < deadline, told
        time.sleep(5)


def run(command: list[Path | str], place: Path, environment: dict[str, str]) -> str:
    """Run a command in a place, and return what it printed."""
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout
