"""The Pythons of this machine that Penstock is for: on the PATH, or kept by pyenv beside those."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13")


def interpreters() -> dict[str, str]:
    """Return an interpreter of each version that is here, by the version."""
    found = {version: _interpreter(version) for version in VERSIONS}
    return {version: path for version, path in found.items() if path is not None}


def _interpreter(version: str) -> str | None:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [
        shutil.which(f"python{version}"),
        *map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))),
    ]
    return next((path for path in candidates if path is not None and _works(path)), None)


def _works(path: str) -> bool:
    """Tell whether it is one, and no command of pyenv's for a version that is not in use."""
    return subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0
