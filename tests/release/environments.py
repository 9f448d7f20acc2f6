"""Environments of their own, in which tests run with other versions than those of the suite."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.release.pythons import VERSIONS, interpreters

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements"
#: With what stands in the environment already.
_ALONE = ("--no-deps", "--no-build-isolation")


def make_environment(place: Path, locks: tuple[str, ...], *packages: str, version: str = VERSIONS[0]) -> Path:
    """Make an environment with pip, as users have it, and with Penstock; return its Python.

    Args:
        place: Its directory.
        locks: The names of locks; a later one replaces what an earlier one has brought.
        packages: Further ones in their place.
        version: Of Python.
    """
    python = _make(place, version)
    for lock in locks:
        _install(python, *_ALONE, "--require-hashes", "-r", REQUIREMENTS / f"{lock}.txt")
    _install(python, *_ALONE, *packages, ROOT)
    return python


def make_newest_environment(place: Path, groups: tuple[str, ...]) -> Path:
    """Make one with the newest version of each dependency that pyproject.toml allows; return its Python.

    Args:
        place: Its directory.
        groups: Groups of pyproject.toml beside what Penstock and its extras need.
    """
    python = _make(place, VERSIONS[0])
    named = (word for group in groups for word in ("--group", f"{ROOT / 'pyproject.toml'}:{group}"))
    _install(python, "-r", ROOT / "pyproject.toml", "--all-extras", *named)
    _install(python, *_ALONE, ROOT)
    return python


def _make(place: Path, version: str) -> Path:
    subprocess.run([interpreters()[version], "-m", "venv", place], check=True)
    return place / "bin" / "python"


def _install(python: Path, *arguments: str | Path) -> None:
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python]
    subprocess.run([*uv, *arguments], check=True)


def run_tests(python: Path, arguments: list[str], *, at_least: int, seconds: int) -> None:
    """Run tests there, by arguments of pytest; fail where one does, or where fewer than so many have passed."""
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PATH": f"{python.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= at_least
