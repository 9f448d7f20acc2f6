"""The page of what is stable names what there is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from penstock import __version__

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")


def test_page_names_each_public_package_and_no_other() -> None:
    rows = re.search(r"names of the packages (.+?), as the API reference", PAGE)
    assert rows is not None
    named = set(re.findall(r"`penstock\.(\w+)`", rows[1]))
    paths = [path for path in (ROOT / "src" / "penstock").iterdir() if not path.name.startswith("_")]
    assert named == {path.stem for path in paths if path.is_dir() or path.suffix == ".py"}


def test_page_is_of_this_version_and_of_the_pythons_of_the_package() -> None:
    assert f"Penstock is at {__version__}." in PAGE
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pythons = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    (row,) = re.findall(r"^\| Python \| (.+?) \|", PAGE, re.MULTILINE)
    assert re.findall(r"3\.\d+", row) == pythons
