"""The wheel and the source distribution: all of the source is in them, and the wheel alone has a working command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from penstock import __version__

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"


@pytest.fixture(scope="session")
def unpacked(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files, as pip would put them into an environment."""
    place = tmp_path_factory.mktemp("unpacked")
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(place)
    return place


def files_of_the_source() -> set[str]:
    files = (path for path in (SOURCES / "penstock").rglob("*") if path.is_file())
    return {path.relative_to(SOURCES).as_posix() for path in files if "__pycache__" not in path.parts}


def test_wheel_has_every_file_of_the_source_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    information = {name for name in packed if name.startswith(f"penstock-{__version__}.dist-info/")}
    assert packed - information == files_of_the_source()


def test_source_distribution_has_what_a_wheel_is_made_of(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        packed = {name.partition("/")[2] for name in members.getnames()}
    wanted = {f"src/{name}" for name in files_of_the_source()} | {"pyproject.toml", "README.md", "LICENSE", "NOTICE"}
    assert wanted <= packed
    assert not [name for name in packed if name.startswith(("tests", "docs", ".venv"))]


@pytest.mark.parametrize(
    ("words", "shown"),
    [(["doctor", "--json"], f'"{__version__}"'), (["demo", "--help"], "usage: penstock demo"), (["--version"], "")],
)
def test_command_of_the_wheel_runs_elsewhere(unpacked: Path, tmp_path: Path, words: list[str], shown: str) -> None:
    environment = {"HOME": str(tmp_path), "PATH": os.devnull, "PYTHONPATH": str(unpacked)}
    program = "import penstock, sys; from penstock._engine.cli.main import main; print(penstock.__file__); main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    place, _, rest = done.stdout.partition("\n")
    assert place == str(unpacked / "penstock" / "__init__.py")
    assert shown in rest, done.stderr
    if "--json" in words:
        verdicts = {row["subject"]: row["verdict"] for row in json.loads(rest)}
        assert verdicts["Java"] == "ok"  # the one that comes with Penstock: there is no PATH
        assert "failed" not in verdicts.values()
