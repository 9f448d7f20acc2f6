"""Builds the wheel and the source distribution into dist/, so that the same sources give the same bytes.

Usage: python3 dev.py package [FOLDER]. The tool that builds them takes the times of a wheel's files from
SOURCE_DATE_EPOCH; a source distribution would have those of the files, and their owner, so it is packed anew here.
"""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The first moment that a zip can have, and a day more for time zones.
TIME = 315_619_200
_BUILD = "import setuptools.build_meta as b, sys; b.build_wheel(sys.argv[1]); b.build_sdist(sys.argv[1])"


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
    subprocess.run([sys.executable, "-c", _BUILD, str(target)], cwd=ROOT, env=environment, check=True)
    for archive in target.glob("*.tar.gz"):
        archive.write_bytes(same_for_all(archive.read_bytes()))


if __name__ == "__main__":
    main(*sys.argv[1:])
