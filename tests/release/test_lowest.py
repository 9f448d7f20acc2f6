"""The tests of units and connectors with the lowest versions that users may have: requirements/lowest.txt."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.release.pythons import VERSIONS, interpreters

pytestmark = pytest.mark.skipif(
    "PENSTOCK_TEST_LOWEST" not in os.environ, reason="an environment of its own: for the campaign"
)

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements"
SECONDS = 6600


def test_units_and_connectors_pass_with_the_lowest_versions(tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([interpreters()[VERSIONS[0]], "-m", "venv", environment], check=True)  # with pip, as users have it
    python = environment / "bin" / "python"
    uv = [sys.executable, "-m", "uv", "pip"]
    install = [*uv, "install", "--quiet", "--python", python, "--no-deps", "--no-build-isolation"]
    for lock in ("build", "dev", "lowest"):  # what tests need, and then what users have in its place
        subprocess.run([*install, "--require-hashes", "-r", REQUIREMENTS / f"{lock}.txt"], check=True)
    subprocess.run([*install, ROOT], check=True)

    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "tests/unit", "tests/connectors"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PATH": f"{python.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 2000
