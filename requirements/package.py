"""Builds the wheel and the source distribution into dist/, so that the same sources give the same bytes.

Usage: python3 dev.py package [FOLDER]. Both are built in a copy of what belongs to them: the tool that builds them
keeps what it has copied before, and would pack a module that is not there any more. It takes the times of a wheel's
files from SOURCE_DATE_EPOCH; a source distribution would have those of the files, and their owner, so it is packed
anew here.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What both are made of, beside the source.
FILES = ("pyproject.toml", "README.md", "LICENSE", "NOTICE")
#: The first moment that a zip can have, and a day more for time zones.
TIME = 315_619_200
#: The tool puts words of its own into sys.argv.
_BUILD = "import setuptools.build_meta as b, sys; to = sys.argv[1]; b.build_wheel(to); b.build_sdist(to)"


def same_for_all(archive: bytes) -> bytes:
    """Return a source distribution with its files in order, of one time and of no owner."""
    buffer = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as before,
        gzip.GzipFile(fileobj=buffer, mode="wb", filename="", mtime=TIME) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as after,
    ):
        for member in sorted(before.getmembers(), key=lambda each: each.name):
            content = before.extractfile(member) if member.isfile() else None
            plain = tarfile.TarInfo(member.name)
            plain.type, plain.size, plain.mtime = member.type, member.size, TIME
            plain.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            after.addfile(plain, content)
    return buffer.getvalue()


def main(folder: str = "dist") -> None:
    """Build both into a folder."""
    target = ROOT / folder
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(TIME)}
    with tempfile.TemporaryDirectory() as place:
        for name in FILES:
            shutil.copy(ROOT / name, place)
        left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / "src", Path(place) / "src", ignore=left_out)
        subprocess.run([sys.executable, "-c", _BUILD, str(target)], cwd=place, env=environment, check=True)
    for archive in target.glob("*.tar.gz"):
        archive.write_bytes(same_for_all(archive.read_bytes()))


if __name__ == "__main__":
    main(*sys.argv[1:])
