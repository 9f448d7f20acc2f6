"""The pages belong to the package: they are in what users install."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATIC = Path("penstock/_engine/rest/static")


def test_wheel_has_every_file_of_the_pages(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "src" / STATIC, tmp_path / "src" / STATIC)
    for package in [STATIC.parent, *STATIC.parent.parents][:-1]:
        shutil.copy(ROOT / "src" / package / "__init__.py", tmp_path / "src" / package)
    build = "import setuptools.build_meta as backend; backend.build_wheel('dist')"
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("dist/*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith(STATIC.as_posix())}
    files = [path for path in (ROOT / "src" / STATIC).rglob("*") if path.is_file()]
    wanted = {path.relative_to(ROOT / "src").as_posix() for path in files}
    assert packed == wanted
    assert len(wanted) > 10


def test_no_file_of_the_pages_names_another_server() -> None:
    for path in (ROOT / "src" / STATIC).rglob("*.*"):
        addresses = set(re.findall(r"https?://[^\s\"']+", path.read_text(encoding="utf-8")))
        assert addresses <= {"http://www.w3.org/2000/svg"}, path
